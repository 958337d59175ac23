"""The five-signal blend, of keyword, vector, recency, priority and graph, and the ranking of reflections.

In the graph only a neighbour's semantic value counts, so that documents with many edges don't raise each other.
Reflections are documents of the type `reflection`, which summarise others.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any, Final

from operators.ranking.candidate import Candidate, Leg, Payload, best_first, best_first_by_id, list_candidates
from operators.ranking.fusion import truncate
from operators.ranking.normalise import rescale
from operators.ranking.run import Run, number, stamp
from schemas.document import REFLECTION, TYPE
from schemas.recipes import Recipe
from schemas.recipes.fusion import Weighted
from schemas.recipes.stages import MOST_BOOST, Reflections
from schemas.result import KEYWORD, VECTOR

PRIORITIES: Final = {"P1": 1.0, "P2": 0.6, "P3": 0.3, "P4": 0.0}

_CYCLES: Final = 1e15
_HEAVIEST: Final = 1e6

Column = list[float]


def rank_by_blend(legs: Sequence[Leg], stage: Weighted, run: Run) -> list[Candidate]:
    """Sum of the active signals' weighted values; the weights are divided by their sum.

    A signal is active if it has a weight and could be computed. A leg without the candidate counts 0. Without any
    active signal the newest candidate is first, and all scores are 0.
    Source: engrava's `search_hybrid`; unlike it, the keyword leg's worst hit is 0 and a query always has a clock.
    """
    candidates = list_candidates(legs)
    scored = {leg.name: leg.scores_by_id() for leg in legs}
    facts = run.facts
    clocked = facts.cycle is not None or facts.now is not None
    weights = {
        "keyword": stage.keyword_weight if KEYWORD in scored else 0.0,
        "vector": stage.vector_weight if VECTOR in scored else 0.0,
        "recency": stage.recency_weight if clocked else 0.0,
        "priority": stage.priority_weight,
        "graph": stage.graph_weight,
    }
    total = math.fsum(weights.values())
    shares = {name: weight / total for name, weight in weights.items() if weight > 0} if total > 0 else {}
    bm25, cosines = scored.get(KEYWORD, {}), scored.get(VECTOR, {})
    normalised, scale = rescale(list(bm25.values()))
    columns: dict[str, Column] = {}
    ages: list[float | None] = []
    if "keyword" in shares or ("graph" in shares and KEYWORD in scored):
        values = dict(zip(bm25, normalised, strict=True))
        columns["keyword"] = [values.get(candidate.id, 0.0) for candidate in candidates]
    if "vector" in shares or ("graph" in shares and VECTOR in scored):
        columns["vector"] = [max(0.0, cosines.get(candidate.id, 0.0)) for candidate in candidates]
    if "recency" in shares:
        ages = ages_of(candidates, run)
        columns["recency"] = recency(ages, stage.half_life_cycles if facts.cycle is not None else stage.half_life_days)
    if "priority" in shares:
        stated = [candidate.payload.get("priority") for candidate in candidates]
        columns["priority"] = [PRIORITIES.get(each, 0.0) if isinstance(each, str) else 0.0 for each in stated]
    scores = nothing = [0.0] * len(candidates)
    if "graph" in shares:
        both = zip(columns.get("keyword", nothing), columns.get("vector", nothing), strict=True)
        semantic = [max(pair) for pair in both]
        columns["graph"] = boosts(candidates, semantic, stage.graph_edge_decay, stage.max_neighbors_per_candidate)
    for name, share in shares.items():
        before = scores
        scores = [score + share * value for score, value in zip(before, columns[name], strict=True)]
        # The graph counts as a backend only if it changed a score: small boosts may be lost in rounding.
        if name == "graph" and scores != before:
            run.backends.append("graph")
    noted: dict[str, Sequence[object]] = {"age": ages} if ages else {}
    if run.explanations is not None:
        run.explanations.note_legs(legs, candidates, columns, shares)
        noted["signals"] = [{name: columns[name][index] for name in shares} for index in range(len(candidates))]
    run.rescore(
        stage, candidates, scores, noted, {"weights": shares, "keyword_scale": scale if bm25 else None}, first=True
    )
    return truncate(best_first_by_id(candidates) if shares else newest_first(candidates), stage.limit)


def ages_of(candidates: Sequence[Candidate], run: Run) -> list[float | None]:
    """Ages in cycles if the query has a cycle, else in days since the update, else since the creation.

    Source: engrava's `search_hybrid`, which ages by cycles or by days.
    """
    current = run.facts.cycle
    if current is None:
        now = run.facts.now
        assert now is not None
        return run.ages(candidates, now, "updated_at", "created_at")
    cycles = (number(candidate.payload.get("cycle"), -_CYCLES, _CYCLES) for candidate in candidates)
    return [max(0.0, current - cycle) if cycle is not None else None for cycle in cycles]


def recency(ages: Sequence[float | None], half_life: float) -> Column:
    """exp(-ln 2 / half-life * age); 0 without an age. Source: engrava's `search_hybrid`."""
    rate = math.log(2) / half_life
    return [0.0 if age is None else math.exp(-rate * age) for age in ages]


