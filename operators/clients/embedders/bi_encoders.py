"""Bi-encoders behind HTTP: text-embeddings-inference (`POST {base}/embed`) and OpenAI's API (`POST {base}/embeddings`).

Texts above a server's largest batch go out as several requests at once, answered whole or not at all.
"""

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar, TypeVar

import numpy as np

from operators.clients.http.backend import Backend
from operators.clients.http.dialect import by_index
from operators.clients.http.transport import CONTROL, Control
from operators.query.backend_answers import Embedding
from schemas.errors import BackendBadResponse

Item = TypeVar("Item")
Answer = TypeVar("Answer")

_NUMBERS = {int, float}


@dataclass(frozen=True, slots=True)
class BiEncoder(ABC):
    """An Embedder that posts texts to one backend, at most `max_batch` in a request.

    `dimension` is what every vector must have.
    """

    path: ClassVar[str]

    backend: Backend
    model: str
    dimension: int
    max_batch: int

    async def embed(self, texts: Sequence[str], *, timeout: float) -> list[Embedding]:
        async def request(batch: Sequence[str]) -> list[Embedding]:
            read = partial(self._read, len(batch))
            body, control = self._body(batch), self._control
            return await self.backend.ask(self.path, body, read, timeout=timeout, repeatable=True, control=control)

        answers = await in_batches(texts, self.max_batch, request)
        return [embedding for answer in answers for embedding in answer]

    async def aclose(self) -> None:
        await self.backend.aclose()

    @property
    def _control(self) -> Control:
        return Control(self.path, self._body([CONTROL]), partial(self._read, 1))

    @abstractmethod
    def _body(self, batch: Sequence[str]) -> dict[str, Any]: ...

    @abstractmethod
    def _rows(self, count: int, answer: object) -> list[Any]:
        """The vectors of an answer for `count` texts, in their order. Raises BackendBadResponse."""

    def _read(self, count: int, answer: object) -> list[Embedding]:
        return unit_embeddings(self._rows(count, answer), self.dimension, backend=self.backend.name)


@dataclass(frozen=True, slots=True)
class TeiEmbedder(BiEncoder):
    """A bi-encoder over TEI's own API; a text longer than the model's context is truncated by the server.

    `max_batch` is the server's `max-client-batch-size`.
    """

    path = "/embed"

    max_batch: int = 32

    def _body(self, batch: Sequence[str]) -> dict[str, Any]:
        return {"inputs": batch, "truncate": True}

    def _rows(self, count: int, answer: object) -> list[Any]:
        if not isinstance(answer, list) or len(answer) != count:
            raise BackendBadResponse(f"{self.backend.name}: not a vector a text")
        return answer


@dataclass(frozen=True, slots=True)
class OpenAIEmbedder(BiEncoder):
    """A bi-encoder over the API that OpenAI, vLLM, infinity and llama-server share."""

    path = "/embeddings"

    max_batch: int = 256

    def _body(self, batch: Sequence[str]) -> dict[str, Any]:
        return {"model": self.model, "input": batch, "encoding_format": "float"}

    def _rows(self, count: int, answer: object) -> list[Any]:
        entries = answer.get("data") if isinstance(answer, dict) else None
        vectors = by_index(entries, "embedding", count, backend=self.backend.name)
        if len(vectors) != count:
            raise BackendBadResponse(f"{self.backend.name}: {len(vectors)} vectors for {count} texts")
        return [vectors[index] for index in range(count)]


async def in_batches(
    items: Sequence[Item], size: int, call: Callable[[Sequence[Item]], Coroutine[Any, Any, Answer]]
) -> list[Answer]:
    """Call `call` at once on each run of at most `size` items and return the answers in the items' order.

    Raises the error of the first failing call, after cancelling the others.
    """
    batches = [items[start : start + size] for start in range(0, len(items), size)]
    if len(batches) == 1:
        return [await call(batches[0])]
    try:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(call(batch)) for batch in batches]
    except ExceptionGroup as failures:
        failure = failures.exceptions[0]
    else:
        return [task.result() for task in tasks]
    raise failure


def unit_embeddings(rows: list[Any], dimension: int, *, backend: str) -> list[Embedding]:
    """Read each row as a vector and bring it to unit length.

    Raises BackendBadResponse unless every row is a list of finite numbers (booleans aren't), as many as `dimension`,
    and not zeros alone: servers answer these for a text that they cannot digest.
    """
    if not rows:
        return []
    for row in rows:
        # numpy would take true for 1 and null for NaN.
        if not isinstance(row, list) or not _NUMBERS.issuperset(map(type, row)):
            raise BackendBadResponse(f"{backend}: a vector is not a list of numbers")
    if others := set(map(len, rows)) - {dimension}:
        raise BackendBadResponse(f"{backend}: vectors of another dimension than {dimension}: {min(others)}")
    try:
        matrix = np.array(rows, dtype=np.float64)
    except OverflowError:
        raise BackendBadResponse(f"{backend}: a vector holds a number out of range") from None
    if not np.isfinite(matrix).all():
        raise BackendBadResponse(f"{backend}: a vector holds a number that is not finite")
    # Scaled by the largest first: squares of very large or very small numbers leave the range of a double.
    peaks = np.abs(matrix).max(axis=-1, keepdims=True)
    if not peaks.all():
        raise BackendBadResponse(f"{backend}: a vector of zeros")
    matrix /= peaks
    matrix /= np.linalg.norm(matrix, axis=-1, keepdims=True)
    # A copy each: a view kept in a cache would keep the whole batch.
    return [Embedding(row.astype(np.float32)) for row in matrix]
