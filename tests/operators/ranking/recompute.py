"""A score worked out again from its explanation alone, by the specification's formulas and none of the code."""

import math
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, NamedTuple

Legs = Mapping[str, Mapping[str, Any]]
Parameters = Mapping[str, Any]
Values = Mapping[str, Any]
Formula = Callable[[Legs, Parameters, Values, float], float]
"""Of the legs, the stage's parameters and values and the output before it: the stage's output."""


class Recomputed(NamedTuple):
    """A stage's output as the explanation states it, and as its formula has it."""

    stage: str
    stated: float
    recomputed: float


def recompute(explanation: Mapping[str, Any]) -> Iterator[Recomputed]:
    """Each stage's output anew, from its own parameters and values and the output before it; the last is the score."""
    before = math.nan
    for step in explanation["stages"]:
        name = step["stage"]
        formula = _reflections_only if name == "reflections" and step["input"] is None else FORMULAS[name]
        again = formula(explanation["legs"], step["parameters"], step["values"], before)
        yield Recomputed(name, step["output"], again)
        before = step["output"]


def _weight(weights: Mapping[str, float], leg: str) -> float:
    return weights.get(leg, 0.0 if leg == "structured" else 1.0)


def _rrf(legs: Legs, parameters: Parameters, values: Values, before: float) -> float:
    k = parameters["k"] if parameters["k"] > 0 else 5.0
    return math.fsum(_weight(parameters["weights"], name) / (k + leg["rank"]) for name, leg in legs.items())


def _scaled(score: float, scale: Mapping[str, float]) -> float:
    return (score - scale["offset"]) / scale["divisor"] if scale["divisor"] else scale["constant"]


def _convex(parameters: Parameters, leg: str) -> float:
    if parameters["weights"] is not None:
        return _weight(parameters["weights"], leg)
    alpha = 0.5 if parameters["alpha"] is None else parameters["alpha"]
    return _weight({"vector": alpha, "keyword": 1 - alpha}, leg)


def _group(legs: Legs, parameters: Parameters, values: Values, before: float) -> float:
    if parameters["group_score"] == "max":
        return before
    total = math.fsum(values["scores"])
    return total if parameters["group_score"] == "sum" else total / values["count"]


def _score(legs: Legs, parameters: Parameters, values: Values, before: float) -> float:
    offered = {name: _convex(parameters, name) for name in values["weights"]}
    found = [(offered[name], _scaled(leg["score"], values["scales"][name])) for name, leg in legs.items()]
    if parameters["combination"] in {"sum", "arithmetic"}:
        total = 1.0 if parameters["combination"] == "sum" else math.fsum(offered.values())
        return math.fsum(weight * value for weight, value in found) / total if total else 0.0
    found = [(weight, value) for weight, value in found if weight > 0]
    if not found or min(value for _, value in found) <= 0:
        return 0.0
    total = math.fsum(weight for weight, _ in found)
    if parameters["combination"] == "geometric":
        return math.exp(math.fsum(weight * math.log(value) for weight, value in found) / total)
    return total / math.fsum(weight / value for weight, value in found)


def _linear(legs: Legs, parameters: Parameters, values: Values, before: float) -> float:
    """The bound where the vector leg doesn't have it; all weight to the leg that answered alone."""
    alpha = parameters["alpha"]
    weights = values["weights"]["vector"], values["weights"]["keyword"]
    assert weights in {(alpha, 1 - alpha), (0.0, 1.0), (1.0, 0.0), (0.0, 0.0)}
    cosine = max(0.0, legs["vector"]["score"]) if "vector" in legs else values["bound"]
    matches = max(0.0, legs["keyword"]["score"]) if "keyword" in legs else 0.0
    of_greatest = matches / values["greatest"] if values["greatest"] > 0 else 0.0
    return float(min(1.0, weights[0] * cosine + weights[1] * of_greatest))


