"""Confidence: how it fades in durable tiers, linearly and by Weibull, since which stamp, and where it doesn't."""

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from operators.ranking.composite import quality
from schemas.recipes.stages import Composite
from tests.operators.ranking.odd import NO_NUMBERS, NO_STAMPS, WILD_NUMBERS, YEAR_1, ago, named, payloads
from tests.operators.ranking.pools import NOW, candidate, run

LINEAR = Composite()
WEIBULL = Composite(confidence_decay="weibull")


def of(stage: Composite = LINEAR, tier: str | None = "semantic", **payload: Any) -> float:
    """The confidence in a document with this payload, as its quality has it."""
    return quality(candidate("a", 1.0, memory_tier=tier, **payload), NOW, stage, run()).confidence


@pytest.mark.parametrize("stage", [LINEAR, WEIBULL])
@pytest.mark.parametrize("tier", ["semantic", "procedural"])
def test_missing_is_full_confidence(stage: Composite, tier: str) -> None:
    """Without a confidence it is 1, however old the document."""
    assert of(stage, tier) == of(stage, tier, updated_at=YEAR_1, confirmed_at=YEAR_1) == 1.0


@pytest.mark.parametrize("stage", [LINEAR, WEIBULL])
@pytest.mark.parametrize("tier", ["episodic", "working", "archival", None])
def test_other_tiers_have_full_confidence(stage: Composite, tier: str | None) -> None:
    """Outside the durable tiers a stated confidence counts for nothing."""
    assert of(stage, tier, confidence=0.2, updated_at=ago(70)) == 1.0


@pytest.mark.parametrize("value", NO_NUMBERS)
def test_what_is_no_number_is_missing(value: object) -> None:
    """A confidence that isn't a number is none: 1; True isn't a number."""
    assert of(confidence=value, updated_at=ago(700)) == 1.0


@pytest.mark.parametrize("tier", ["semantic", "procedural"])
@pytest.mark.parametrize(
    ("days", "left"),
    [
        (0, 0.8),
        (3, 0.8),
        (7, 0.8),  # the first week is free
        (8.75, 0.7875),  # .8 - .05 * .25: weeks are continuous
        (10.5, 0.775),  # .8 - .05 * .5
        (14, 0.75),  # .8 - .05 * 1
        (21, 0.7),  # .8 - .05 * 2
        (70, 0.35),  # .8 - .05 * 9
        (105, 0.1),  # .8 - .05 * 14
        (112, 0.05),  # .8 - .05 * 15
        (119, 0.05),  # .8 - .05 * 16 = 0: the floor
        (5000, 0.05),
    ],
)
def test_linear_by_hand(tier: str, days: float, left: float) -> None:
    """Of .8 is left max(.05, .8 - .05 * max(0, weeks - 1))."""
    assert of(tier=tier, confidence=0.8, confirmed_at=ago(days)) == pytest.approx(left)


@pytest.mark.parametrize("stated", [0, 0.01, 0.05])
def test_linear_has_a_floor_for_new_documents_too(stated: float) -> None:
    """Linear confidence is never below .05, be the stated one lower."""
    assert of(confidence=stated, confirmed_at=NOW) == 0.05


@pytest.mark.parametrize(
    ("days", "left"),
    [
        (0, 0.8),
        (7, 0.7919564638111618),  # (7/180)^1.2 = .0203138; exp of minus that .9798912; .8 * .9899456
        (90, 0.658834604606541),  # (1/2)^1.2 = .4352753; exp of minus that .6470865; .8 * .8235433
        (180, 0.5471517764685769),  # .8 * (.5 + .5 / e)
        (100_000, 0.4),  # .8 * .5: the floor
    ],
)
def test_weibull_by_hand(days: float, left: float) -> None:
    """Of .8 is left .8 * (.5 + .5 * exp(-(days/180)^1.2)), from the first day on."""
    assert of(WEIBULL, confidence=0.8, confirmed_at=ago(days)) == pytest.approx(left)


def test_weibull_has_no_other_floor() -> None:
    """By Weibull a low confidence stays low: half of .02 is .01, and 0 is 0."""
    assert of(WEIBULL, confidence=0.02, confirmed_at=YEAR_1) == pytest.approx(0.01)
    assert of(WEIBULL, confidence=0, confirmed_at=NOW) == 0


def test_linear_is_the_default() -> None:
    """A stage that says nothing fades confidence linearly."""
    assert Composite().confidence_decay == "linear"


