"""Reflections: documents that sum up others, told by their type.

Source: a memory store's consolidation, which writes documents of the type `reflection`.
"""

from collections.abc import Sequence

from operators.ranking.blend import newest_first, recency
from operators.ranking.candidate import Candidate, Leg, Payload, best_first_by_id
from operators.ranking.run import Run
from schemas.document import REFLECTION, TYPE
from schemas.leg import VECTOR
from schemas.recipes.stages import Reflections


def is_reflection(payload: Payload) -> bool:
    """Whether the document is one."""
    return payload.get(TYPE) == REFLECTION


def without(legs: Sequence[Leg], *, reflections: bool) -> list[Leg]:
    """The legs without what is a reflection, or without what isn't one."""
    return [_kept(leg, reflections) for leg in legs]


def _kept(leg: Leg, reflections: bool) -> Leg:
    kept = [rank for rank, payload in enumerate(leg.payloads) if is_reflection(payload) != reflections]
    return leg if len(kept) == len(leg.ids) else leg.at(kept)


def boost(candidates: Sequence[Candidate], stage: Reflections, run: Run) -> list[Candidate]:
    """Multiply the scores of reflections."""
    before = [candidate.score for candidate in candidates]
    factors = [stage.reflection_boost if is_reflection(candidate.payload) else 1.0 for candidate in candidates]
    for candidate, factor in zip(candidates, factors, strict=True):
        candidate.score *= factor
    if run.trail is not None:
        for candidate, score, factor in zip(candidates, before, factors, strict=True):
            run.trail.step(stage, candidate, score, candidate.score, {"factor": factor})
    return sorted(candidates, key=lambda candidate: -candidate.score)


def only(legs: Sequence[Leg], stage: Reflections, run: Run) -> list[Candidate]:
    """Every reflection by its cosine, or by (1 - w) * cosine + w * recency; without a query vector newest first, at 0.

    `w` is the stage's `recency_weight`; cosines below 0 count as they are.
    """
    by_vector = next((leg.once() for leg in legs if leg.name == VECTOR), None)
    if by_vector is None:
        return _undirected(legs, stage, run)
    candidates = [
        Candidate(id_, score, payload)
        for id_, score, payload in zip(by_vector.ids, by_vector.scores, by_vector.payloads, strict=True)
    ]
    weight = stage.recency_weight
    ages = [0.0] * len(candidates)
    if weight:
        if run.facts.cycle is None:
            run.now(stage)
        ages = recency(candidates, stage.half_life_days, stage.half_life_cycles, run)
    for candidate, value in zip(candidates, ages, strict=True):
        candidate.score = (1 - weight) * candidate.score + weight * value
    if run.trail is not None:
        run.trail.leg(by_vector, {})
        for candidate, value in zip(candidates, ages, strict=True):
            run.trail.step(stage, candidate, None, candidate.score, {"recency": value})
    return best_first_by_id(candidates)


def _undirected(legs: Sequence[Leg], stage: Reflections, run: Run) -> list[Candidate]:
    payloads = {id_: payload for leg in legs for id_, payload in zip(leg.ids, leg.payloads, strict=True)}
    candidates = newest_first([Candidate(id_, 0.0, payload) for id_, payload in payloads.items()])
    if run.trail is not None:
        for leg in legs:
            run.trail.leg(leg, {})
        for candidate in candidates:
            run.trail.step(stage, candidate, None, 0.0, {})
    return candidates