def _dbsf(legs: Legs, parameters: Parameters, values: Values, before: float) -> float:
    weights = {name: _weight(parameters["weights"], name) for name in legs}
    return math.fsum(weights[name] * _scaled(leg["score"], values["scales"][name]) for name, leg in legs.items())


def _one(name: str) -> Formula:
    return lambda legs, parameters, values, before: float(legs[name]["score"])


def _weighted(legs: Legs, parameters: Parameters, values: Values, before: float) -> float:
    signals = dict(values["signals"])
    if "keyword" in signals:
        signals["keyword"] = legs["keyword"]["normalised"] if "keyword" in legs else 0.0
    if "vector" in signals:
        signals["vector"] = max(0.0, legs["vector"]["score"]) if "vector" in legs else 0.0
    total = math.fsum(parameters[f"{name}_weight"] for name in signals)
    return math.fsum(parameters[f"{name}_weight"] / total * value for name, value in signals.items())


def _decay(legs: Legs, parameters: Parameters, values: Values, before: float) -> float:
    without = values["cosine"] if parameters["neutral"] == "bound" else parameters["neutral"]
    cosine = float(min(max(legs["vector"]["score"] if "vector" in legs else without, 0.0), 1.0))
    if "mode" not in values:
        return cosine
    age = values["age_days"]
    if values["mode"] == "step":
        weight = 1.0 if age is not None and age <= values["threshold"] else 0.1
    else:
        weight = 0.0 if age is None else 2 ** float(-age / values["half_life"])
    return 0.7 * cosine + 0.3 * weight


def _reflections(legs: Legs, parameters: Parameters, values: Values, before: float) -> float:
    boost = float(parameters["reflection_boost"])
    if values["factor"] == 1.0:
        return before
    return before * boost if before >= 0 else before / max(boost, 1e-6)


def _reflections_only(legs: Legs, parameters: Parameters, values: Values, before: float) -> float:
    """Cosine, and recency where it has a weight; nothing to ask by: 0."""
    if "vector" not in legs or "recency" not in values:
        return 0.0
    weight = parameters.get("recency_weight")
    weight = values["recency_weight"] if weight is None else weight
    return float((1 - weight) * legs["vector"]["score"] + weight * values["recency"])


def _of_maximum(value: float, maximum: float) -> float:
    return value / maximum if maximum > 0 else 0.0


def _composite(legs: Legs, parameters: Parameters, values: Values, before: float) -> float:
    terms = [parameters["relevance"] * _of_maximum(before, values["maximum"])]
    terms += [parameters[name] * values[name] for name in ("recency", "importance") if parameters[name]]
    if parameters["quality"]:
        of = values["quality_of"]
        raw = of["salience"] * of["confidence"] * (1 + math.log(1 + of["access_count"])) * of["recency"]
        terms.append(parameters["quality"] * _of_maximum(raw, of["maximum"]))
    return math.fsum(terms)


def _answers(legs: Legs, parameters: Parameters, values: Values, before: float) -> float:
    lost = parameters["weight"] * values["questions"] * abs(before)
    return before + float(parameters["passed"] * values["before"] - lost)


def _temporal(legs: Legs, parameters: Parameters, values: Values, before: float) -> float:
    if values["age_days"] is None:
        return before
    away, tolerance = abs(values["age_days"] - values["days"]), values["tolerance"]
    # A line from 1 at the tolerance to 0 at three times the tolerance.
    near = min(1.0, max(0.0, 1 - (away - tolerance) / (2 * tolerance)))
    return before + float(parameters["boost"] * near)


def _near(legs: Legs, parameters: Parameters, values: Values, before: float) -> float:
    half, metres = parameters["half_distance_m"], values["distance_m"]
    if parameters["mode"] == "step":
        near = 1.0 if metres is not None and metres <= half else 0.1
    else:
        near = math.exp(-math.log(2) * metres / half) if metres is not None else 0.0
    share = parameters["weight"]
    return float((1 - share) * _of_maximum(before, values["maximum"]) + share * near)


