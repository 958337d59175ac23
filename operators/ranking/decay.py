"""Decay: a score of cosine and age, with tiers of configuration."""

from collections.abc import Sequence
from typing import Final, NamedTuple

from operators.ranking.candidate import Candidate, Leg, in_tie_order, list_candidates, rescore, scores_by_leg
from operators.ranking.fusion import bound, truncate
from operators.ranking.run import Run
from schemas.recipes.fusion import Decay, DecayMode, DecayTier
from schemas.result import KEYWORD, VECTOR

COSINE_SHARE: Final = 0.7
RECENCY_SHARE: Final = 0.3
NEUTRAL: Final = 0.5
"""The cosine of every candidate where the vector leg was not asked."""

OLD: Final = 0.1
"""The weight beyond a step's threshold."""


class Resolved(NamedTuple):
    """The decay in force for a query, in days."""

    mode: DecayMode
    half_life: float
    threshold: float


def resolve(tiers: Sequence[DecayTier], default_half_life: float | None) -> Resolved | None:
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
    return Resolved(mode, half_life, threshold or half_life)


def weight(age: float | None, decay: Resolved) -> float:
    """The recency weight of an age in days; without a date that of the oldest.

    Source: BubbleFish Nexus' `query.FinalScore`.
    """
    if decay.mode == "step":
        return 1.0 if age is not None and age <= decay.threshold else OLD
    return 2.0 ** (-age / decay.half_life) if age is not None else 0.0


def rank_by_decay(legs: Sequence[Leg], stage: Decay, run: Run) -> list[Candidate]:
    """0.7 * cosine within 0 and 1 + 0.3 * weight; where decay is off, the cosine. Equal scores: the better BM25 first.

    Source: BubbleFish Nexus' `query.HybridMerge` and `query.FinalScore`; unlike it, a candidate that the vector leg did
    not return counts the smallest cosine of that leg.
    """
    candidates = list_candidates(legs)
    scored = scores_by_leg(legs)
    found, bm25 = scored.get(VECTOR, {}), scored.get(KEYWORD, {})
    neutral = stage.neutral
    if neutral == "bound":
        neutral = bound(found) if VECTOR in scored else NEUTRAL
    cosines = [min(max(found.get(candidate.id, neutral), 0.0), 1.0) for candidate in candidates]
    columns: dict[str, Sequence[float | None]] = {"cosine": cosines}
    decay = resolve((stage, *run.facts.decay), run.facts.decay_half_life)
    scores = cosines
    if decay is not None:
        now = run.now(stage)
        ages = run.ages(candidates, now, "created_at")
        weights = [weight(age, decay) for age in ages]
        scores = [
            COSINE_SHARE * cosine + RECENCY_SHARE * recent for cosine, recent in zip(cosines, weights, strict=True)
        ]
        columns |= {"age_days": ages, "weight": weights}
    if run.explanations is not None:
        shares = {VECTOR: COSINE_SHARE if decay is not None else 1.0}
        run.explanations.note_legs(in_tie_order(legs), candidates, {VECTOR: cosines}, shares)
    run.explain(stage, candidates, scores, columns, decay._asdict() if decay is not None else {}, first=True)
    rescore(candidates, scores)
    # Stable: the order by BM25 stays within equal scores, and that by id within equal BM25.
    ranked = sorted(candidates, key=lambda candidate: candidate.document)
    ranked.sort(key=lambda candidate: (-candidate.score, -bm25.get(candidate.id, 0.0)))
    return truncate(ranked, stage.limit)
