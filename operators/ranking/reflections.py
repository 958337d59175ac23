"""Reflections: documents of the type `reflection`, which summarise others."""

from collections.abc import Sequence

from operators.ranking.blend import ages_of, newest_first, recency
from operators.ranking.candidate import (
    Candidate,
    Leg,
    Payload,
    best_first,
    best_first_by_id,
    in_tie_order,
    list_candidates,
    union,
)
from operators.ranking.run import Run
from schemas.document import REFLECTION, TYPE
from schemas.recipes import Recipe
from schemas.recipes.fusion import Weighted
from schemas.recipes.stages import MOST_BOOST, Reflections
from schemas.result import VECTOR


def is_reflection(payload: Payload) -> bool:
    """True if the document is a reflection."""
    return payload.get(TYPE) == REFLECTION


def without(legs: Sequence[Leg], *, reflections: bool) -> list[Leg]:
    """The legs without reflections, or without all other documents."""
    return [_keep(leg, reflections) for leg in legs]


def _keep(leg: Leg, reflections: bool) -> Leg:
    kept = [rank for rank, payload in enumerate(leg.payloads) if is_reflection(payload) != reflections]
    return leg if len(kept) == len(leg.ids) else leg.at(kept)


def boost(candidates: Sequence[Candidate], stage: Reflections, run: Run) -> list[Candidate]:
    """Multiply the scores of reflections; a score below 0 is divided, so that a factor above 1 never lowers one.

    Source: `reflection_boost` of engrava's `search_hybrid`, whose scores are never below 0.
    """
    if stage.reflection_boost == 1.0 and run.explanations is None:
        return list(candidates)
    before = [candidate.score for candidate in candidates]
    up, down = stage.reflection_boost, 1 / max(stage.reflection_boost, 1 / MOST_BOOST)
    factors = [
        (up if candidate.score >= 0 else down) if is_reflection(candidate.payload) else 1.0 for candidate in candidates
    ]
    for candidate, factor in zip(candidates, factors, strict=True):
        candidate.score *= factor
    run.explain(stage, candidates, before, {"factor": factors})
    return best_first(candidates)


def only(legs: Sequence[Leg], recipe: Recipe, run: Run) -> list[Candidate]:
    """Every reflection by (1 - w) * cosine + w * recency; without a query vector newest first, with score 0.

    `w` is `recency_weight`. Negative cosines stay negative.
    Source: engrava's `search_reflections_only`, whose weight for its optional recency is not documented.
    """
    stage = _stage(recipe)
    by_vector = next((leg for leg in legs if leg.name == VECTOR), None)
    if by_vector is None:
        return _newest_reflections(legs, stage, run)
    cosines = by_vector.scores_by_id()
    candidates = [Candidate(id_, cosines[id_], payload) for id_, payload in union([by_vector]).items()]
    weight = recency_weight(recipe, run.facts.cycle)
    ages: list[float | None] = [None] * len(candidates)
    if weight:
        if run.facts.cycle is None:
            run.now(stage)
        ages = ages_of(candidates, run)
    recent = recency(ages, stage.half_life_days if run.facts.cycle is None else stage.half_life_cycles)
    for candidate, value in zip(candidates, recent, strict=True):
        candidate.score = (1 - weight) * candidate.score + weight * value
    if run.explanations is not None:
        run.explanations.note_leg(by_vector, cosines, 1 - weight)
    run.explain(stage, candidates, None, {"recency": recent, "age": ages}, {"recency_weight": weight})
    return best_first_by_id(candidates)


def recency_weight(recipe: Recipe, cycle: int | None) -> float:
    """The weight of recency where reflections alone are ranked: the stage's, or else with a cycle that of the blend.

    Source: own; engrava does not say its weight.
    """
    stated = _stage(recipe).recency_weight
    if stated is not None:
        return stated
    blend = recipe.fusion if isinstance(recipe.fusion, Weighted) else Weighted()
    return blend.recency_weight if cycle is not None else 0.0


def _stage(recipe: Recipe) -> Reflections:
    return recipe.stage(Reflections) or Reflections()


def _newest_reflections(legs: Sequence[Leg], stage: Reflections, run: Run) -> list[Candidate]:
    candidates = newest_first(list_candidates(legs))
    if run.explanations is not None:
        for leg in in_tie_order(legs):
            run.explanations.note_leg(leg)
    run.explain(stage, candidates, None, {})
    return candidates
