"""The rerankers of text-embeddings-inference: `POST {base}/rerank`, and `POST {base}/predict` for pairs.

The server truncates what is longer than its model's context, and scores every text: a missing score is a bad response.
Its `max-client-batch-size`, 32 unless it is told otherwise, bounds the texts of a call.
"""

from typing import Any

from operators.clients.rerankers.dialect import PairReranker, QueryReranker
from operators.clients.rerankers.judgements import full_judgements, relevance
from schemas.errors import BackendBadResponse


class TeiReranker(QueryReranker):
    """A Reranker over TEI's own `/rerank`."""

    path = "/rerank"
    limit = 32

    def body(self, query: str, texts: list[str]) -> dict[str, Any]:
        """{query, texts, truncate}."""
        return {"query": query, "texts": texts, "truncate": True}

    def relevances(self, answer: object, count: int) -> dict[int, float]:
        """Read [{index, score}] in any order; raises BackendBadResponse."""
        return full_judgements(answer, "score", count, backend=self.name)


class TeiPairReranker(PairReranker):
    """A Reranker over TEI's `/predict`, for models of one label: that label's score is the relevance.

    It is the score that `/rerank` gives the same pair, for both leave the activation to the server.
    """

    path = "/predict"
    limit = 32

    def body(self, queries: list[str], texts: list[str]) -> dict[str, Any]:
        """{inputs: [[query, text]], truncate}."""
        # Nested for a single pair too: a flat one would be answered without the outer list.
        return {"inputs": [list(pair) for pair in zip(queries, texts, strict=True)], "truncate": True}

    def relevances(self, answer: object, count: int) -> dict[int, float]:
        """Read [[{label, score}]] in the pairs' order; raises BackendBadResponse."""
        if not isinstance(answer, list):
            raise BackendBadResponse(f"{self.name}: the predictions are not a list")
        if len(answer) != count:
            raise BackendBadResponse(f"{self.name}: {len(answer)} predictions for {count} pairs")
        return {position: self._only_score(labels) for position, labels in enumerate(answer)}

    def _only_score(self, labels: object) -> float:
        if not isinstance(labels, list) or not all(isinstance(label, dict) for label in labels):
            raise BackendBadResponse(f"{self.name}: a prediction that is not a list of labels")
        if len(labels) != 1:
            raise BackendBadResponse(f"{self.name}: {len(labels)} labels for a pair: not a cross-encoder of one label")
        return relevance(labels[0].get("score"), backend=self.name)