def _distance(factor: Callable[[Parameters, Values], float]) -> Formula:
    return lambda legs, parameters, values, before: 1 - max(0.0, 1 - before) * factor(parameters, values)


def _weibull(parameters: Parameters, values: Values) -> float:
    age, floor = values["age_days"], parameters["floor"]
    try:
        survival = 1.0 if age is None else math.exp(-((age / parameters["lambda"]) ** parameters["k"]))
    except OverflowError:
        survival = 0.0
    return float(1 / (floor + (1 - floor) * survival))


def _picked(legs: Legs, parameters: Parameters, values: Values, before: float) -> float:
    return 1 - float(values["smallest"] / 2)


def _rerank(legs: Legs, parameters: Parameters, values: Values, before: float) -> float:
    if "smallest" in values:
        return _picked(legs, parameters, values, before)
    if "tail_scale" in values:
        return _tail(before, values)
    relevance, order = _scaled(values["score"], values["relevance_scale"]), _scaled(before, values["order_scale"])
    return float(values["weight"] * relevance + (1 - values["weight"]) * order)


def _tail(before: float, values: Values) -> float:
    return _scaled(before, values["tail_scale"]) - 1


def _feedback(legs: Legs, parameters: Parameters, values: Values, before: float) -> float:
    if "tail_scale" in values:
        return _tail(before, values)
    old, like = _scaled(before, values["order_scale"]), _scaled(values["cosine"], values["similarity_scale"])
    return float((1 - parameters["weight"]) * old + parameters["weight"] * like)


def _smoothing(legs: Legs, parameters: Parameters, values: Values, before: float) -> float:
    if "tail_scale" in values:
        return _tail(before, values)
    old = _scaled(before, values["order_scale"])
    return float((1 - parameters["weight"]) * old + parameters["weight"] * values["mean"])


def _coverage(legs: Legs, parameters: Parameters, values: Values, before: float) -> float:
    evidence = values["credit"] * math.fsum(word["information"] * word["support"] for word in values["words"].values())
    assert math.isclose(evidence, values["evidence"], rel_tol=1e-12, abs_tol=1e-12)
    return before + float(parameters["weight"] * evidence / (1 + evidence))


def _wishes(legs: Legs, parameters: Parameters, values: Values, before: float) -> float:
    """The order's score takes the place of what is left, where the order is about the candidate."""
    failed = math.fsum(wish["fails"] for wish in values["wishes"])
    assert math.isclose(failed, values["fails"], rel_tol=1e-12, abs_tol=1e-12)
    if (order := values["order"]) is not None:
        return float(order["best"] + parameters["weight"] * order["share"])
    return float(before - parameters["weight"] * failed)


def _versions(legs: Legs, parameters: Parameters, values: Values, before: float) -> float:
    scores: list[float] = values["scores"]
    assert scores == sorted(scores, reverse=True)
    assert before in scores
    return scores[values["rank"]]


FORMULAS: Final[Mapping[str, Formula]] = {
    "rrf": _rrf,
    "score": _score,
    "linear": _linear,
    "dbsf": _dbsf,
    "vector": _one("vector"),
    "keyword": _one("keyword"),
    "weighted": _weighted,
    "decay": _decay,
    "coverage": _coverage,
    "group": _group,
    "dedupe": lambda legs, parameters, values, before: before,
    "reflections": _reflections,
    "composite": _composite,
    "answers": _answers,
    "speakers": lambda legs, parameters, values, before: before - parameters["weight"] * abs(before) * values["other"],
    "temporal": _temporal,
    "near": _near,
    "versions": _versions,
    "weibull_decay": _distance(_weibull),
    "keyword_boost": _distance(lambda parameters, values: 1 - parameters["weight"] * values["overlap"]),
    "importance_boost": _distance(lambda parameters, values: 1 - parameters["weight"] * values["importance"]),
    "llm_rerank": _picked,
    "rerank": _rerank,
    "feedback": _feedback,
    "smoothing": _smoothing,
    "wishes": _wishes,
}
