"""Rerank scores: what a reranker says of a query's candidates."""

from collections.abc import Mapping
from typing import NamedTuple

Scores = Mapping[str, float]
"""Point id -> relevance, higher is better. A candidate left out was judged irrelevant."""


class RerankScores(NamedTuple):
    """What a reranker said of a query's candidates. `selects`: it only said which is the best."""

    model: str
    scores: Scores
    selects: bool = False
