"""Bi-encoders behind HTTP: the APIs of OpenAI, text-embeddings-inference, Cohere, Voyage and NVIDIA's NIM.

`APIS` has each: where its calls go, what they carry beside the texts, and where the answer has the vectors. Texts above
a server's largest batch go out as several requests at once, answered whole or not at all.
"""

import asyncio
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final, TypeVar

import numpy as np

from operators.clients.embedders import Purpose
from operators.clients.http.backend import Backend
from operators.clients.http.dialect import by_index
from operators.clients.http.transport import CONTROL, Control
from operators.query.backend_answers import Embedding
from schemas.errors import BackendBadResponse

Item = TypeVar("Item")
Answer = TypeVar("Answer")

_NUMBERS = {int, float}

PREFIX: Final = "prefix"
"""The name of what is put before a text; others are names of fields of the request."""


@dataclass(frozen=True, slots=True)
class EmbeddingApi:
    """The API of a server: calls are posted to `path`, with the texts in the field `texts`, and `fields`.

    `members` lead to the list of vectors in an answer; none of them: the answer is the list. `indexed`: it is a list of
    {index, embedding}; otherwise of vectors in the texts' order. `dimensions` names the field of the vectors' length,
    and `model` that of the model, None where a server has one alone.
    """

    path: str
    texts: str
    fields: Mapping[str, Any]
    members: tuple[str, ...]
    indexed: bool
    dimensions: str
    model: str | None = "model"


APIS: Final[Mapping[str, EmbeddingApi]] = {
    "openai": EmbeddingApi(
        "/embeddings", "input", {"encoding_format": "float"}, ("data",), indexed=True, dimensions="dimensions"
    ),
    "tei": EmbeddingApi("/embed", "inputs", {"truncate": True}, (), indexed=False, dimensions="dimensions", model=None),
    "cohere": EmbeddingApi(
        "/embed",
        "texts",
        {"embedding_types": ["float"]},
        ("embeddings", "float"),
        indexed=False,
        dimensions="output_dimension",
    ),
    "voyage": EmbeddingApi("/embeddings", "input", {}, ("data",), indexed=True, dimensions="output_dimension"),
    "nim": EmbeddingApi(
        "/embeddings",
        "input",
        {"encoding_format": "float", "truncate": "END"},
        ("data",),
        indexed=True,
        dimensions="dimensions",
    ),
}
"""By `embedder.kind`. OpenAI's is that of vLLM, infinity and llama-server, too."""


@dataclass(frozen=True, slots=True)
class BiEncoder:
    """An Embedder that posts texts to one backend, at most `max_batch` in a request.

    `dimension` is what every vector must have; `dimensions` is asked for, if given. `purposes` have what tells the
    model that the texts are queries or documents: a prefix, and fields of the request.
    """

    backend: Backend
    model: str
    dimension: int
    api: EmbeddingApi
    max_batch: int = 32
    dimensions: int | None = None
    purposes: Mapping[str, Mapping[str, str]] = field(default_factory=dict)

    async def embed(self, texts: Sequence[str], *, purpose: Purpose, timeout: float) -> list[Embedding]:
        async def request(batch: Sequence[str]) -> list[Embedding]:
            read = partial(self._read, len(batch))
            body, control = self._body(batch, purpose), self._control(purpose)
            return await self.backend.ask(self.api.path, body, read, timeout=timeout, repeatable=True, control=control)

        answers = await in_batches(texts, self.max_batch, request)
        return [embedding for answer in answers for embedding in answer]

    async def aclose(self) -> None:
        await self.backend.aclose()

    def _control(self, purpose: Purpose) -> Control:
        return Control(self.api.path, self._body([CONTROL], purpose), partial(self._read, 1))

    def _body(self, batch: Sequence[str], purpose: Purpose) -> dict[str, Any]:
        fields = dict(self.purposes.get(purpose, {}))
        prefix = fields.pop(PREFIX, "")
        named = {} if self.api.model is None else {self.api.model: self.model}
        sized = {} if self.dimensions is None else {self.api.dimensions: self.dimensions}
        texts = [prefix + text for text in batch] if prefix else batch
        return {**named, self.api.texts: texts, **self.api.fields, **sized, **fields}

    def _read(self, count: int, answer: object) -> list[Embedding]:
        """The vectors of an answer for `count` texts, in their order. Raises BackendBadResponse."""
        name = self.backend.name
        for member in self.api.members:
            answer = answer.get(member) if isinstance(answer, dict) else None
        if self.api.indexed:
            vectors = by_index(answer, "embedding", count, backend=name)
            if len(vectors) != count:
                raise BackendBadResponse(f"{name}: {len(vectors)} vectors for {count} texts")
            return unit_embeddings([vectors[index] for index in range(count)], self.dimension, backend=name)
        if not isinstance(answer, list) or len(answer) != count:
            raise BackendBadResponse(f"{name}: not a vector a text")
        return unit_embeddings(answer, self.dimension, backend=name)


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

    Raises BackendBadResponse unless every row is a list of finite numbers (booleans aren't), as many as `dimension`.
    Zeros alone are refused, too: servers answer these for a text that they cannot digest.
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
