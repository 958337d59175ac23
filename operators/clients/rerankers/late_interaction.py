"""Late interaction: query and candidate compared token by token, with the embedder's own token vectors.

The query's come from the embed stage. Those of documents are in the index, and Qdrant computes MaxSim over the
candidates alone; where the collection forbids that, they are fetched and compared here. Those that the index lacks are
computed on the fly, if that is configured. Every way gives the same score within rounding, so that the scores of one
answer may come by several. No vector is compared of documents that the query may not see, such as neighbours.

MaxSim is one formula for all documents: the sum over the query's tokens of weight * best dot product with a token of
the document, divided by the sum of the weights. Both sides are rounded as Qdrant rounds them.
"""

import asyncio
import math
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import KW_ONLY, dataclass
from typing import Any, Final, Self

import numpy as np
from numpy.typing import NDArray

from operators.clients.failures import attempt
from operators.clients.qdrant.answers import PayloadTest
from operators.clients.qdrant.client import QdrantClient
from operators.clients.rerankers import Capacity, Reads, RerankRequest
from operators.clients.rerankers.token_idf import TokenIdf
from operators.clients.rerankers.token_vectors import DECIMALS, TokenVectors
from operators.query.backend_answers import Hits, Scores, SomeScores, parse_point_id
from operators.ranking.content import is_blank
from schemas.errors import BackendBadResponse, BackendError, BackendTimeout, NoTokenVectors

DOCUMENTS: Final = 100_000
"""Of one call: no bound in practice, for Qdrant sends back an id and a score of each."""


@dataclass(frozen=True, slots=True)
class WeightedQuery:
    """A query's token vectors, as long as their weights and rounded to DECIMALS."""

    tokens: NDArray[np.float32]

    @classmethod
    def of(cls, tokens: NDArray[np.float32], weights: NDArray[np.float32]) -> Self:
        """The query of these unit vectors, at least one, and of one positive weight each."""
        # Of mean 1: only their ratios count, and the vectors of a query of everyday tokens alone would round to zero.
        lengths = weights / weights.mean(dtype=np.float64)
        return cls(np.round(tokens * lengths[:, None], DECIMALS).astype(np.float32))

    @property
    def total(self) -> float:
        """The sum of the weights, by which a sum of best dot products becomes a score."""
        return float(len(self.tokens))

    def score(self, document: NDArray[np.float16]) -> float:
        """The score of a document with these token vectors, at least one: -1 to 1.

        Source: ColBERT's MaxSim (Khattab and Zaharia 2020); weights, and the division by their sum, are our own.
        """
        products = self.tokens.astype(np.float16).astype(np.float32) @ document.astype(np.float32).T
        return float(products.max(axis=1).sum(dtype=np.float64)) / self.total


