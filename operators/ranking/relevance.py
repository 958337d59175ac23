"""A reranker's verdict, merged into the fused order."""

from collections.abc import Mapping, Sequence

from operators.ranking.candidate import Candidate
from operators.ranking.fusion import by_score, min_max


def merge(candidates: Sequence[Candidate], scores: Mapping[str, float], top: int, weight: float) -> list[Candidate]:
    """Put the reranked candidates first, by weight * reranker's + (1 - weight) * fused score, both min-max over them.

    `scores` judges the first `top` candidates; one that it leaves out was judged irrelevant and is dropped. The
    others follow in fused order, their scores min-max over that tail minus 1, so that scores never rise with rank.
    """
    judged = [candidate for candidate in candidates[:top] if candidate.id in scores]
    reranked = min_max([scores[candidate.id] for candidate in judged])
    fused = min_max([candidate.score for candidate in judged])
    for candidate, new, old in zip(judged, reranked, fused, strict=True):
        candidate.score = weight * new + (1 - weight) * old
    tail = list(candidates[top:])
    for candidate, value in zip(tail, min_max([candidate.score for candidate in tail]), strict=True):
        candidate.score = value - 1
    return by_score(judged) + tail
