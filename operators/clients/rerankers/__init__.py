"""Rerankers: a query and its candidates in, a relevance score a candidate out."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple, Protocol

from operators.clients.embedders import Embedding
from schemas.errors import BackendError


@dataclass(frozen=True, slots=True)
class RerankRequest:
    """One query's candidates: `documents` maps a point id to its text, best first."""

    query: str
    documents: Mapping[str, str]
    collection: str
    embedding: Embedding | None = None


Scores = Mapping[str, float]
"""Point id -> relevance, higher is better. A candidate left out was judged irrelevant."""


class Verdict(NamedTuple):
    """What a reranker said of a query's candidates."""

    model: str
    scores: Scores


Reads = Literal["text", "tokens"]
"""What a reranker reads: texts, or the query's token vectors and those that the index keeps."""


class Reranker(Protocol):
    """What the rerank stage asks of a reranker."""

    @property
    def reads(self) -> Reads:
        """What it can't do without."""
        ...

    @property
    def model(self) -> str:
        """The model's name, as provenance reports it."""
        ...

    async def rerank(self, requests: Sequence[RerankRequest], *, timeout: float) -> list[Scores | BackendError]:
        """Score each request's documents within `timeout` seconds, one outcome a request, in their order.

        A failure is a value, so that one query's failure leaves the others'.
        """
        ...

    async def aclose(self) -> None:
        """Release connections."""
        ...
