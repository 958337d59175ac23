"""The five-signal blend: keyword, vector, recency, priority and graph.

In the graph only a neighbour's semantic value counts, so that documents with many edges don't raise each other.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from operators.ranking.candidate import Candidate, Leg, best_first_by_id, in_tie_order, list_candidates
from operators.ranking.fusion import truncate
from operators.ranking.normalise import min_max
from operators.ranking.run import Run, number, stamp
from schemas.recipes.fusion import Weighted
from schemas.result import KEYWORD, VECTOR

PRIORITIES: Final = {"P1": 1.0, "P2": 0.6, "P3": 0.3, "P4": 0.0}

_CYCLES: Final = 1e15

Column = list[float]


def rank_by_blend(legs: Sequence[Leg], stage: Weighted, run: Run) -> list[Candidate]:
    """Sum of the active signals' weighted values; the weights are divided by their sum.

    A signal is active if it has a weight and could be computed. A leg without the candidate counts 0. Without any
    active signal the newest candidate is first, and all scores are 0.
    Source: engrava's `search_hybrid`; unlike it, the keyword leg's worst hit is 0 and a query always has a clock.
    """
    found = in_tie_order(legs)
    candidates = list_candidates(found)
    offered = {leg.name: leg for leg in found}
    facts = run.facts
    clocked = facts.cycle is not None or facts.now is not None
    weights = {
        "keyword": stage.keyword_weight if KEYWORD in offered else 0.0,
        "vector": stage.vector_weight if VECTOR in offered else 0.0,
        "recency": stage.recency_weight if clocked else 0.0,
        "priority": stage.priority_weight,
        "graph": stage.graph_weight,
    }
    total = math.fsum(weights.values())
    shares = {name: weight / total for name, weight in weights.items() if weight > 0} if total > 0 else {}
    columns: dict[str, Column] = {}
    ages: list[float | None] = []
    if "keyword" in shares or ("graph" in shares and KEYWORD in offered):
        columns["keyword"] = _keyword(candidates, offered[KEYWORD])
    if "vector" in shares or ("graph" in shares and VECTOR in offered):
        columns["vector"] = _vector(candidates, offered[VECTOR])
    if "recency" in shares:
        ages = ages_of(candidates, run)
        half_life = stage.half_life_cycles if facts.cycle is not None else stage.half_life_days
        columns["recency"] = recency(ages, half_life)
    if "priority" in shares:
        columns["priority"] = _priority(candidates)
    if "graph" in shares:
        columns["graph"] = _graph(candidates, columns, stage)
    scores = [0.0] * len(candidates)
    for name, share in shares.items():
        before = scores
        scores = [score + share * value for score, value in zip(before, columns[name], strict=True)]
        # The graph counts as a backend only if it changed a score: small boosts may be lost in rounding.
        if name == "graph" and scores != before:
            run.backends.append("graph")
    for candidate, score in zip(candidates, scores, strict=True):
        candidate.score = score
    if run.explanations is not None:
        _explain(found, candidates, shares, columns, ages, stage, run)
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


def _keyword(candidates: Sequence[Candidate], leg: Leg) -> Column:
    scored = leg.scores_by_id()
    if not scored:
        return [0.0] * len(candidates)
    raw = list(scored.values())
    values = dict(zip(scored, min_max(raw).of(raw), strict=True))
    return [values.get(candidate.id, 0.0) for candidate in candidates]


def _vector(candidates: Sequence[Candidate], leg: Leg) -> Column:
    values = leg.scores_by_id()
    return [max(0.0, values.get(candidate.id, 0.0)) for candidate in candidates]


def _priority(candidates: Sequence[Candidate]) -> Column:
    stated = [candidate.payload.get("priority") for candidate in candidates]
    return [PRIORITIES.get(priority, 0.0) if isinstance(priority, str) else 0.0 for priority in stated]


def _graph(candidates: Sequence[Candidate], columns: dict[str, Column], stage: Weighted) -> Column:
    nothing = [0.0] * len(candidates)
    semantic = [max(pair) for pair in zip(columns.get("keyword", nothing), columns.get("vector", nothing), strict=True)]
    return boosts(candidates, semantic, stage.graph_edge_decay, stage.max_neighbors_per_candidate)


def _explain(
    legs: Sequence[Leg],
    candidates: Sequence[Candidate],
    shares: dict[str, float],
    columns: dict[str, Column],
    ages: list[float | None],
    stage: Weighted,
    run: Run,
) -> None:
    assert run.explanations is not None
    ids = [candidate.id for candidate in candidates]
    for leg in legs:
        column = columns.get(leg.name, [0.0] * len(candidates))
        run.explanations.note_leg(leg, dict(zip(ids, column, strict=True)), shares.get(leg.name, 0.0))
    raw = next((list(leg.scores_by_id().values()) for leg in legs if leg.name == KEYWORD), [])
    scale = min_max(raw)._asdict() if raw else None
    signals = [{name: columns[name][index] for name in shares} for index in range(len(candidates))]
    noted: dict[str, Iterable[object]] = {
        "weights": [shares] * len(ids),
        "signals": signals,
        "keyword_scale": [scale] * len(ids),
    }
    run.explain(stage, candidates, None, noted | ({"age": ages} if ages else {}))


_HEAVIEST: Final = 1e6


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
