"""Composite re-rank: relevance combined with a document's recency, importance and quality.

A document's quality, its worth for any query, comes from its salience, confidence, accesses and recency. The stage
`temporal` adds a share for documents of the time that the query names.
"""

import math
from collections.abc import Iterable, Sequence
from typing import Any, Final, NamedTuple

from operators.ranking.candidate import Candidate, Payload, best_first
from operators.ranking.fusion import ResolvedDecay, weigh_age
from operators.ranking.run import Run, number
from operators.text.dates import TemporalExpression
from schemas.recipes.stages import Composite, Proximity, Temporal

Column = list[float]

_LEAST: Final = -1e38
"""Lowest relevance: a negative score divided by a tiny maximum must not become infinite."""


def composite(candidates: Sequence[Candidate], stage: Composite, run: Run) -> list[Candidate]:
    """Weighted sum of relevance (score / maximum), recency, importance and quality (quality / maximum).

    Source: memini's `search.RerankWith`, with its weights, 0.80 for relevance and 0.20 for quality.
    """
    relevance, highest = _scale_to_maximum([candidate.score for candidate in candidates])
    terms: dict[str, Column] = {}
    behind: dict[str, Iterable[object]] = {}
    if stage.relevance:
        terms["relevance"] = relevance
    if stage.recency:
        now = run.now(stage)
        behind["age_days"] = ages = [unused_days(candidate, now, run) for candidate in candidates]
        terms["recency"] = [weekly_recency(age) for age in ages]
    if stage.importance:
        terms["importance"] = [importance(candidate.payload, stage.importance_scale, run) for candidate in candidates]
    if stage.quality:
        now = run.now(stage)
        worths = [quality(candidate, now, stage, run) for candidate in candidates]
        terms["quality"], best = _scale_to_maximum([worth.raw for worth in worths])
        behind["quality_of"] = ({**worth._asdict(), "maximum": best} for worth in worths)
    scores = [0.0] * len(candidates)
    for name, values in terms.items():
        weight = getattr(stage, name)
        scores = [score + weight * value for score, value in zip(scores, values, strict=True)]
    return best_first(run.rescore(stage, candidates, scores, {**terms, **behind}, {"maximum": highest}))


def _scale_to_maximum(column: Column) -> tuple[Column, float]:
    highest = max(column, default=0.0)
    if highest <= 0:
        return [0.0] * len(column), highest
    return [max(value / highest, _LEAST) for value in column], highest


TIERS: Final = {"procedural": 0.95, "semantic": 0.90, "episodic": 0.55, "working": 0.30}
OTHER_TIER: Final = 0.5
DURABLE: Final = frozenset({"semantic", "procedural"})
"""Tiers of documents without recency; their confidence decays instead."""

RECENCY_DAYS: Final = 7.0
LEAST_CONFIDENCE: Final = 0.05
LOST_A_WEEK: Final = 0.05

_GREATEST: Final = 1e6
_ACCESSES: Final = 1e15


class Quality(NamedTuple):
    """A document's quality before it is divided by the set's maximum, and the values that it was computed from.

    `age_days` is None for a durable document, `unconfirmed_days` for any other: neither counts there.
    """

    raw: float
    salience: float
    confidence: float
    access_count: float
    recency: float
    age_days: float | None
    unconfirmed_days: float | None


def importance(payload: Payload, scale: float, run: Run) -> float:
    """The payload's importance, or else its emotional weight, / `scale`, within 0 and 1; missing: 0.

    The run notes a value outside 0 to `scale`.
    Source: MemPalace's `stage_importance_boost` for a scale of 5, memini's `Memory.Salience` for 1.
    """
    stated = (number(payload.get(name), -_GREATEST, _GREATEST) for name in ("importance", "emotional_weight"))
    value = next((each for each in stated if each is not None), 0.0)
    if not 0 <= value <= scale:
        run.off_scale = True
    return min(max(value, 0.0) / scale, 1.0)


def survival(days: float, k: float, scale: float) -> float:
    """The survival function of a Weibull distribution: exp(-(days / scale)^k). Source: MemPalace's `reranker`."""
    try:
        return math.exp(-((days / scale) ** k))
    except OverflowError:
        return 0.0


def unused_days(candidate: Candidate, now: float, run: Run) -> float | None:
    """Days since the document was last accessed, else updated, else created; None without a stamp."""
    return run.age(candidate, now, "accessed_at", "updated_at", "created_at")


def weekly_recency(age: float | None) -> float:
    """exp(-days / 7); 0 without a stamp. Source: memini's `Memory.Recency`."""
    return math.exp(-age / RECENCY_DAYS) if age is not None else 0.0


