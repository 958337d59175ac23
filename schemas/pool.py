"""The candidate pool: the hits of all legs for one query. The search flow records it; `rankstream rank` ranks it."""

import base64
from collections.abc import Iterator
from typing import Annotated, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import AfterValidator, Field, JsonValue, PlainSerializer, PlainValidator, WithJsonSchema

from schemas.fields import MAX_FLOAT32, Consistent, DocumentId, Name, Strict, Timestamp
from schemas.query import QueryEvent

LegScore = Annotated[float, Field(ge=-MAX_FLOAT32, le=MAX_FLOAT32, allow_inf_nan=False)]


def encode_vector(vector: NDArray[np.float16]) -> str:
    """The components as little-endian floats of 16 bits, in base64."""
    return base64.b64encode(vector.astype("<f2").tobytes()).decode("ascii")


def _read(text: object) -> NDArray[np.float16]:
    if not isinstance(text, str):
        raise ValueError("a text is expected")
    # Raises ValueError by itself, for what is no base64 or no whole number of floats.
    vector = np.frombuffer(base64.b64decode(text, validate=True), "<f2").astype(np.float16)
    if not vector.size or not np.isfinite(vector).all():
        raise ValueError("finite numbers are expected")
    return vector


def _of_one_length(vectors: dict[str, NDArray[np.float16]]) -> dict[str, NDArray[np.float16]]:
    if len({vector.size for vector in vectors.values()}) > 1:
        raise ValueError("vectors of one length are expected")
    return vectors


Float16s = Annotated[
    NDArray[np.float16], PlainValidator(_read), PlainSerializer(encode_vector), WithJsonSchema({"type": "string"})
]
"""A vector as `encode_vector` writes it."""


ScoreMeasure = Literal["share", "similarity", "logit", "order"]
"""The kind of a reranker's scores."""


class PoolHit(Strict):
    """One document that a leg returned."""

    id: DocumentId
    score: LegScore
    payload: dict[str, JsonValue] = Field(default={})


class PoolLeg(Strict):
    """The hits of one leg, in the order in which it returned them. An empty list means that it found nothing."""

    name: Name
    hits: list[PoolHit]
    more: bool = Field(default=False, description="Whether it returned as many as it was asked for.")


class CandidatePool(Strict, Consistent):
    """A query, and the hits of every leg that answered. A leg that is missing here was unavailable."""

    query: QueryEvent
    now: Timestamp | None = Field(default=None, description="Clock of the ranking; missing: the query's `now`.")
    legs: list[PoolLeg]
    skip: Annotated[int, Field(ge=0)] = Field(default=0, description="Number of candidates on earlier pages.")
    given: list[str] = Field(default=[])
    """Ids of hits that earlier pages gave, of a page that continues after a write."""
    times: dict[str, Annotated[float, Field(allow_inf_nan=False)]] = Field(default={})
    """Document id -> the index's own time of it in ms, where `order_by` is created_at or updated_at."""
    words: dict[str, dict[str, list[str]]] | None = None
    """Word of the query -> id of each document that has it -> the fields that have it; null: unknown."""
    atoms: dict[str, Annotated[tuple[int, int], Field(strict=False)]] | None = None
    """Word of the query -> the number of its first atom, and how many it covers; missing: each is one."""
    vectors: Annotated[dict[str, Float16s], AfterValidator(_of_one_length)] | None = None
    """Document id -> its dense vector, if compared: base64 of components as little-endian floats of 16 bits."""
    alike: dict[str, dict[str, Annotated[float, Field(ge=0, le=1)]]] = Field(default={})
    """Document id -> id of one behind it -> the similarity of their terms, of the candidates that were compared."""
    rerank: dict[str, LegScore] | None = Field(default=None, description="Document id -> rerank score.")
    reranked_candidates: Annotated[int, Field(ge=0)] | None = None
    """Candidates that the reranker read; missing: as many as the profile has reranked."""

    measure: ScoreMeasure | None = None
    """The scores' kind: share is from 0 to 1, similarity is late interaction's, order says only who is better; missing:
    as the configured reranker's."""
    unscored: list[str] = Field(default=[])
    """Ids of documents among these without a score: it was not given them, or refused them."""

    def contradictions(self) -> Iterator[str]:
        names = [leg.name for leg in self.legs]
        if len(set(names)) < len(names):
            yield "legs: a name is listed twice"

    @property
    def clock(self) -> float | None:
        """The clock of the pool, or else of the query, in Unix seconds."""
        return self.now if self.now is not None else self.query.now
