"""Rerank scores, merged into the fused order."""

from collections.abc import Mapping, Sequence
from typing import Final

from operators.ranking.candidate import Candidate
from operators.ranking.normalise import Scale, min_max
from operators.ranking.run import ScoreExplanations

RERANK: Final = "rerank"
"""The step's name in explanations."""

_OF_NOTHING: Final = Scale(0.0, 0.0, 1.0)


def merge(
    candidates: Sequence[Candidate],
    scores: Mapping[str, float],
    top: int,
    weight: float,
    explanations: ScoreExplanations | None = None,
) -> list[Candidate]:
    """Put the reranked candidates first, by weight * rerank score + (1 - weight) * fused score, both min-max over them.

    `scores` are those of the first `top` candidates; a candidate without one is irrelevant to the reranker and is
    dropped. The others follow in fused order, with min-max scores minus 1, so that scores never rise with rank.
    Candidates with equal scores go by the document's id. Source: own; that what a reranker leaves out is dropped is the
    contract of memini's `rerank.Reranker`.
    """
    judged = [candidate for candidate in candidates[:top] if candidate.id in scores]
    tail = list(candidates[top:])
    relevance, of_relevance = _rescaled([scores[candidate.id] for candidate in judged])
    fused, of_fused = _rescaled([candidate.score for candidate in judged])
    behind, of_tail = _rescaled([candidate.score for candidate in tail])
    parameters = {"top": top, "weight": weight}
    for candidate, new, old in zip(judged, relevance, fused, strict=True):
        before = candidate.score
        candidate.score = weight * new + (1 - weight) * old
        if explanations is not None:
            values = {
                "score": scores[candidate.id],
                "relevance": new,
                "relevance_scale": of_relevance._asdict(),
                "fused": old,
                "fused_scale": of_fused._asdict(),
            }
            explanations.noted(candidate.id, RERANK, before, candidate.score, parameters, values)
    for candidate, value in zip(tail, behind, strict=True):
        before = candidate.score
        candidate.score = value - 1
        if explanations is not None:
            values = {"tail": value, "tail_scale": of_tail._asdict()}
            explanations.noted(candidate.id, RERANK, before, candidate.score, parameters, values)
    return sorted(judged, key=lambda candidate: (-candidate.score, candidate.document)) + tail


def _rescaled(column: Sequence[float]) -> tuple[list[float], Scale]:
    scale = min_max(column) if column else _OF_NOTHING
    return scale.of(column), scale
