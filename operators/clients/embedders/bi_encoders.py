"""Bi-encoders behind HTTP: the APIs of OpenAI, text-embeddings-inference, Cohere, Voyage and NVIDIA's NIM.

Texts above a server's largest batch go out as several requests at once, answered whole or not at all.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Final, Generic

import numpy as np

from operators.clients.embedders import Purpose, Vector
from operators.clients.failures import in_batches
from operators.clients.http.backend import Backend
from operators.clients.http.dialect import by_index, fit_float32
from operators.clients.http.transport import CONTROL, Call
from operators.query.backend_answers import Embedding
from operators.text.terms import SparseVector
from schemas.errors import BackendBadResponse

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
    indexed: bool = True
    dimensions: str = "dimensions"
    model: str | None = "model"


APIS: Final[Mapping[str, EmbeddingApi]] = {
    "openai": EmbeddingApi("/embeddings", "input", {"encoding_format": "float"}, ("data",)),
    "tei": EmbeddingApi("/embed", "inputs", {"truncate": True}, (), indexed=False, model=None),
    "cohere": EmbeddingApi(
        "/embed",
        "texts",
        {"embedding_types": ["float"]},
        ("embeddings", "float"),
        indexed=False,
        dimensions="output_dimension",
    ),
    "voyage": EmbeddingApi("/embeddings", "input", {}, ("data",), dimensions="output_dimension"),
    "nim": EmbeddingApi("/embeddings", "input", {"encoding_format": "float", "truncate": "END"}, ("data",)),
}
"""By `embedder.kind`. OpenAI's is that of vLLM, infinity and llama-server, too."""

SPARSE_APIS: Final[Mapping[str, EmbeddingApi]] = {
    "tei": replace(APIS["tei"], path="/embed_sparse"),
    "openai": replace(APIS["openai"], fields={}),
}
"""By `sparse_encoder.kind`. The second is that of SGLang and Xinference."""

Read = Callable[[list[Any], str], list[Vector]]
"""Reads the rows of an answer, one a text, of a backend of this name. Raises BackendBadResponse."""


@dataclass(frozen=True, slots=True)
class BiEncoder(Generic[Vector]):
    """An Encoder that posts texts to one backend, at most `max_batch` in a request.

    `read` makes vectors of the answer's rows, and `dimensions` is asked for, if given. `purposes` have what tells the
    model that the texts are queries or documents: a prefix, and fields of the request.
    """

    backend: Backend
    model: str
    read: Read[Vector]
    api: EmbeddingApi
    max_batch: int = 32
    dimensions: int | None = None
    purposes: Mapping[str, Mapping[str, str]] = field(default_factory=dict)

    async def embed(self, texts: Sequence[str], *, purpose: Purpose, timeout: float) -> list[Vector]:
        control = self._call([CONTROL], purpose)

        async def request(batch: Sequence[str]) -> list[Vector]:
            return await self.backend.ask(self._call(batch, purpose, control), timeout=timeout)

        answers = await in_batches(texts, self.max_batch, request)
        return [embedding for answer in answers for embedding in answer]

    async def aclose(self) -> None:
        await self.backend.aclose()

    def _call(self, batch: Sequence[str], purpose: Purpose, control: Call[Any] | None = None) -> Call[list[Vector]]:
        fields = dict(self.purposes.get(purpose, {}))
        prefix = fields.pop(PREFIX, "")
        named = {} if self.api.model is None else {self.api.model: self.model}
        sized = {} if self.dimensions is None else {self.api.dimensions: self.dimensions}
        texts = [prefix + text for text in batch] if prefix else batch
        body = {**named, self.api.texts: texts, **self.api.fields, **sized, **fields}
        return Call(self.api.path, body, partial(self._read, len(batch)), repeatable=True, control=control)

    def _read(self, count: int, answer: object) -> list[Vector]:
        """The vectors of an answer for `count` texts, in their order. Raises BackendBadResponse."""
        name = self.backend.name
        for member in self.api.members:
            answer = answer.get(member) if isinstance(answer, dict) else None
        if self.api.indexed:
            vectors = by_index(answer, "embedding", count, backend=name, ordered=True)
            if len(vectors) != count:
                raise BackendBadResponse(f"{name}: {len(vectors)} vectors for {count} texts")
            return self.read([vectors[index] for index in range(count)], name)
        if not isinstance(answer, list) or len(answer) != count:
            raise BackendBadResponse(f"{name}: not a vector a text")
        return self.read(answer, name)


def dense(dimension: int) -> Read[Embedding]:
    """Reads dense vectors of this length."""
    return lambda rows, name: unit_embeddings(rows, dimension, backend=name)


def unit_embeddings(rows: list[Any], dimension: int, *, backend: str) -> list[Embedding]:
    """Read each row as a vector and bring it to unit length.

    Raises BackendBadResponse unless every row is a list of finite numbers (booleans aren't), as many as `dimension`, or
    for zeros alone: servers answer these for a text that they cannot digest.
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


def sparse(rows: list[Any], backend: str) -> list[SparseVector]:
    """Read each row as a sparse vector: a list of {index, value}, or an object of indices and values.

    A term of the value 0 is left out, so that an empty vector says nothing of its text. Raises BackendBadResponse for
    a term that is none or comes twice, and for a value that is no number of 32 bits.
    """
    return [_sparse(row, backend) for row in rows]


def _sparse(row: object, backend: str) -> SparseVector:
    if isinstance(row, dict):
        pairs = [(_term(key), value) for key, value in row.items()]
    elif isinstance(row, list) and all(isinstance(each, dict) for each in row):
        pairs = [(each.get("index"), each.get("value")) for each in row]
    else:
        raise BackendBadResponse(f"{backend}: a sparse vector is neither a list of terms nor an object")
    if not all(type(term) is int and term in range(2**32) for term, _ in pairs):
        raise BackendBadResponse(f"{backend}: a term is no number of 32 bits")
    terms: dict[Any, Any] = dict(pairs)
    if len(terms) < len(pairs):
        raise BackendBadResponse(f"{backend}: a term comes twice")
    if not _NUMBERS.issuperset(map(type, terms.values())) or not fit_float32(terms.values()):
        raise BackendBadResponse(f"{backend}: a value is no number of 32 bits")
    indices = sorted(term for term, value in terms.items() if value)
    return SparseVector(indices, [terms[index] for index in indices])


def _term(key: str) -> int | None:
    return int(key) if key.isascii() and key.isdecimal() and len(key) <= 10 else None
