"""Temporal targeting: documents of the time that the query names gain.

Source: a memory store's temporal re-rank, an additive bonus on the composite score.
"""

from collections.abc import Sequence

from operators.ranking.candidate import Candidate, best_first
from operators.ranking.run import Run
from operators.ranking.temporal_expressions import TemporalExpression
from schemas.recipes.stages import Temporal


def temporal(candidates: Sequence[Candidate], stage: Temporal, run: Run) -> list[Candidate]:
    """Add boost * proximity to each score; without an anchor or a boost nothing changes."""
    temporal_expression = run.facts.temporal_expression
    if temporal_expression is None or stage.boost <= 0:
        return list(candidates)
    now = run.now(stage)
    before = [candidate.score for candidate in candidates]
    ages = run.ages(candidates, now, "created_at")
    near = [proximity(age, temporal_expression) if age is not None else 0.0 for age in ages]
    for candidate, share in zip(candidates, near, strict=True):
        candidate.score += stage.boost * share
    if run.explanations is not None:
        for index, candidate in enumerate(candidates):
            values = {
                "days": temporal_expression.days,
                "tolerance": temporal_expression.tolerance,
                "age_days": ages[index],
                "proximity": near[index],
            }
            run.explanations.step(stage, candidate, before[index], candidate.score, values)
    return best_first(candidates)


def proximity(age: float, temporal_expression: TemporalExpression) -> float:
    """1 within the tolerance of the anchor, falling linearly to 0 at three times the tolerance; `age` in days."""
    away = abs(age - temporal_expression.days)
    if away <= temporal_expression.tolerance:
        return 1.0
    return max(0.0, (3 * temporal_expression.tolerance - away) / (2 * temporal_expression.tolerance))
