"""Fusion: the legs' lists become one, by reciprocal ranks, by scores on one scale, or by an absolute similarity."""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Final, TypeVar

from operators.ranking.candidate import Candidate, Leg, best_first, in_tie_order, list_candidates, union
from operators.ranking.normalise import NORMALISERS, Scale
from operators.ranking.run import Run
from schemas.recipes.fusion import DEFAULT_ALPHA, DEFAULT_K, Dbsf, Linear, OneLeg, Rrf, Score, WeighingStage
from schemas.recipes.stages import FusionStage
from schemas.result import FUZZY, KEYWORD, STRUCTURED, VECTOR, WEIGHED_LEGS, LegStatus

T = TypeVar("T")

Values = dict[str, float]
Weights = Mapping[str, float]


def truncate(ranked: list[T], limit: int) -> list[T]:
    """The first `limit` of the ranked items; all if it is 0 or less."""
    return ranked[:limit] if limit > 0 else ranked


def rrf(legs: Sequence[Leg], stage: Rrf, run: Run) -> list[Candidate]:
    """Sum over the legs of weight / (k + rank), ranks from 0, so that a steep k is possible.

    Source: memini's `search.Fuse`, with its k of 5: reciprocal rank fusion (Cormack, Clarke and Büttcher 2009). The
    weights are our own.
    """
    k = stage.k if stage.k > 0 else DEFAULT_K
    found = in_tie_order(legs)
    values = [{id_: 1.0 / (k + rank) for id_, (rank, _) in leg.ranks().items()} for leg in found]
    weights = [_weight(leg.name, stage.weights, stage, run) for leg in found]
    return _combine_legs(found, values, {}, weights, _sum, stage, run)


def score(legs: Sequence[Leg], stage: Score, run: Run) -> list[Candidate]:
    """Combination of the legs' normalised scores; a leg without the document counts 0 in the sum.

    Source: memini's `search.FuseScores`, with its alpha of 0.5: relative score fusion. The means are our own.
    """
    found = in_tie_order(legs)
    # A failed leg counts as an empty one: its weight isn't given to the others, in a mean neither.
    there = {leg.name for leg in found}
    found += [Leg(name, LegStatus.FAILED) for name in stage.legs if name not in {*there, FUZZY}]
    if stage.weights is None:
        alpha = stage.alpha if stage.alpha is not None else DEFAULT_ALPHA
        convex = {VECTOR: alpha, KEYWORD: 1 - alpha}
        weights = [_weight(leg.name, convex, stage, run) for leg in found]
    else:
        weights = [_weight(leg.name, stage.weights, stage, run) for leg in found]
    values, scales = _normalise(found, stage.normaliser)
    return _combine_legs(found, values, scales, weights, COMBINATIONS[stage.combination], stage, run)


def dbsf(legs: Sequence[Leg], stage: Dbsf, run: Run) -> list[Candidate]:
    """Sum of the legs' scores, each scaled by its leg's mean and deviation.

    Source: Qdrant's `dbsf`, distribution-based score fusion (Mazzeschi 2023). The weights are our own.
    """
    found = in_tie_order(legs)
    weights = [_weight(leg.name, stage.weights, stage, run) for leg in found]
    values, scales = _normalise(found, "dbsf")
    return _combine_legs(found, values, scales, weights, _sum, stage, run)


def one_leg(legs: Sequence[Leg], stage: OneLeg, run: Run) -> list[Candidate]:
    """One leg's list and its raw scores. Source: own."""
    found = [leg for leg in legs if leg.name == stage.name]
    values = [leg.scores_by_id() for leg in found]
    return _combine_legs(found, values, {}, [1.0] * len(found), _sum, stage, run)


def _weight(leg: str, weights: Weights, stage: WeighingStage, run: Run) -> float:
    if leg == FUZZY:
        return stage.fuzzy * run.misspelt**2
    # The structured leg's scores are all equal: normalised, they would outweigh the hits of the other legs.
    return weights.get(leg, 0.0 if leg in {STRUCTURED, *WEIGHED_LEGS} else 1.0)


def _normalise(legs: Sequence[Leg], normaliser: str) -> tuple[list[Values], dict[str, Scale]]:
    values: list[Values] = []
    scales: dict[str, Scale] = {}
    for leg in legs:
        scored = leg.scores_by_id()
        raw = list(scored.values())
        if raw:
            scales[leg.name] = NORMALISERS[normaliser](raw)
            values.append(dict(zip(scored, scales[leg.name].of(raw), strict=True)))
        else:
            values.append({})
    return values, scales


def _combine_legs(
    legs: Sequence[Leg],
    values: Sequence[Values],
    scales: Mapping[str, Scale],
    weights: Sequence[float],
    combine: Callable[[Sequence[Values], Sequence[float]], Values],
    stage: FusionStage,
    run: Run,
) -> list[Candidate]:
    fused, payloads = combine(values, weights), union(legs)
    # Stable in reverse, too: equal scores keep the order of ties.
    ranked = truncate(sorted(payloads, key=fused.__getitem__, reverse=True), stage.limit)
    candidates = list(map(Candidate, ranked, map(fused.__getitem__, ranked), map(payloads.__getitem__, ranked)))
    if run.explanations is not None:
        _explain(legs, values, scales, weights, candidates, stage, run)
    return candidates


