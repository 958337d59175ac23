"""Rerankers: a query and its candidates in, a relevance score a candidate out.

A reranker makes one call for each `score`, for as many queries' documents as its `capacity` says. The rerank stage
batches them, bounds the calls in flight, and splits what is too much for one call.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, Protocol

from operators.access.firewall import AccessFilter
from operators.query.backend_answers import Embedding, Scores
from schemas.errors import BackendError


@dataclass(frozen=True, slots=True)
class RerankRequest:
    """A query and those of its candidates to score: `documents` maps a point id to its text, best first.

    `known` are the scores of its other candidates, `watermark` is how far the namespace is indexed, as far as that is
    known. `neighbours` are the point ids of the documents of a document's context, its own among them, whose mean has
    the share `context` of its score. `stored`: the collection can keep token vectors; `compared`: Qdrant may be asked
    to compare them. `access`: the documents that the query may see when they are compared; None is all.
    """

    query: str
    documents: Mapping[str, str]
    collection: str
    namespace: str
    embedding: Embedding | None = None
    known: Scores = field(default_factory=dict)
    watermark: tuple[str, ...] | None = None
    stored: bool = True
    compared: bool = True
    neighbours: Mapping[str, Sequence[str]] = field(default_factory=dict)
    context: float = 0.0
    access: AccessFilter | None = None

    @property
    def read(self) -> list[str]:
        """The point ids of the documents, and of their neighbours where these count."""
        around = (id_ for own in self.documents for id_ in self.neighbours.get(own, ())) if self.context else ()
        return list(dict.fromkeys((*self.documents, *around)))


Reads = Literal["text", "tokens", "stored_tokens"]
"""The inputs of a reranker: texts; texts and the query's token vectors; or these and those that the index keeps."""


@dataclass(frozen=True, slots=True)
class Capacity:
    """The bounds of one call to a reranker: documents of at most `queries` queries, at most `documents` in all.

    `chars` bounds the code points of queries and documents together; 0 is no bound. `whole`: a query's documents go in
    one call, however many they are. `compared`: they are judged by comparing them, so that a score says nothing
    without the others. `apart`: queries that differ in this never share a call.
    """

    queries: int = 1
    documents: int = 1000
    chars: int = 0
    whole: bool = False
    compared: bool = False
    apart: Literal["namespace", "collection"] | None = None


class Reranker(Protocol):
    """The interface of a reranker for the rerank stage."""

    @property
    def reads(self) -> Reads: ...

    @property
    def model(self) -> str:
        """The model's name, as provenance reports it."""

    @property
    def capacity(self) -> Capacity: ...

    async def score(self, requests: Sequence[RerankRequest], *, timeout: float) -> Sequence[Scores | BackendError]:
        """Score each request's documents in one call within `timeout` seconds, one outcome a request, in their order.

        `requests` are within `capacity`, and each has a document. Raises BackendError when the whole call failed.
        """

    async def aclose(self) -> None: ...
