"""Fusion: the legs' lists, in the order that breaks ties, become one: by ranks, scaled scores, similarity or age."""

import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Final, NamedTuple, TypeVar

from operators.ranking.candidate import Candidate, Leg, best_first, list_candidates, union
from operators.ranking.normalise import NORMALISERS, Scale
from operators.ranking.run import Run
from schemas.recipes import fusion as fusions
from schemas.recipes.fusion import Dbsf, Decay, DecayMode, DecayTier, Linear, OneLeg, Rrf, Score, WeighingStage
from schemas.recipes.stages import FusionStage
from schemas.result import BY_WORDS, FUZZY, KEYWORD, LEARNED, STRUCTURED, VECTOR, WEIGHED_LEGS, LegStatus

T = TypeVar("T")

Values = dict[str, float]


def truncate(ranked: list[T], limit: int) -> list[T]:
    """The first `limit` of the ranked items; all if it is 0 or less."""
    return ranked[:limit] if limit > 0 else ranked


def rrf(legs: Sequence[Leg], stage: Rrf, run: Run) -> list[Candidate]:
    """Sum over the legs of weight / (k + rank), ranks from 0, so that a steep k is possible.

    Source: memini's `search.Fuse`, with its k of 5: reciprocal rank fusion (Cormack, Clarke and Büttcher 2009). The
    weights are our own.
    """
    k = stage.k if stage.k > 0 else fusions.DEFAULT_K
    values = [{id_: 1.0 / (k + rank) for id_, (rank, _) in leg.ranks().items()} for leg in legs]
    return _combine_legs(legs, values, {}, _weigh(legs, stage.weights, stage, run), _sum, stage, run)


def score(legs: Sequence[Leg], stage: Score, run: Run) -> list[Candidate]:
    """Combination of the legs' normalised scores; a leg without the document counts 0 in the sum.

    Source: memini's `search.FuseScores`, with its alpha of 0.5: relative score fusion. The means are our own.
    """
    # A failed leg counts as an empty one: its weight isn't given to the others, in a mean neither.
    there = {leg.name for leg in legs}
    found = [*legs, *(Leg(name, LegStatus.FAILED) for name in stage.legs if name not in {*there, FUZZY})]
    alpha = stage.alpha if stage.alpha is not None else fusions.DEFAULT_ALPHA
    weights = stage.weights if stage.weights is not None else {VECTOR: alpha, KEYWORD: 1 - alpha}
    values, scales = _normalise(found, stage.normaliser, run.words.credit)
    combine = COMBINATIONS[stage.combination]
    return _combine_legs(found, values, scales, _weigh(found, weights, stage, run), combine, stage, run)


def dbsf(legs: Sequence[Leg], stage: Dbsf, run: Run) -> list[Candidate]:
    """Sum of the legs' scores, each scaled by its leg's mean and deviation.

    Source: Qdrant's `dbsf`, distribution-based score fusion (Mazzeschi 2023). The weights are our own.
    """
    values, scales = _normalise(legs, "dbsf", 1.0)
    return _combine_legs(legs, values, scales, _weigh(legs, stage.weights, stage, run), _sum, stage, run)


def one_leg(legs: Sequence[Leg], stage: OneLeg, run: Run) -> list[Candidate]:
    """One leg's list and its raw scores. Source: own."""
    found = [leg for leg in legs if leg.name == stage.name]
    values = [leg.scores_by_id() for leg in found]
    return _combine_legs(found, values, {}, [1.0] * len(found), _sum, stage, run)


def _weigh(legs: Sequence[Leg], weights: Mapping[str, float], stage: WeighingStage, run: Run) -> list[float]:
    # The structured leg's scores are all equal: normalised, they would outweigh the hits of the other legs.
    weighed = {STRUCTURED: 0.0, **dict.fromkeys(WEIGHED_LEGS, 0.0), **weights, FUZZY: stage.fuzzy * run.words.misspelt}
    return [weighed.get(leg.name, 1.0) for leg in legs]


