"""Late interaction: query and candidate compared token by token, with the vectors that Qdrant keeps of the candidates.

No model runs here: the query's token vectors come from the embed stage, the documents' were stored when they were
indexed, and Qdrant computes MaxSim over the candidates alone.
"""

import asyncio
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any, Final, Protocol

import numpy as np
from numpy.typing import NDArray

from operators.clients.qdrant.answers import Hits
from operators.clients.qdrant.client import point_id
from operators.clients.rerankers import RerankRequest, Scores
from schemas.errors import BackendBadResponse, BackendError

DECIMALS = 4
"""Of the query's token vectors as they are sent: a rounding below what float16 vectors can tell, at half the bytes."""


class Searching(Protocol):
    """The part of the Qdrant client that is needed."""

    async def query_batch(
        self, collection: str, searches: Sequence[Mapping[str, Any]], *, timeout: float
    ) -> list[Hits | BackendError]:
        """Answer every search with its hits or with the error that it met."""
        ...


class LateInteraction:
    """A Reranker over the multivector `using` (Dot, MaxSim) of each candidate's point.

    A score is the mean over the query's tokens of the best dot product with a token of the document, -1 to 1. The
    queries of one call share one request a collection. `embedder` names the model that made both sides' token vectors.
    """

    reads: Final = "tokens"

    def __init__(self, client: Searching, embedder: str, *, using: str = "tokens") -> None:
        self.model = f"late-interaction:{embedder}"
        self._client = client
        self._using = using

    async def rerank(self, requests: Sequence[RerankRequest], *, timeout: float) -> list[Scores | BackendError]:
        """Score each request's documents within `timeout` seconds, one outcome a request, in their order.

        Every document is scored or the request fails: a query without token vectors, or a document whose point has
        none, is BackendBadResponse. One document or none needs no call: it scores 1.
        """
        outcomes: dict[int, Scores | BackendError] = {}
        searches: dict[str, dict[int, Mapping[str, Any]]] = defaultdict(dict)
        for index, request in enumerate(requests):
            tokens = request.embedding.tokens if request.embedding else None
            if len(request.documents) < 2:
                outcomes[index] = dict.fromkeys(request.documents, 1.0)
            elif tokens is None or not len(tokens):
                outcomes[index] = BackendBadResponse("late interaction: the query has no token vectors")
            else:
                searches[request.collection][index] = self._search(tokens, list(request.documents))
        answers = await asyncio.gather(
            *(
                self._client.query_batch(collection, list(batch.values()), timeout=timeout)
                for collection, batch in searches.items()
            )
        )
        for batch, answer in zip(searches.values(), answers, strict=True):
            for index, found in zip(batch, answer, strict=True):
                outcomes[index] = found if isinstance(found, BackendError) else _scores(requests[index], found)
        return [outcomes[index] for index in range(len(requests))]

    async def aclose(self) -> None:
        """Release nothing: the client is its maker's to close."""

    def _search(self, tokens: NDArray[np.float32], ids: Sequence[str]) -> Mapping[str, Any]:
        return {
            "query": np.round(tokens, DECIMALS),
            "using": self._using,
            "filter": {"must": [{"has_id": [point_id(identity) for identity in ids]}]},
            "limit": len(ids),
            "with_payload": False,
        }


def _scores(request: RerankRequest, hits: Hits) -> Scores | BackendBadResponse:
    assert request.embedding is not None
    assert request.embedding.tokens is not None
    tokens = len(request.embedding.tokens)
    scores = {id_: score / tokens for id_, score in zip(hits.ids, hits.scores, strict=True)}
    missing = request.documents.keys() - scores.keys()
    if missing:
        # Leaving them out would judge them irrelevant, and nobody has read them.
        return BackendBadResponse(
            f"late interaction: {len(missing)} of {len(request.documents)} documents have no token vectors"
        )
    return scores
