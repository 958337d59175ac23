"""The distance pipeline: decay, keyword overlap and importance move candidates on distance = max(0, 1 - score).

Lower is better. A distance of 0, a candidate that was best in every leg, stays 0 whatever its age.
Source: a memory store's post-retrieval pipeline. Unlike it, the fused order is what it starts from.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from operators.ranking.candidate import Candidate
from operators.ranking.dedupe import content
from operators.ranking.keywords import STOP_WORDS, keywords, words
from operators.ranking.quality import importance
from operators.ranking.run import Run, Trail
from schemas.recipes.parameters import DistanceStage
from schemas.recipes.stages import ImportanceBoost, KeywordBoost, LlmRerank, WeibullDecay

Values = Mapping[str, Any]
Factor = tuple[float, Values]
"""What a distance is multiplied by, and what that was made of."""


def pipeline(
    candidates: Sequence[Candidate], stages: Sequence[DistanceStage], max_distance: float, run: Run
) -> list[Candidate]:
    """The candidates nearest first, score = 1 - distance, without those beyond `max_distance` before or after.

    Stages that are on run in their order; without one, and without anything for them to do, nothing changes.
    """
    running = [stage for stage in stages if not isinstance(stage, LlmRerank)]
    if not running or not candidates:
        return list(candidates)
    run.reranked = True
    distances = [(max(0.0, 1.0 - candidate.score), candidate) for candidate in candidates]
    distances = _within(distances, max_distance)
    for stage in running:
        factor = _FACTORS[type(stage)](stage, run)
        moved = []
        for distance, candidate in distances:
            by, values = factor(candidate)
            moved.append((distance * by, candidate))
            if run.trail is not None:
                noted = {"distance": distance, "factor": by, "moved": distance * by, **values}
                run.trail.step(stage, candidate, candidate.score, 1.0 - distance * by, noted)
            candidate.score = 1.0 - distance * by
        distances = moved
    distances = _within(distances, max_distance)
    distances.sort(key=lambda pair: pair[0])
    return [candidate for _, candidate in distances]


def pick(candidates: Sequence[Candidate], picked: str, stage: LlmRerank, trail: Trail | None = None) -> list[Candidate]:
    """Put the picked candidate first, at half of the smallest distance, even where that is 0."""
    smallest = min((max(0.0, 1.0 - candidate.score) for candidate in candidates), default=0.0)
    first = [candidate for candidate in candidates if candidate.id == picked]
    for candidate in first:
        before = candidate.score
        candidate.score = 1.0 - smallest / 2
        if trail is not None:
            trail.step(stage, candidate, before, candidate.score, {"smallest": smallest, "distance": smallest / 2})
    return first + [candidate for candidate in candidates if candidate.id != picked]


def _within(distances: list[tuple[float, Candidate]], most: float) -> list[tuple[float, Candidate]]:
    return [pair for pair in distances if pair[0] <= most] if most > 0 else distances


def _weibull(stage: WeibullDecay, run: Run) -> Callable[[Candidate], Factor]:
    now = run.now(stage)

    def factor(candidate: Candidate) -> Factor:
        age = run.age_days(candidate, now, "created_at")
        survival = math.exp(-((age / stage.scale) ** stage.k)) if age is not None else 1.0
        return 1.0 / (stage.floor + (1 - stage.floor) * survival), {"age_days": age, "survival": survival}

    return factor


def _keyword(stage: KeywordBoost, run: Run) -> Callable[[Candidate], Factor]:
    asked = keywords(run.facts.text or "", STOP_WORDS if stage.stop_words is None else stage.stop_words)

    def factor(candidate: Candidate) -> Factor:
        overlap = len(asked & words(content(candidate.payload))) / len(asked) if asked else 0.0
        return 1.0 - stage.weight * overlap, {"overlap": overlap}

    return factor


def _importance(stage: ImportanceBoost, run: Run) -> Callable[[Candidate], Factor]:
    def factor(candidate: Candidate) -> Factor:
        value = importance(candidate.payload, stage.importance_scale)
        return 1.0 - stage.weight * value, {"importance": value}

    return factor


_FACTORS: Final[Mapping[type[DistanceStage], Callable[[Any, Run], Callable[[Candidate], Factor]]]] = {
    WeibullDecay: _weibull,
    KeywordBoost: _keyword,
    ImportanceBoost: _importance,
}
