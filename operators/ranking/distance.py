"""The distance pipeline: stages change distance = max(0, 1 - score), lower is better; with `linear` it is absolute."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from operators.ranking.candidate import Candidate
from operators.ranking.composite import importance, survival
from operators.ranking.content import STOP_WORDS, contents, keywords, overlap
from operators.ranking.run import ModelScores, Run
from schemas.recipes.stages import DistanceStage, ImportanceBoost, KeywordBoost, RecipeStage, WeibullDecay

Column = list[float]
Factors = tuple[Column, Mapping[str, Sequence[Any]]]
"""The factor of each candidate's distance, and the columns that it was computed from."""


def rank_by_distance(
    candidates: Sequence[Candidate], stages: Sequence[DistanceStage], max_distance: float, run: Run
) -> list[Candidate]:
    """The candidates, nearest first, with score = 1 - distance; a distance over `max_distance` drops its candidate.

    The limit holds before and after the stages, which run in their order. Without stages it is all that holds.
    Source: MemPalace's `reranker.rerank`; unlike it, the distance begins as 1 - the fused score.
    """
    if not stages and max_distance <= 0:
        return list(candidates)
    distances = [max(0.0, 1.0 - candidate.score) for candidate in candidates]
    near = _indexes_within(distances, max_distance)
    kept = [candidates[index] for index in near]
    if not stages:
        return kept
    run.reranked = run.reranked or bool(kept)
    distances = [distances[index] for index in near]
    for stage in stages:
        factors, columns = _FACTORS[type(stage)](kept, stage, run)
        moved = [distance * factor for distance, factor in zip(distances, factors, strict=True)]
        scores = [1.0 - distance for distance in moved]
        run.rescore(stage, kept, scores, {"distance": distances, "factor": factors, "moved": moved, **columns})
        distances = moved
    near = _indexes_within(distances, max_distance)
    near.sort(key=distances.__getitem__)
    return [kept[index] for index in near]


def pick(candidates: Sequence[Candidate], model: ModelScores, stage: RecipeStage, run: Run) -> list[Candidate]:
    """Put the candidate that the model selected first, at half of the smallest distance, even if that is 0.

    A raw score above 1 is a distance of 0, and becomes 1. Without a selection nothing changes.
    Source: MemPalace's `reranker.stage_llm_rerank`.
    """
    run.reranked = True
    read = [candidate for candidate in candidates[: model.top] if candidate.id in model.scores]
    if not read:
        return [*candidates]
    smallest = min(max(0.0, 1.0 - candidate.score) for candidate in candidates)
    picked = max(read, key=lambda candidate: model.scores[candidate.id])
    # Where a score is above 1 the smallest distance is 0.
    before = [replace(each) for each in candidates if each is picked or each.score > 1]
    shared = {"smallest": smallest, "distance": smallest / 2}
    moved = {each.id: each for each in run.rescore(stage, before, [1.0 - smallest / 2] * len(before), shared=shared)}
    return [moved[picked.id], *(moved.get(each.id, each) for each in candidates if each is not picked)]


def _indexes_within(distances: Sequence[float], most: float) -> list[int]:
    return [index for index, distance in enumerate(distances) if not 0 < most < distance]


def _weibull(candidates: Sequence[Candidate], stage: WeibullDecay, run: Run) -> Factors:
    """1 / (floor + (1 - floor) * survival). Source: MemPalace's `reranker.stage_weibull_decay`."""
    now = run.now(stage)
    ages = run.ages(candidates, now, "created_at")
    shares = [survival(age, stage.k, stage.scale) if age is not None else 1.0 for age in ages]
    factors = [1.0 / (stage.floor + (1 - stage.floor) * share) for share in shares]
    return factors, {"age_days": ages, "survival": shares}


def _keyword(candidates: Sequence[Candidate], stage: KeywordBoost, run: Run) -> Factors:
    """1 - weight * overlap. Source: MemPalace's `reranker.stage_keyword_boost`."""
    asked = keywords(run.facts.text or "", STOP_WORDS if stage.stop_words is None else stage.stop_words)
    overlaps = [overlap(asked, text) for text in contents([candidate.payload for candidate in candidates])]
    return [1.0 - stage.weight * share for share in overlaps], {"overlap": overlaps}


def _importance(candidates: Sequence[Candidate], stage: ImportanceBoost, run: Run) -> Factors:
    """1 - weight * importance. Source: MemPalace's `reranker.stage_importance_boost`."""
    values = [importance(candidate.payload, stage.importance_scale, run) for candidate in candidates]
    return [1.0 - stage.weight * value for value in values], {"importance": values}


_FACTORS: Final[Mapping[type[DistanceStage], Callable[[Sequence[Candidate], Any, Run], Factors]]] = {
    WeibullDecay: _weibull,
    KeywordBoost: _keyword,
    ImportanceBoost: _importance,
}