def _normalise(legs: Sequence[Leg], normaliser: str, credit: float) -> tuple[list[Values], dict[str, Scale]]:
    values: list[Values] = []
    scales: dict[str, Scale] = {}
    for leg in legs:
        scored = leg.scores_by_id()
        if raw := [*scored.values()]:
            # Source: theoretical min-max (Bruch, Gai and Ingber 2023). That a cut list has its own minimum, and that
            # the maximum may be the credit of the query's words, is our own.
            by_words = normaliser in {"theoretical", "credited"} and leg.name in BY_WORDS
            scale = NORMALISERS[normaliser]([0.0, *raw] if by_words and not leg.more else raw)
            if normaliser == "credited" and by_words and leg.name != LEARNED:
                scale = Scale(scale.offset, scale.divisor / credit, scale.constant * credit)
            scales[leg.name] = scale
            scored = dict(zip(scored, scale.of(raw), strict=True))
        values.append(scored)
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
        for leg, of, weight in zip(legs, values, weights, strict=True):
            run.explanations.note_leg(leg, of, weight)
        names = {leg.name: weight for leg, weight in zip(legs, weights, strict=True)}
        said = {"weights": names, "scales": {name: scale._asdict() for name, scale in scales.items()}}
        run.rescore(stage, candidates, [each.score for each in candidates], shared=said, first=True)
    return candidates


def _sum(values: Sequence[Values], weights: Sequence[float]) -> Values:
    fused: Values = {}
    known = fused.get
    for of, weight in zip(values, weights, strict=True):
        for id_, value in of.items():
            fused[id_] = known(id_, 0.0) + weight * value
    return fused


def _arithmetic(values: Sequence[Values], weights: Sequence[float]) -> Values:
    total = math.fsum(weights)
    return {id_: value / total if total else 0.0 for id_, value in _sum(values, weights).items()}


def _geometric(weighted: Sequence[tuple[float, float]], total: float) -> float:
    return math.exp(math.fsum(weight * math.log(value) for value, weight in weighted) / total)


def _harmonic(weighted: Sequence[tuple[float, float]], total: float) -> float:
    return total / math.fsum(weight / value for value, weight in weighted)


def _mean(
    mean: Callable[[Sequence[tuple[float, float]], float], float], values: Sequence[Values], weights: Sequence[float]
) -> Values:
    fused: Values = {}
    for id_ in dict.fromkeys(id_ for of in values for id_ in of):
        there = [(of[id_], weight) for of, weight in zip(values, weights, strict=True) if weight and id_ in of]
        # A value of 0 makes either mean 0; negative values have neither.
        positive = bool(there) and min(value for value, _ in there) > 0
        fused[id_] = mean(there, math.fsum(weight for _, weight in there)) if positive else 0.0
    return fused


COMBINATIONS: Final[Mapping[str, Callable[[Sequence[Values], Sequence[float]], Values]]] = {
    "sum": _sum,
    "arithmetic": _arithmetic,
    "geometric": partial(_mean, _geometric),
    "harmonic": partial(_mean, _harmonic),
}
"""By name. A leg without the document counts 0 in the sum and the arithmetic mean; the others leave it out."""


def linear(legs: Sequence[Leg], stage: Linear, run: Run) -> list[Candidate]:
    """alpha * cosine + (1 - alpha) * BM25 / the greatest BM25, at most 1; a leg that did not answer leaves all weight
    to the other.

    A candidate that the vector leg did not return counts its bound, one that the keyword leg did not return counts 0,
    and so does a cosine or a BM25 below 0.
    Source: MemPalace's `reranker.rerank`, which works on the distance that a search returned; the similarity is our
    own.
    """
    scored = {leg.name: leg.scores_by_id() for leg in legs}
    cosines, bm25 = scored.get(VECTOR, {}), scored.get(KEYWORD, {})
    alpha = 0.0 if VECTOR not in scored else 1.0 if KEYWORD not in scored else stage.alpha
    weights = {VECTOR: alpha, KEYWORD: 1 - alpha if KEYWORD in scored else 0.0}
    least, greatest = bound(cosines), max(bm25.values(), default=0.0)
    candidates = list_candidates(legs)
    similar = [max(0.0, cosines.get(candidate.id, least)) for candidate in candidates]
    matches = [max(0.0, bm25.get(candidate.id, 0.0)) for candidate in candidates]
    matching = [match / greatest if greatest > 0 else 0.0 for match in matches]
    both = zip(similar, matching, strict=True)
    scores = [min(1.0, weights[VECTOR] * cosine + weights[KEYWORD] * share) for cosine, share in both]
    if run.explanations is not None:
        run.explanations.note_legs(legs, candidates, {VECTOR: similar, KEYWORD: matching}, weights)
    shared = {"weights": weights, "bound": least, "greatest": greatest}
    run.rescore(stage, candidates, scores, {"cosine": similar, "keyword": matching}, shared, first=True)
    return truncate(best_first(candidates), stage.limit)


