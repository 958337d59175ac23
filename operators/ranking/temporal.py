"""Temporal targeting: a bonus for documents from the time that the query names."""

from collections.abc import Sequence

from operators.ranking.candidate import Candidate, best_first
from operators.ranking.run import Run
from operators.ranking.temporal_expressions import TemporalExpression
from schemas.recipes.stages import Temporal


def temporal(candidates: Sequence[Candidate], stage: Temporal, run: Run) -> list[Candidate]:
    """Add boost * proximity to each score; without a temporal expression or a boost nothing changes.

    Source: memini's `search.RerankTemporal`, with its boost of 0.40.
    """
    temporal_expression = run.facts.temporal_expression
    if temporal_expression is None or stage.boost <= 0:
        return list(candidates)
    now = run.now(stage)
    before = [candidate.score for candidate in candidates]
    ages = run.ages(candidates, now, "created_at")
    near = [proximity(age, temporal_expression) if age is not None else 0.0 for age in ages]
    for candidate, share in zip(candidates, near, strict=True):
        candidate.score += stage.boost * share
    named = {"days": temporal_expression.days, "tolerance": temporal_expression.tolerance}
    run.explain(stage, candidates, before, {"age_days": ages, "proximity": near}, named)
    return best_first(candidates)


def proximity(age: float, temporal_expression: TemporalExpression) -> float:
    """1 within the tolerance of the time named, falling linearly to 0 at three times the tolerance; `age` in days.

    Source: memini's `search.RerankTemporal`.
    """
    away = abs(age - temporal_expression.days)
    if away <= temporal_expression.tolerance:
        return 1.0
    return max(0.0, (3 * temporal_expression.tolerance - away) / (2 * temporal_expression.tolerance))
