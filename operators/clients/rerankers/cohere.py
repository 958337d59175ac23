"""The Cohere-style reranker: `POST {base}/rerank`, a request a query."""

from collections.abc import Sequence
from typing import Final

from operators.clients.rerankers import RerankRequest, Scores
from operators.clients.rerankers.judgements import judgements, outcomes
from operators.clients.rerankers.slots import Slots
from operators.clients.transport import Endpoint
from schemas.errors import BackendError


class CohereReranker:
    """A Reranker over the API that Cohere v2, Jina, infinity, vLLM and llama-server share.

    At most `max_concurrency` requests are in flight, over all calls; 0 or less is no bound. A document that the answer
    leaves out is judged irrelevant.
    """

    reads: Final = "text"

    def __init__(self, endpoint: Endpoint, model: str, *, max_concurrency: int) -> None:
        self.endpoint = endpoint
        self.model = model
        self._slots = Slots(max_concurrency)

    async def rerank(self, requests: Sequence[RerankRequest], *, timeout: float) -> list[Scores | BackendError]:
        """Score each request's documents within `timeout` seconds, one outcome a request, in their order."""
        return await outcomes(requests, self._score, timeout=timeout)

    async def aclose(self) -> None:
        """Close the endpoint."""
        await self.endpoint.aclose()

    async def _score(self, request: RerankRequest, deadline: float) -> Scores:
        ids = list(request.documents)
        body = {
            "model": self.model,
            "query": request.query,
            "documents": list(request.documents.values()),
            # All of them: what the answer leaves out is then the model's verdict, not our cut.
            "top_n": len(ids),
        }
        answer = await self._slots.post(self.endpoint, "/rerank", body, deadline=deadline)
        entries = answer.get("results") if isinstance(answer, dict) else None
        found = judgements(entries, "relevance_score", len(ids), backend=self.endpoint.name)
        return {ids[index]: score for index, score in found.items()}
