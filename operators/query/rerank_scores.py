"""Rerank scores: what a reranker says of a query's candidates."""

from collections.abc import Mapping
from typing import NamedTuple

from schemas.errors import BackendError

Scores = Mapping[str, float]
"""Point id -> relevance, higher is better. A candidate left out was judged irrelevant."""


class PartialScores(dict[str, float]):
    """Scores of which those of `unread`, a point id, and of the candidates behind it are `lost`."""

    def __init__(self, scores: Scores, unread: str, lost: BackendError) -> None:
        super().__init__(scores)
        self.unread = unread
        self.lost = lost


class RerankScores(NamedTuple):
    """What a reranker said of the first `read` of a query's candidates. `selects`: it only said which is the best."""

    model: str
    scores: Scores
    read: int
    selects: bool = False
