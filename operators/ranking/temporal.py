"""Temporal targeting: documents of the time that the query names gain.

Source: a memory store's temporal re-rank, an additive bonus on the composite score.
"""

from collections.abc import Sequence

from operators.ranking.anchors import TimeAnchor
from operators.ranking.candidate import Candidate, best_first
from operators.ranking.run import Run
from schemas.recipes.stages import Temporal


def temporal(candidates: Sequence[Candidate], stage: Temporal, run: Run) -> list[Candidate]:
    """Add boost * proximity to each score; without an anchor or a boost nothing changes."""
    anchor = run.facts.anchor
    if anchor is None or stage.boost <= 0:
        return list(candidates)
    now = run.now(stage)
    before = [candidate.score for candidate in candidates]
    ages = run.ages(candidates, now, "created_at")
    near = [proximity(age, anchor) if age is not None else 0.0 for age in ages]
    for candidate, share in zip(candidates, near, strict=True):
        candidate.score += stage.boost * share
    if run.trail is not None:
        for index, candidate in enumerate(candidates):
            values = {
                "days": anchor.days,
                "tolerance": anchor.tolerance,
                "age_days": ages[index],
                "proximity": near[index],
            }
            run.trail.step(stage, candidate, before[index], candidate.score, values)
    return best_first(candidates)


def proximity(age: float, anchor: TimeAnchor) -> float:
    """1 within the tolerance of the anchor, falling linearly to 0 at three times the tolerance; `age` in days."""
    away = abs(age - anchor.days)
    if away <= anchor.tolerance:
        return 1.0
    return max(0.0, (3 * anchor.tolerance - away) / (2 * anchor.tolerance))