def newest_first(candidates: Sequence[Candidate]) -> list[Candidate]:
    """Sort by `created_at`, the undated last, then by the document's id. Source: own."""

    def key(candidate: Candidate) -> tuple[float, str]:
        created = stamp(candidate.payload.get("created_at"))
        return (-created if created is not None else math.inf), candidate.document

    return sorted(candidates, key=key)


def edges(payload: Mapping[str, Any]) -> list[tuple[str, float]]:
    """The payload's edges as (neighbour, weight); other entries are skipped, and a missing weight is 1."""
    listed = payload.get("edges")
    if not isinstance(listed, list):
        return []
    found = []
    for edge in listed:
        if isinstance(edge, dict) and isinstance(to := edge.get("to"), str):
            weight = number(edge.get("weight", 1.0), 0.0, _HEAVIEST)
            if weight is not None:
                found.append((to, weight))
    return found


def boosts(candidates: Sequence[Candidate], semantic: Sequence[float], decay: float, most: int) -> list[float]:
    """Each candidate's sum of edge weight * its neighbour's semantic value * `decay`, over its heaviest edges.

    A candidate's edges are its own and those of other candidates to it; loops don't count. At most `most` count, ties
    by the neighbour's id; an edge to a document that is no candidate is none of them.
    Source: the graph signal of engrava's `search_hybrid`.
    """
    documents = [candidate.document for candidate in candidates]
    value = dict(zip(reversed(documents), reversed(semantic), strict=True))
    neighbours: dict[str, list[tuple[float, str]]] = {document: [] for document in documents}
    for candidate, document in zip(candidates, documents, strict=True):
        for to, weight in edges(candidate.payload):
            if to != document and to in neighbours:
                neighbours[document].append((-weight, to))
                neighbours[to].append((-weight, document))
    gained = {}
    for document, found in neighbours.items():
        found.sort()
        gained[document] = sum(-weight * value[to] * decay for weight, to in found[:most])
    return [gained[document] for document in documents]


def is_reflection(payload: Payload) -> bool:
    """True if the document is a reflection."""
    return payload.get(TYPE) == REFLECTION


def without(legs: Sequence[Leg], *, reflections: bool) -> list[Leg]:
    """The legs without reflections, or without all other documents."""
    found = []
    for leg in legs:
        kept = [rank for rank, payload in enumerate(leg.payloads) if is_reflection(payload) != reflections]
        found.append(leg if len(kept) == len(leg.ids) else leg.at(kept))
    return found


def boost_reflections(candidates: Sequence[Candidate], stage: Reflections, run: Run) -> list[Candidate]:
    """Multiply the scores of reflections; a score below 0 is divided, so that a factor above 1 never lowers one.

    Source: `reflection_boost` of engrava's `search_hybrid`, whose scores are never below 0.
    """
    if stage.reflection_boost == 1.0 and run.explanations is None:
        return list(candidates)
    up, down = stage.reflection_boost, 1 / max(stage.reflection_boost, 1 / MOST_BOOST)
    factors = [
        (up if candidate.score >= 0 else down) if is_reflection(candidate.payload) else 1.0 for candidate in candidates
    ]
    scores = [candidate.score * factor for candidate, factor in zip(candidates, factors, strict=True)]
    return best_first(run.rescore(stage, candidates, scores, {"factor": factors}))


def rank_reflections(legs: Sequence[Leg], recipe: Recipe, run: Run) -> list[Candidate]:
    """Every reflection by (1 - w) * cosine + w * recency; without a query vector newest first, with score 0.

    `w` is `recency_weight`. Negative cosines stay negative.
    Source: engrava's `search_reflections_only`, whose weight for its optional recency is not documented.
    """
    stage = recipe.stage(Reflections) or Reflections()
    by_vector = next((leg for leg in legs if leg.name == VECTOR), None)
    if by_vector is None:
        newest = newest_first(list_candidates(legs))
        if run.explanations is not None:
            run.explanations.note_legs(legs)
        run.rescore(stage, newest, [0.0] * len(newest), first=True)
        return newest
    cosines = by_vector.scores_by_id()
    candidates = list_candidates([by_vector])
    weight = recency_weight(recipe, run.facts.cycle)
    ages: list[float | None] = [None] * len(candidates)
    if weight:
        if run.facts.cycle is None:
            run.now(stage)
        ages = ages_of(candidates, run)
    recent = recency(ages, stage.half_life_days if run.facts.cycle is None else stage.half_life_cycles)
    both = zip(candidates, recent, strict=True)
    scores = [(1 - weight) * cosines[candidate.id] + weight * value for candidate, value in both]
    if run.explanations is not None:
        run.explanations.note_leg(by_vector, cosines, 1 - weight)
    run.rescore(stage, candidates, scores, {"recency": recent, "age": ages}, {"recency_weight": weight}, first=True)
    return best_first_by_id(candidates)


def recency_weight(recipe: Recipe, cycle: int | None) -> float:
    """The weight of recency where reflections alone are ranked: the stage's, or else with a cycle that of the blend.

    Source: own; engrava does not say its weight.
    """
    stage = recipe.stage(Reflections)
    if stage is not None and stage.recency_weight is not None:
        return stage.recency_weight
    blend = recipe.fusion if isinstance(recipe.fusion, Weighted) else Weighted()
    return blend.recency_weight if cycle is not None else 0.0
