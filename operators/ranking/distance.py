"""The distance pipeline: decay, keyword overlap and importance move candidates on distance = max(0, 1 - score).

Lower is better. A distance of 0, a candidate that was best in every leg, stays 0 whatever its age.
Source: a memory store's post-retrieval pipeline. Unlike it, the fused order is what it starts from.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from operators.ranking.candidate import Candidate
from operators.ranking.dedupe import content
from operators.ranking.keywords import STOP_WORDS, keywords, overlap
from operators.ranking.quality import importance
from operators.ranking.run import Run, ScoreExplanations
from schemas.recipes.parameters import DistanceStage
from schemas.recipes.stages import ImportanceBoost, KeywordBoost, LlmRerank, WeibullDecay

Column = list[float]
Factors = tuple[Column, Mapping[str, Sequence[Any]]]
"""What each candidate's distance is multiplied by, and the columns that this was made of."""


def pipeline(
    candidates: Sequence[Candidate], stages: Sequence[DistanceStage], max_distance: float, run: Run
) -> list[Candidate]:
    """The candidates nearest first, score = 1 - distance, without those beyond `max_distance` before or after.

    The stages run in their order; without one nothing changes.
    """
    if not stages or not candidates:
        return list(candidates)
    running = [stage for stage in stages if not isinstance(stage, LlmRerank)]
    # A chat model's pick comes later, where the texts are.
    run.reranked = bool(running)
    distances = [max(0.0, 1.0 - candidate.score) for candidate in candidates]
    near = _within(distances, max_distance)
    kept = [candidates[index] for index in near]
    distances = [distances[index] for index in near]
    before = [candidate.score for candidate in kept]
    for stage in running:
        factors, columns = _FACTORS[type(stage)](kept, stage, run)
        moved = [distance * factor for distance, factor in zip(distances, factors, strict=True)]
        if run.explanations is not None:
            for index, candidate in enumerate(kept):
                values = {"distance": distances[index], "factor": factors[index], "moved": moved[index]}
                values |= {name: column[index] for name, column in columns.items()}
                run.explanations.step(stage, candidate, before[index], 1.0 - moved[index], values)
        distances = moved
        before = [1.0 - distance for distance in distances]
    if not running:
        before = [1.0 - distance for distance in distances]
        if run.explanations is not None:
            for distance, score, candidate in zip(distances, before, kept, strict=True):
                run.explanations.step(stages[0], candidate, candidate.score, score, {"distance": distance})
    for candidate, score in zip(kept, before, strict=True):
        candidate.score = score
    near = _within(distances, max_distance)
    near.sort(key=distances.__getitem__)
    return [kept[index] for index in near]


def pick(
    candidates: Sequence[Candidate], picked: str, stage: LlmRerank, explanations: ScoreExplanations | None = None
) -> list[Candidate]:
    """Put the picked candidate first, at half of the smallest distance, even where that is 0."""
    smallest = min((max(0.0, 1.0 - candidate.score) for candidate in candidates), default=0.0)
    first = [candidate for candidate in candidates if candidate.id == picked]
    for candidate in first:
        before = candidate.score
        candidate.score = 1.0 - smallest / 2
        if explanations is not None:
            explanations.step(
                stage, candidate, before, candidate.score, {"smallest": smallest, "distance": smallest / 2}
            )
    return first + [candidate for candidate in candidates if candidate.id != picked]


def _within(distances: Sequence[float], most: float) -> list[int]:
    return [index for index, distance in enumerate(distances) if not 0 < most < distance]


def _weibull(candidates: Sequence[Candidate], stage: WeibullDecay, run: Run) -> Factors:
    now = run.now(stage)
    ages = run.ages(candidates, now, "created_at")
    survival = [_survival(age, stage) if age is not None else 1.0 for age in ages]
    factors = [1.0 / (stage.floor + (1 - stage.floor) * share) for share in survival]
    return factors, {"age_days": ages, "survival": survival}


def _survival(age: float, stage: WeibullDecay) -> float:
    try:
        return math.exp(-((age / stage.scale) ** stage.k))
    except OverflowError:
        return 0.0


def _keyword(candidates: Sequence[Candidate], stage: KeywordBoost, run: Run) -> Factors:
    asked = keywords(run.facts.text or "", STOP_WORDS if stage.stop_words is None else stage.stop_words)
    overlaps = [overlap(asked, content(candidate.payload)) for candidate in candidates]
    return [1.0 - stage.weight * share for share in overlaps], {"overlap": overlaps}


def _importance(candidates: Sequence[Candidate], stage: ImportanceBoost, run: Run) -> Factors:
    values = [importance(candidate.payload, stage.importance_scale) for candidate in candidates]
    return [1.0 - stage.weight * value for value in values], {"importance": values}


_FACTORS: Final[Mapping[type[DistanceStage], Callable[[Sequence[Candidate], Any, Run], Factors]]] = {
    WeibullDecay: _weibull,
    KeywordBoost: _keyword,
    ImportanceBoost: _importance,
}
