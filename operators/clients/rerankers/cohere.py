"""The rerankers that speak Cohere's dialect, and Voyage's of it: `POST {base}/rerank`.

What these answers hold besides (documents, usage, model, ids) differs from server to server and is not read. A document
that an answer leaves out is judged irrelevant. That all of a query's documents are left out is for the rerank stage to
judge, which knows all parts of a query that was split.
"""

from typing import Any

from operators.clients.rerankers.dialect import QueryReranker
from operators.clients.rerankers.judgements import judgements, within


class CohereReranker(QueryReranker):
    """A Reranker over the API that Cohere (v2), Jina, infinity, vLLM and llama-server share."""

    path = "/rerank"
    limit = 1000

    def body(self, query: str, texts: list[str]) -> dict[str, Any]:
        """{model, query, documents, top_n}."""
        # Asking for all of them makes what the answer leaves out the model's decision, not our cut.
        return {"model": self.model, "query": query, "documents": texts, "top_n": len(texts)}

    def relevances(self, answer: object, count: int) -> dict[int, float]:
        """Read {results: [{index, relevance_score}]}; raises BackendBadResponse."""
        return judgements(within(answer, "results"), "relevance_score", count, backend=self.name)


class VoyageReranker(QueryReranker):
    """A Reranker over Voyage's API."""

    path = "/rerank"
    limit = 1000

    def body(self, query: str, texts: list[str]) -> dict[str, Any]:
        """{model, query, documents, top_k}."""
        return {"model": self.model, "query": query, "documents": texts, "top_k": len(texts)}

    def relevances(self, answer: object, count: int) -> dict[int, float]:
        """Read {data: [{index, relevance_score}]}; raises BackendBadResponse."""
        return judgements(within(answer, "data"), "relevance_score", count, backend=self.name)