def _explain(
    legs: Sequence[Leg],
    values: Sequence[Values],
    scales: Mapping[str, Scale],
    weights: Sequence[float],
    candidates: Sequence[Candidate],
    stage: FusionStage,
    run: Run,
) -> None:
    assert run.explanations is not None
    for leg, of, weight in zip(legs, values, weights, strict=True):
        run.explanations.note_leg(leg, of, weight)
    names = {leg.name: weight for leg, weight in zip(legs, weights, strict=True)}
    said = {"weights": names, "scales": {name: scale._asdict() for name, scale in scales.items()}}
    run.explain(stage, candidates, None, {}, said)


def _sum(values: Sequence[Values], weights: Sequence[float]) -> Values:
    fused: Values = {}
    known = fused.get
    for of, weight in zip(values, weights, strict=True):
        fused |= {id_: known(id_, 0.0) + weight * value for id_, value in of.items()}
    return fused


def _arithmetic(values: Sequence[Values], weights: Sequence[float]) -> Values:
    total = math.fsum(weights)
    return {id_: value / total if total else 0.0 for id_, value in _sum(values, weights).items()}


def _geometric(values: Sequence[Values], weights: Sequence[float]) -> Values:
    def mean(own: Sequence[float], of: Sequence[float], total: float) -> float:
        return math.exp(math.fsum(weight * math.log(value) for value, weight in zip(own, of, strict=True)) / total)

    return _mean(values, weights, mean)


def _harmonic(values: Sequence[Values], weights: Sequence[float]) -> Values:
    def mean(own: Sequence[float], of: Sequence[float], total: float) -> float:
        return total / math.fsum(weight / value for value, weight in zip(own, of, strict=True))

    return _mean(values, weights, mean)


def _mean(
    values: Sequence[Values],
    weights: Sequence[float],
    mean: Callable[[Sequence[float], Sequence[float], float], float],
) -> Values:
    fused: Values = {}
    for id_ in dict.fromkeys(id_ for of in values for id_ in of):
        there = [(of[id_], weight) for of, weight in zip(values, weights, strict=True) if weight and id_ in of]
        own, weighing = [value for value, _ in there], [weight for _, weight in there]
        # A value of 0 makes either mean 0; negative values have neither.
        fused[id_] = mean(own, weighing, math.fsum(weighing)) if own and min(own) > 0 else 0.0
    return fused


COMBINATIONS: Final[Mapping[str, Callable[[Sequence[Values], Sequence[float]], Values]]] = {
    "sum": _sum,
    "arithmetic": _arithmetic,
    "geometric": _geometric,
    "harmonic": _harmonic,
}
"""By their names in recipes. A leg without the document counts 0 in the sum and the arithmetic mean, and is left out of
the other two."""


def linear(legs: Sequence[Leg], stage: Linear, run: Run) -> list[Candidate]:
    """alpha * cosine + (1 - alpha) * BM25 / the greatest BM25, at most 1; a leg that did not answer leaves all weight
    to the other.

    A candidate that the vector leg did not return counts its bound, one that the keyword leg did not return counts 0,
    and so does a cosine or a BM25 below 0.
    Source: MemPalace's `reranker.rerank`, which works on the distance that a search returned; the similarity is our
    own.
    """
    found = in_tie_order(legs)
    by_name = {leg.name: leg for leg in found}
    vector, keyword = by_name.get(VECTOR), by_name.get(KEYWORD)
    alpha = 0.0 if vector is None else 1.0 if keyword is None else stage.alpha
    weights = {VECTOR: alpha, KEYWORD: 1 - alpha if keyword is not None else 0.0}
    cosines = vector.scores_by_id() if vector is not None else {}
    bm25 = keyword.scores_by_id() if keyword is not None else {}
    least = bound(vector) if vector is not None else 0.0
    greatest = max(bm25.values(), default=0.0)
    candidates = list_candidates(found)
    similar = [max(0.0, cosines.get(candidate.id, least)) for candidate in candidates]
    matches = [max(0.0, bm25.get(candidate.id, 0.0)) for candidate in candidates]
    matching = [match / greatest if greatest > 0 else 0.0 for match in matches]
    for candidate, cosine, share in zip(candidates, similar, matching, strict=True):
        candidate.score = min(1.0, weights[VECTOR] * cosine + weights[KEYWORD] * share)
    if run.explanations is not None:
        columns = {VECTOR: similar, KEYWORD: matching}
        for leg in found:
            column = columns.get(leg.name, [0.0] * len(candidates))
            by_id = {candidate.id: value for candidate, value in zip(candidates, column, strict=True)}
            run.explanations.note_leg(leg, by_id, weights.get(leg.name, 0.0))
    shared = {"weights": weights, "bound": least, "greatest": greatest}
    run.explain(stage, candidates, None, {"cosine": similar, "keyword": matching}, shared)
    return truncate(best_first(candidates), stage.limit)


def bound(vector: Leg) -> float:
    """The greatest cosine of a document that the vector leg did not return: its smallest, at least 0; 0 if it is empty.

    Source: own.
    """
    return max(0.0, min(vector.scores_by_id().values(), default=0.0))
