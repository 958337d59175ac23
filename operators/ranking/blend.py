"""The five-signal blend: keyword, vector, recency, priority and graph."""

import math
from collections.abc import Sequence
from typing import Final

from operators.ranking.candidate import Candidate, Leg, best_first_by_id, in_order, union
from operators.ranking.fusion import cut
from operators.ranking.graph import boosts
from operators.ranking.normalise import min_max
from operators.ranking.run import Run, number, stamp
from schemas.leg import KEYWORD, VECTOR
from schemas.recipes.fusion import Weighted

PRIORITIES: Final = {"P1": 1.0, "P2": 0.6, "P3": 0.3, "P4": 0.0}

_CYCLES: Final = 1e15

Column = list[float]


def weighted(legs: Sequence[Leg], stage: Weighted, run: Run) -> list[Candidate]:
    """Sum of the active signals' weighted values; the weights are divided by their sum.

    A signal is active if it has a weight and could be computed. A leg without the candidate counts 0. Without any
    active signal the newest candidate is first, and all scores are 0.
    Source: engrava's `search_hybrid`; unlike it, the keyword leg's worst hit is 0 and a query always has a clock.
    """
    found = in_order(legs)
    candidates = [Candidate(id_, 0.0, payload) for id_, payload in union(found).items()]
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
    return cut(best_first_by_id(candidates) if shares else newest_first(candidates), stage.limit)


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
    """By `created_at`, the undated last, then by the document's id. Source: own."""

    def place(candidate: Candidate) -> tuple[float, str]:
        created = stamp(candidate.payload.get("created_at"))
        return (-created if created is not None else math.inf), candidate.document

    return sorted(candidates, key=place)


def _keyword(candidates: Sequence[Candidate], leg: Leg) -> Column:
    scored = leg.scored()
    if not scored:
        return [0.0] * len(candidates)
    raw = list(scored.values())
    values = dict(zip(scored, min_max(raw).of(raw), strict=True))
    return [values.get(candidate.id, 0.0) for candidate in candidates]


def _vector(candidates: Sequence[Candidate], leg: Leg) -> Column:
    values = leg.scored()
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
    for leg in legs:
        share = shares.get(leg.name, 0.0)
        column = columns.get(leg.name, [0.0] * len(candidates))
        noted = {
            candidate.id: {"normalised": value, "weight": share, "contribution": share * value}
            for candidate, value in zip(candidates, column, strict=True)
        }
        run.explanations.leg(leg, noted)
    raw = next((list(leg.scored().values()) for leg in legs if leg.name == KEYWORD), [])
    scale = min_max(raw)._asdict() if raw else None
    for index, candidate in enumerate(candidates):
        values: dict[str, object] = {"weights": shares, "signals": {name: columns[name][index] for name in shares}}
        values["keyword_scale"] = scale
        if ages:
            values["age"] = ages[index]
        run.explanations.step(stage, candidate, None, candidate.score, values)
