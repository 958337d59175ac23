"""The fusions and the five-signal blend once more, as plainly as they can be written: lists, loops and no numpy.

It shares no code with what it checks, and was written from the formulas alone. Speed is no aim.
"""

import math
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, TypeGuard

from operators.ranking.candidate import Leg

Pairs = list[tuple[str, float]]
Payload = Mapping[str, Any]

PRIORITIES = {"P1": 1.0, "P2": 0.6, "P3": 0.3, "P4": 0.0}
YEAR_1, YEAR_10000 = -62_135_596_800.0, 253_402_300_800.0


def rrf(legs: Sequence[Leg], k: float = 5.0, weights: Mapping[str, float] | None = None) -> Pairs:
    """Reciprocal rank fusion: of each leg weight / (k + rank)."""
    total: dict[str, float] = {}
    for leg in ordered(legs):
        weight = weight_of(leg.name, weights or {})
        for rank, id_, _ in hits(leg):
            total[id_] = total.get(id_, 0.0) + weight / ((k if k > 0 else 5.0) + rank)
    return by_leg_and_rank(total)


def score(
    legs: Sequence[Leg],
    alpha: float | None = None,
    weights: Mapping[str, float] | None = None,
    *,
    credit: float | None = None,
) -> Pairs:
    """Score fusion: each leg's min-max scores, weighted and summed; with a credit up to it in a leg by words, and from
    0 if the leg is whole.
    """
    if weights is None:
        alpha = 0.5 if alpha is None else alpha
        weights = {"vector": alpha, "keyword": 1 - alpha}
    total: dict[str, float] = {}
    for leg in ordered(legs):
        by_words = credit is not None and leg.name in {"keyword", "keyword_context"}
        most = credit if by_words and credit is not None else 1.0
        for id_, value in min_max(leg, *([0.0] if by_words and not leg.more else [])):
            total[id_] = total.get(id_, 0.0) + weight_of(leg.name, weights) * most * value
    return by_leg_and_rank(total)


def weight_of(leg: str, weights: Mapping[str, float]) -> float:
    """A leg's weight: the one given, else 1, and 0 for the structured leg."""
    if leg in weights:
        return weights[leg]
    return 0.0 if leg == "structured" else 1.0


def ordered(legs: Sequence[Leg]) -> list[Leg]:
    """Vector, keyword, structured, then the others by name."""
    first = [leg for name in ("vector", "keyword", "structured") for leg in legs if leg.name == name]
    others = [leg for leg in legs if leg.name not in ("vector", "keyword", "structured")]
    return first + sorted(others, key=lambda leg: leg.name)


def hits(leg: Leg) -> list[tuple[int, str, float]]:
    """Rank, id and raw score of each id, where the leg has it first."""
    seen: set[str] = set()
    found = []
    for rank in range(len(leg.ids)):
        if leg.ids[rank] not in seen:
            seen.add(leg.ids[rank])
            found.append((rank, leg.ids[rank], float(leg.scores[rank])))
    return found


def min_max(leg: Leg, *others: float) -> Pairs:
    """Each id's score on the scale from the worst, 0, to the best, 1, of its leg and others; 1 where all are equal."""
    found = [(id_, value) for _, id_, value in hits(leg)]
    values = [*others, *(value for _, value in found)]
    low, high = min(values, default=0.0), max(values, default=0.0)
    return [(id_, 1.0 if low == high else (value - low) / (high - low)) for id_, value in found]


def by_leg_and_rank(total: Mapping[str, float]) -> Pairs:
    """Best first. A total is filled leg by leg and rank by rank, which is the order of ties."""
    return sorted(total.items(), key=lambda pair: -pair[1])