@dataclass(eq=False)
class LateInteraction:
    """A Reranker over the multivector `using` (Dot, MaxSim) of each candidate's point, if the collection has one.

    `embedder` names the model that made both sides' token vectors; `has_token` is False for a text of which it reads
    nothing. Tokens weigh as `idf` says, else all the same. A call takes at most `queries` queries. `on_the_fly` is for
    documents that have none in the index. With it a call takes one query, since the others would wait for one's
    computation; and the reranker has at most `searches` requests under way, 0 or less is no bound.
    """

    client: QdrantClient
    embedder: str
    _: KW_ONLY
    using: str | None = "tokens"
    idf: TokenIdf | None = None
    on_the_fly: TokenVectors | None = None
    has_token: Callable[[str], bool] = lambda text: not is_blank(text)
    queries: int = 32
    searches: int = 0

    def __post_init__(self) -> None:
        self.model = f"late-interaction:{self.embedder}"
        self.reads: Reads = "stored_tokens" if self.on_the_fly is None else "tokens"
        together = self.queries if self.on_the_fly is None else 1
        self.capacity = Capacity(queries=together, documents=DOCUMENTS, whole=True, apart="collection")
        bounded = self.on_the_fly is not None and self.searches > 0
        self._searching = asyncio.Semaphore(self.searches) if bounded else nullcontext()

    async def score(self, requests: Sequence[RerankRequest], *, timeout: float) -> list[Scores | BackendError]:
        """Score each request's documents within `timeout` seconds, one outcome a request, in their order.

        Every document with a token is scored or its request isn't: NoTokenVectors where the index keeps no vectors of
        one and none are computed. A query without token vectors is BackendBadResponse.
        """
        deadline = time.monotonic() + timeout
        # Half of the time: a namespace whose weights are late then doesn't take the other queries' time with it.
        queries = await asyncio.gather(*(attempt(self._weigh(request, timeout / 2)) for request in requests))
        stored = await self._find_stored(requests, queries, deadline)
        # One after the other: each is answered when its own vectors are there, even when time is up for the next.
        each = zip(requests, queries, stored, strict=True)
        return [await attempt(self._scores(*its_own, deadline)) for its_own in each]

    async def aclose(self) -> None:
        """Stop the computation under way; client and embedder are their makers' to close."""
        if self.on_the_fly is not None:
            await self.on_the_fly.aclose()

    async def _weigh(self, request: RerankRequest, timeout: float) -> WeightedQuery:
        embedding = request.embedding
        if embedding is None or embedding.tokens is None or not len(embedding.tokens):
            raise BackendBadResponse("late interaction: the query has no token vectors")
        tokens = embedding.tokens
        if self.idf is None or not embedding.token_ids:
            return WeightedQuery.of(tokens, np.ones(len(tokens), np.float32))
        where = request.collection, request.namespace
        weights = await self.idf.weights(
            *where, embedding.token_ids, access=request.access, watermark=request.watermark, timeout=timeout
        )
        return WeightedQuery.of(tokens, weights)

    async def _find_stored(
        self, requests: Sequence[RerankRequest], queries: Sequence[WeightedQuery | BackendError], deadline: float
    ) -> list[Hits | BackendError | None]:
        """The hits among each request's documents in Qdrant; None if Qdrant isn't asked."""
        if self.using is None:
            return [None] * len(requests)
        pairs = enumerate(zip(requests, queries, strict=True))
        asked = {
            index: (request, query)
            for index, (request, query) in pairs
            if isinstance(query, WeightedQuery) and request.stored
        }
        found: dict[int, Hits | BackendError] = {}
        if searches := {index: self._search(query, of) for index, (of, query) in asked.items() if of.compared}:
            async with self._searching:
                bodies, left = list(searches.values()), deadline - time.monotonic()
                if left > 0:
                    answers = await self.client.query_batch(requests[0].collection, bodies, timeout=left)
                else:
                    answers = [BackendTimeout("late interaction: no turn in time")] * len(bodies)
            found = dict(zip(searches, answers, strict=True))
        for index in asked.keys() - searches.keys():
            found[index] = await attempt(self._compare_here(*asked[index], deadline))
        return list(map(found.get, range(len(requests))))

    async def _compare_here(self, request: RerankRequest, query: WeightedQuery, deadline: float) -> Hits:
        """Fetch the token vectors and compare them here: strict mode may forbid searches past a vector index."""
        assert self.using is not None
        ids, access = request.read, request.access
        only = None if access is None else PayloadTest(sorted(access.reads), lambda _, payload: access.permits(payload))
        async with self._searching:
            left = deadline - time.monotonic()
            vectors = await self.client.vectors(request.collection, ids, self.using, only=only, timeout=left)

        def scores() -> list[float]:
            return [query.score(np.asarray(vector, np.float16)) * query.total for vector in vectors.values()]

        # In a thread: long documents take tens of milliseconds, in which the loop has other calls to serve.
        return Hits(list(vectors), await asyncio.to_thread(scores), [{}] * len(vectors))

    def _search(self, query: WeightedQuery, request: RerankRequest) -> Mapping[str, Any]:
        ids = request.read
        must: list[Any] = [{"has_id": [parse_point_id(identity) for identity in ids]}]
        if request.access is not None:
            # A neighbour, or a candidate, may have been hidden since the legs found it.
            must += request.access.conditions()
        return {
            "query": query.tokens,
            "using": self.using,
            "filter": {"must": must},
            "limit": len(ids),
            "with_payload": False,
        }

    async def _scores(
        self,
        request: RerankRequest,
        query: WeightedQuery | BackendError,
        found: Hits | BackendError | None,
        deadline: float,
    ) -> Scores:
        if isinstance(query, BackendError):
            raise query
        if isinstance(found, BackendError):
            raise found
        hits = zip(found.ids, found.scores, strict=True) if found is not None else ()
        scores = {id_: score / query.total for id_, score in hits}
        others = {id_: text for id_, text in request.documents.items() if id_ not in scores}
        if not others:
            return _with_context(request, scores)
        # In threads: long documents take tens of milliseconds, in which the loop has other calls to serve.
        if self.on_the_fly is None:
            if await asyncio.to_thread(lambda: any(map(self.has_token, others.values()))):
                # Leaving them out would judge them irrelevant, and they were not read.
                share = f"{len(others)} of {len(request.documents)}"
                raise NoTokenVectors(f"late interaction: {share} documents have no token vectors")
            return SomeScores(_with_context(request, scores), frozenset(others))
        vectors = await self.on_the_fly.of(request.namespace, others.values(), timeout=deadline - time.monotonic())
        empty = frozenset(id_ for id_, text in others.items() if not len(vectors[text]))
        computed = await asyncio.to_thread(
            lambda: {id_: query.score(vectors[text]) for id_, text in others.items() if id_ not in empty}
        )
        return SomeScores(_with_context(request, scores | computed), empty)


def _with_context(request: RerankRequest, scores: Scores) -> Scores:
    """Each document's score, a share of it the mean of those of its context; neighbours without a score don't count.

    Source: own.
    """
    share = request.context
    if not share:
        return scores
    found = {}
    for id_ in filter(scores.__contains__, request.documents):
        around = [scores[each] for each in request.neighbours.get(id_, ()) if each in scores] or [scores[id_]]
        found[id_] = (1 - share) * scores[id_] + share * math.fsum(around) / len(around)
    return found
