"""The reranker over vLLM's scoring of pairs: `POST {base}/score`.

The server scores every pair: a missing score is a bad response. It refuses a pair that is longer than its model's
context.
"""

from typing import Any

from operators.clients.rerankers.dialect import PairReranker
from operators.clients.rerankers.judgements import full_judgements, within


class VllmPairReranker(PairReranker):
    """A Reranker over vLLM's `/score`."""

    path = "/score"
    limit = 1000

    def body(self, queries: list[str], texts: list[str]) -> dict[str, Any]:
        """{model, text_1, text_2}: the queries, repeated, and the texts, as many of one as of the other."""
        return {"model": self.model, "text_1": queries, "text_2": texts}

    def relevances(self, answer: object, count: int) -> dict[int, float]:
        """Read {data: [{index, score}]}; raises BackendBadResponse."""
        return full_judgements(within(answer, "data"), "score", count, backend=self.name)