@pytest.mark.parametrize(
    ("stamps", "days"),
    [
        ({"confirmed_at": 21, "accessed_at": 14}, 14),
        ({"confirmed_at": 14, "accessed_at": 21}, 14),
        ({"confirmed_at": 21}, 21),
        ({"accessed_at": 21}, 21),
        ({"updated_at": 21}, 21),
        ({"confirmed_at": 21, "updated_at": 14}, 21),  # confirmed goes before updated
        ({"updated_at": 14, "accessed_at": 21}, 14),
        ({"updated_at": 21, "accessed_at": 14}, 14),
        ({"confirmed_at": 28, "updated_at": 14, "accessed_at": 21}, 21),
        ({"confirmed_at": 21, "created_at": 14}, 21),
    ],
)
def test_since_the_later_of_confirmation_and_use(stamps: dict[str, float], days: float) -> None:
    """Weeks count from the later of `confirmed_at` (else `updated_at`) and `accessed_at`; `created_at` has no say."""
    left = {14: 0.85, 21: 0.8}[int(days)]
    payload: dict[str, Any] = {name: ago(age) for name, age in stamps.items()}
    assert of(confidence=0.9, **payload) == pytest.approx(left)


@pytest.mark.parametrize("value", NO_STAMPS, ids=named)
def test_a_confirmation_that_is_no_time_is_missing(value: object) -> None:
    """The change counts in its place, and an access that is none counts for nothing."""
    assert of(confidence=0.9, confirmed_at=value, updated_at=ago(21), accessed_at=value) == pytest.approx(0.8)


@pytest.mark.parametrize("stage", [LINEAR, WEIBULL])
def test_nothing_to_count_from_is_no_fading(stage: Composite) -> None:
    """Without any of the stamps the stated confidence stands."""
    assert of(stage, confidence=0.6) == 0.6


@pytest.mark.parametrize("stage", [LINEAR, WEIBULL])
def test_a_document_that_was_never_updated_fades_from_its_creation(stage: Composite) -> None:
    """The latest of the stamps that say when it was last known to be true counts, the creation at the least."""
    assert of(stage, confidence=0.6, created_at=ago(30)) == of(stage, confidence=0.6, updated_at=ago(30)) < 0.6
    assert of(stage, confidence=0.6, created_at=YEAR_1, updated_at=ago(0)) == 0.6


@pytest.mark.parametrize("stage", [LINEAR, WEIBULL])
def test_a_confirmation_in_the_future_is_fresh(stage: Composite) -> None:
    """A stamp after now hasn't faded, and is warned of."""
    noting = run()
    ahead = candidate("a", 1.0, memory_tier="semantic", confidence=0.6, confirmed_at=ago(-30))
    assert quality(ahead, NOW, stage, noting).confidence == 0.6
    assert len(noting.warnings()) == 1


def test_since_the_year_1() -> None:
    """The oldest stamp that there is leaves the floors: .05, and half."""
    assert of(confidence=0.8, confirmed_at=YEAR_1) == 0.05
    assert of(WEIBULL, confidence=0.8, confirmed_at=YEAR_1) == pytest.approx(0.4)


@pytest.mark.parametrize("stage", [LINEAR, WEIBULL])
def test_stored_values_never_change(stage: Composite) -> None:
    """Fading is of the reading: the payload stays as it was."""
    payload = {"memory_tier": "semantic", "confidence": 0.8, "confirmed_at": ago(70)}
    kept = dict(payload)
    quality(candidate("a", 1.0, **payload), NOW, stage, run())
    assert payload == kept


@pytest.mark.parametrize("value", WILD_NUMBERS, ids=named)
@pytest.mark.parametrize("stage", [LINEAR, WEIBULL])
def test_no_number_is_more_than_full_confidence(stage: Composite, value: float) -> None:
    """A confidence out of all bounds counts as something between 0 and 1."""
    assert 0 <= of(stage, confidence=value, confirmed_at=NOW) <= 1


@given(st.floats(0, 1), st.floats(0, 1e5), st.floats(0, 1e5), st.sampled_from([LINEAR, WEIBULL]))
def test_confidence_never_rises_with_age(stated: float, one: float, other: float, stage: Composite) -> None:
    """The longer ago the confirmation, the same confidence or less, within the floors and the stated value."""
    young, old = sorted((one, other))
    fresh, faded = (of(stage, confidence=stated, confirmed_at=ago(days)) for days in (young, old))
    assert faded <= fresh <= max(stated, 0.05)
    assert faded >= (0.05 if stage is LINEAR else stated / 2 * (1 - 1e-12))


@given(payloads, st.sampled_from([LINEAR, WEIBULL]))
def test_any_payload_has_a_confidence_within_zero_and_one(payload: dict[str, Any], stage: Composite) -> None:
    """Whatever the fields hold, confidence is a number of 0 to 1."""
    found = quality(candidate("a", 1.0, **payload), NOW, stage, run()).confidence
    assert math.isfinite(found)
    assert 0 <= found <= 1
