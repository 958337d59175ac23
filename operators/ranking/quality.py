"""Quality: what a document is worth, whoever asks.

Source: a memory store's composite re-rank: salience, corroboration, reinforcement and recency in one number.
"""

import math
from typing import Final, NamedTuple

from operators.ranking.candidate import Candidate, Payload
from operators.ranking.run import Run, number
from schemas.recipes.stages import Composite

TIERS: Final = {"procedural": 0.95, "semantic": 0.90, "episodic": 0.55, "working": 0.30}
OTHER_TIER: Final = 0.5
DURABLE: Final = frozenset({"semantic", "procedural"})
"""Tiers whose documents don't fade, but whose confidence does."""

RECENCY_DAYS: Final = 7.0
LEAST_CONFIDENCE: Final = 0.05
LOST_A_WEEK: Final = 0.05

_SHAPE: Final = 1.2
_SCALE_DAYS: Final = 180.0
_FLOOR: Final = 0.5
_MOST: Final = 1e6
_ACCESSES: Final = 1e15


class Quality(NamedTuple):
    """A document's quality before it is divided by the set's maximum, and what it is the product of."""

    raw: float
    salience: float
    confidence: float
    access_count: float
    recency: float


def importance(payload: Payload, scale: float) -> float:
    """The payload's importance / `scale`, within 0 and 1; missing: 0."""
    value = number(payload.get("importance"), 0.0, _MOST)
    return min(value / scale, 1.0) if value is not None else 0.0


def recency(candidate: Candidate, now: float, run: Run) -> float:
    """exp(-days / 7) since the document was last used, else changed, else made; 0 without a stamp."""
    age = run.age_days(candidate, now, "accessed_at", "updated_at", "created_at")
    return math.exp(-age / RECENCY_DAYS) if age is not None else 0.0


def quality(candidate: Candidate, now: float, stage: Composite, run: Run) -> Quality:
    """salience * confidence * (1 + ln(1 + accesses)) * recency; durable tiers don't fade."""
    payload = candidate.payload
    tier = payload.get("memory_tier")
    tier = tier if isinstance(tier, str) else None
    accesses = number(payload.get("access_count"), 0.0, _ACCESSES) or 0.0
    durable = tier in DURABLE
    worth = salience(payload, tier, stage.importance_scale)
    trusted = confidence(candidate, now, stage, run) if durable else 1.0
    fading = 1.0 if durable else recency(candidate, now, run)
    return Quality(worth * trusted * (1 + math.log1p(accesses)) * fading, worth, trusted, accesses, fading)


def salience(payload: Payload, tier: str | None, scale: float) -> float:
    """The payload's own, else the tier's weight * (0.5 + 0.5 * importance)."""
    own = number(payload.get("salience"), 0.0, _MOST)
    if own is not None:
        return own
    weight = TIERS.get(tier, OTHER_TIER) if tier is not None else OTHER_TIER
    return weight * (0.5 + 0.5 * importance(payload, scale))


def confidence(candidate: Candidate, now: float, stage: Composite, run: Run) -> float:
    """The payload's confidence, faded since it was last confirmed (else changed) or used; missing: 1.

    `linear`: 0.05 less for each week after the first, at least 0.05. `weibull`: c * (0.5 + 0.5 * exp(-(days/180)^1.2)).
    """
    stated = number(candidate.payload.get("confidence"), 0.0, 1.0)
    if stated is None:
        return 1.0
    since = [
        run.age_days(candidate, now, "confirmed_at", "updated_at"),
        run.age_days(candidate, now, "accessed_at"),
    ]
    days = min((age for age in since if age is not None), default=0.0)
    if stage.confidence_decay == "weibull":
        return stated * (_FLOOR + (1 - _FLOOR) * math.exp(-((days / _SCALE_DAYS) ** _SHAPE)))
    return max(LEAST_CONFIDENCE, stated - LOST_A_WEEK * max(0.0, days / 7 - 1))
