"""The reranker of text-embeddings-inference: `POST {base}/rerank`, a request a query or more."""

from collections.abc import Sequence
from typing import Final

from operators.clients.batches import in_batches
from operators.clients.rerankers import RerankRequest, Scores
from operators.clients.rerankers.judgements import judgements, outcomes
from operators.clients.rerankers.slots import Slots
from operators.clients.transport import Endpoint
from schemas.errors import BackendBadResponse, BackendError


class TeiReranker:
    """A Reranker over TEI's own API; a document longer than the model's context is truncated by the server.

    Documents above `max_batch`, the server's `max-client-batch-size`, go out as several requests, and one that fails
    fails the query. At most `max_concurrency` requests are in flight, over all calls; 0 or less is no bound.
    """

    reads: Final = "text"

    def __init__(self, endpoint: Endpoint, model: str, *, max_concurrency: int, max_batch: int = 32) -> None:
        self.endpoint = endpoint
        self.model = model
        self.max_batch = max_batch
        self._slots = Slots(max_concurrency)

    async def rerank(self, requests: Sequence[RerankRequest], *, timeout: float) -> list[Scores | BackendError]:
        """Score each request's documents within `timeout` seconds, one outcome a request, in their order."""
        return await outcomes(requests, self._score, timeout=timeout)

    async def aclose(self) -> None:
        """Close the endpoint."""
        await self.endpoint.aclose()

    async def _score(self, request: RerankRequest, deadline: float) -> Scores:
        async def part(ids: Sequence[str]) -> dict[str, float]:
            texts = [request.documents[point] for point in ids]
            body = {"query": request.query, "texts": texts, "truncate": True}
            answer = await self._slots.post(self.endpoint, "/rerank", body, deadline=deadline)
            found = judgements(answer, "score", len(ids), backend=self.endpoint.name)
            # TEI scores every text: it has no way of judging one irrelevant.
            if len(found) != len(ids):
                raise BackendBadResponse(f"{self.endpoint.name}: {len(found)} scores for {len(ids)} texts")
            return {ids[index]: score for index, score in found.items()}

        parts = await in_batches(list(request.documents), self.max_batch, part)
        return {point: score for scores in parts for point, score in scores.items()}