def quality(candidate: Candidate, now: float, stage: Composite, run: Run) -> Quality:
    """salience * confidence * (1 + ln(1 + accesses)) * recency; a durable document's recency is 1.

    Source: memini's `Memory.Quality`.
    """
    payload = candidate.payload
    stated = payload.get("memory_tier")
    tier = stated if isinstance(stated, str) else ""
    accesses = number(payload.get("access_count"), 0.0, _ACCESSES) or 0.0
    worth = salience(payload, tier, stage.importance_scale, run)
    age = unconfirmed = None
    trusted = fading = 1.0
    if tier in DURABLE:
        unconfirmed = unconfirmed_days(candidate, now, run)
        trusted = confidence(payload, unconfirmed, stage)
    else:
        age = unused_days(candidate, now, run)
        fading = weekly_recency(age)
    raw = worth * trusted * (1 + math.log1p(accesses)) * fading
    return Quality(raw, worth, trusted, accesses, fading, age, unconfirmed)


def salience(payload: Payload, tier: str, scale: float, run: Run) -> float:
    """The payload's own, else the tier's weight * (0.5 + 0.5 * importance).

    Source: memini's `Memory.Salience`; that a payload may state its own is our own.
    """
    own = number(payload.get("salience"), 0.0, _GREATEST)
    if own is not None:
        return own
    return TIERS.get(tier, OTHER_TIER) * (0.5 + 0.5 * importance(payload, scale, run))


def unconfirmed_days(candidate: Candidate, now: float, run: Run) -> float:
    """Days since the later of two times: last confirmed (else updated, else created), and last accessed; 0 without any.

    Source: memini's `Memory.EffectiveConfidence`; the stamp `confirmed_at` is our own.
    """
    confirmed = run.age(candidate, now, "confirmed_at", "updated_at", "created_at")
    since = (confirmed, run.age(candidate, now, "accessed_at"))
    return min((age for age in since if age is not None), default=0.0)


def confidence(payload: Payload, days: float, stage: Composite) -> float:
    """The payload's confidence after `days` without confirmation; missing: 1.

    `linear`: 0.05 less for each week after the first, at least 0.05. Source: memini's `Memory.EffectiveConfidence`.
    `weibull`: c * (floor + (1 - floor) * survival). Source: MemPalace's `KnowledgeGraph.query_entity`.
    """
    stated = number(payload.get("confidence"), 0.0, 1.0)
    if stated is None:
        return 1.0
    if stage.confidence_decay == "weibull":
        floor = stage.confidence_floor
        return stated * (floor + (1 - floor) * survival(days, stage.confidence_k, stage.confidence_lambda))
    return max(LEAST_CONFIDENCE, stated - LOST_A_WEEK * max(0.0, days / 7 - 1))


def temporal(candidates: Sequence[Candidate], stage: Temporal, run: Run) -> list[Candidate]:
    """Add boost * proximity to each score; without a temporal expression or a boost nothing changes.

    A date after now is as far from the time named as any other.
    Source: memini's `search.RerankTemporal`, with its boost of 0.40.
    """
    temporal_expression = run.facts.temporal_expression
    if temporal_expression is None or stage.boost <= 0:
        return list(candidates)
    now = run.now(stage)
    ages = run.ages(candidates, now, "created_at", ahead=True)
    near = [proximity(age, temporal_expression) if age is not None else 0.0 for age in ages]
    scores = [candidate.score + stage.boost * share for candidate, share in zip(candidates, near, strict=True)]
    named = {"days": temporal_expression.days, "tolerance": temporal_expression.tolerance}
    return best_first(run.rescore(stage, candidates, scores, {"age_days": ages, "proximity": near}, named))


def rank_by_distance_from(candidates: Sequence[Candidate], stage: Proximity, run: Run) -> list[Candidate]:
    """(1 - weight) * score / maximum + weight * nearness of the nearest point; without an origin nothing changes.

    Nearness falls with the metres as the weight of an age with the days, and is least without a point.
    Source: own; the fall is that of BubbleFish Nexus' `query.FinalScore`.
    """
    if stage.origin is None:
        return list(candidates)
    relevance, highest = _scale_to_maximum([candidate.score for candidate in candidates])
    metres = [min(stage.origin.of(candidate.payload), default=None) for candidate in candidates]
    fall = ResolvedDecay(stage.mode, stage.half_distance_m, stage.half_distance_m)
    nearness = [weigh_age(distance, fall) for distance in metres]
    both = zip(relevance, nearness, strict=True)
    scores = [(1 - stage.weight) * share + stage.weight * near for share, near in both]
    columns: dict[str, Iterable[Any]] = {"relevance": relevance, "distance_m": metres, "nearness": nearness}
    return best_first(run.rescore(stage, candidates, scores, columns, {"maximum": highest}))


def proximity(age: float, temporal_expression: TemporalExpression) -> float:
    """1 within the tolerance of the time named, falling linearly to 0 at three times the tolerance; `age` in days.

    Source: memini's `search.RerankTemporal`.
    """
    away = abs(age - temporal_expression.days)
    if away <= temporal_expression.tolerance:
        return 1.0
    return max(0.0, (3 * temporal_expression.tolerance - away) / (2 * temporal_expression.tolerance))