def blend(
    legs: Sequence[Leg],
    weights: Mapping[str, float],
    now: float | None = None,
    cycle: int | None = None,
    half_life_days: float = 7.0,
    half_life_cycles: float = 50.0,
    decay: float = 0.5,
    most: int = 5,
) -> tuple[Pairs, bool]:
    """The five-signal blend, and whether the graph changed a score."""
    payloads: dict[str, Payload] = {}
    for leg in ordered(legs):
        for id_, payload in zip(leg.ids, leg.payloads, strict=True):
            payloads.setdefault(id_, payload)
    by_name = {leg.name: leg for leg in legs}
    keyword = dict(min_max(by_name["keyword"])) if "keyword" in by_name else {}
    vector = {id_: max(0.0, cosine) for _, id_, cosine in hits(by_name["vector"])} if "vector" in by_name else {}

    signals: dict[str, dict[str, float]] = {}
    if weights["keyword"] and "keyword" in by_name:
        signals["keyword"] = keyword
    if weights["vector"] and "vector" in by_name:
        signals["vector"] = vector
    if weights["recency"] and cycle is not None:
        signals["recency"] = {
            id_: faded(cycles_since(payload, cycle), half_life_cycles) for id_, payload in payloads.items()
        }
    elif weights["recency"] and now is not None:
        signals["recency"] = {id_: faded(days_since(payload, now), half_life_days) for id_, payload in payloads.items()}
    if weights["priority"]:
        signals["priority"] = {id_: priority(payload) for id_, payload in payloads.items()}
    if weights["graph"]:
        semantic = {id_: max(keyword.get(id_, 0.0), vector.get(id_, 0.0)) for id_ in payloads}
        signals["graph"] = {id_: graph(id_, payloads, semantic, decay, most) for id_ in payloads}

    def place(id_: str) -> tuple[float, str]:
        created = None if signals else moment(payloads[id_], "created_at")
        undated = 0.0 if signals else math.inf
        return undated if created is None else -created, own_id(id_, payloads[id_])

    scored: dict[str, float] = {}
    changed = False
    for id_ in payloads:
        scored[id_] = 0.0
        for name, values in signals.items():
            share = weights[name] / sum(weights[other] for other in signals)
            before = scored[id_]
            scored[id_] += share * values.get(id_, 0.0)
            if name == "graph" and scored[id_] != before:
                changed = True
    return sorted(scored.items(), key=lambda pair: (-pair[1], place(pair[0]))), changed


def own_id(id_: str, payload: Payload) -> str:
    """The document's own id, if its payload has one."""
    return payload["id"] if isinstance(payload.get("id"), str) else id_


def faded(age: float | None, half_life: float) -> float:
    """A half after each half-life; 0 for what has no age."""
    return 0.0 if age is None else math.exp(-math.log(2) / half_life * age)


def days_since(payload: Payload, now: float) -> float | None:
    """Days since the update, or else the creation; none below 0."""
    at = moment(payload, "updated_at", "created_at")
    return None if at is None else max(0.0, now - at) / 86_400


def cycles_since(payload: Payload, cycle: int) -> float | None:
    """The caller's cycles since the document's; none below 0."""
    own = payload.get("cycle")
    return max(0.0, cycle - own) if is_number(own) else None


def moment(payload: Payload, *names: str) -> float | None:
    """The first of these stamps that is one, in Unix seconds."""
    for name in names:
        value = payload.get(name)
        if isinstance(value, str):
            try:
                read = datetime.fromisoformat(value)
            except ValueError:
                continue
            value = None if read.tzinfo is None else read.timestamp()
        if is_number(value) and YEAR_1 <= value < YEAR_10000:
            return float(value)
    return None


def is_number(value: Any) -> TypeGuard[float]:
    """A number as JSON has it: no boolean, no NaN, no infinity."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    return not isinstance(value, float) or math.isfinite(value)


def priority(payload: Payload) -> float:
    """P1 to P4 by the table, anything else 0."""
    value = payload.get("priority")
    return PRIORITIES.get(value, 0.0) if isinstance(value, str) else 0.0


def graph(id_: str, payloads: Mapping[str, Payload], semantic: Mapping[str, float], decay: float, most: int) -> float:
    """The contribution of one candidate's neighbours, over its own edges and the others' edges to it."""
    me = own_id(id_, payloads[id_])
    ids = {own_id(other, payload): other for other, payload in payloads.items()}
    touching: list[tuple[float, str]] = []
    for other, payload in payloads.items():
        for to, weight in edges(payload):
            if other == id_ and to != me and to in ids:
                touching.append((weight, to))
            if other != id_ and to == me:
                touching.append((weight, own_id(other, payload)))
    touching.sort(key=lambda edge: (-edge[0], edge[1]))
    lent = 0.0
    for weight, neighbour in touching[:most]:
        lent += weight * semantic[ids[neighbour]] * decay
    return lent


def edges(payload: Payload) -> list[tuple[str, float]]:
    """The edges that a payload has, without what isn't one: weights from 0 to a million, 1 where none is written."""
    listed = payload.get("edges")
    found = []
    for edge in listed if isinstance(listed, list) else []:
        if isinstance(edge, dict) and isinstance(edge.get("to"), str):
            weight = edge.get("weight", 1)
            if is_number(weight):
                found.append((edge["to"], float(min(1e6, max(0, weight)))))
    return found