COSINE_SHARE: Final = 0.7
RECENCY_SHARE: Final = 0.3
NEUTRAL: Final = 0.5
"""The cosine of every candidate where the vector leg was not asked."""

OLD: Final = 0.1
"""The weight beyond a step's threshold."""


class ResolvedDecay(NamedTuple):
    """The decay in force for a query, in days."""

    mode: DecayMode
    half_life: float
    threshold: float


def resolve_decay(tiers: Sequence[DecayTier], default_half_life: float | None) -> ResolvedDecay | None:
    """The decay of tiers from the least to the most specific: each field's last value that is set; None if it is off.

    Decay is on or off by the last tier that says so, else on if a tier gives a half-life. A profile without decay
    has no default half-life.
    Source: BubbleFish Nexus' `query.ResolveDecay`; that a half-life alone turns it on is our own.
    """
    said = [tier.enabled for tier in tiers if tier.enabled is not None]
    on = said[-1] if said else any(tier.half_life_days > 0 for tier in tiers)
    if default_half_life is None or not on:
        return None
    mode: DecayMode = "exponential"
    half_life = threshold = 0.0
    for tier in tiers:
        mode = tier.mode or mode
        half_life = tier.half_life_days or half_life
        threshold = tier.step_threshold_days or threshold
    half_life = half_life or default_half_life
    return ResolvedDecay(mode, half_life, threshold or half_life)


def weigh_age(age: float | None, decay: ResolvedDecay) -> float:
    """The recency weight of an age in days, undated: of the oldest. Source: BubbleFish Nexus' `query.FinalScore`."""
    if decay.mode == "step":
        return 1.0 if age is not None and age <= decay.threshold else OLD
    return 2.0 ** (-age / decay.half_life) if age is not None else 0.0


def rank_by_decay(legs: Sequence[Leg], stage: Decay, run: Run) -> list[Candidate]:
    """0.7 * cosine within 0 and 1 + 0.3 * weight; where decay is off, the cosine. Equal scores: the better BM25 first.

    Source: BubbleFish Nexus' `query.HybridMerge` and `query.FinalScore`; unlike it, a candidate that the vector leg did
    not return counts the smallest cosine of that leg.
    """
    candidates = list_candidates(legs)
    scored = {leg.name: leg.scores_by_id() for leg in legs}
    found, bm25 = scored.get(VECTOR, {}), scored.get(KEYWORD, {})
    neutral = stage.neutral
    if neutral == "bound":
        neutral = bound(found) if VECTOR in scored else NEUTRAL
    cosines = [min(max(found.get(candidate.id, neutral), 0.0), 1.0) for candidate in candidates]
    columns: dict[str, Sequence[float | None]] = {"cosine": cosines}
    decay = resolve_decay((stage, *run.facts.decay), run.facts.decay_half_life)
    scores = cosines
    if decay is not None:
        now = run.now(stage)
        ages = run.ages(candidates, now, "created_at")
        weights = [weigh_age(age, decay) for age in ages]
        scores = [
            COSINE_SHARE * cosine + RECENCY_SHARE * recent for cosine, recent in zip(cosines, weights, strict=True)
        ]
        columns |= {"age_days": ages, "weight": weights}
    if run.explanations is not None:
        shares = {VECTOR: COSINE_SHARE if decay is not None else 1.0}
        run.explanations.note_legs(legs, candidates, {VECTOR: cosines}, shares)
    run.rescore(stage, candidates, scores, columns, decay._asdict() if decay is not None else {}, first=True)
    # Stable: the order by BM25 stays within equal scores, and that by id within equal BM25.
    ranked = sorted(candidates, key=lambda candidate: candidate.document)
    ranked.sort(key=lambda candidate: (-candidate.score, -bm25.get(candidate.id, 0.0)))
    return truncate(ranked, stage.limit)


def bound(cosines: Mapping[str, float]) -> float:
    """The greatest cosine of a document that the vector leg did not return: its smallest, at least 0; 0 if it is empty.

    Source: own.
    """
    return max(0.0, min(cosines.values(), default=0.0))
