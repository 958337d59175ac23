"""Quality: salience, accesses and recency of a document, by hand; what is missing, odd or from the future."""

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from operators.ranking.composite import Quality, importance, quality
from schemas.recipes.stages import Composite
from tests.operators.ranking.odd import NO_NUMBERS, NO_STAMPS, WILD_NUMBERS, YEAR_1, ago, named, payloads
from tests.operators.ranking.pools import NOW, candidate, run

SCALE_1 = Composite(importance_scale=1)


def of(stage: Composite | None = None, **payload: Any) -> Quality:
    """The quality of a document with this payload."""
    return quality(candidate("a", 1.0, **payload), NOW, stage or Composite(), run())


def factors(of: Quality) -> tuple[float, ...]:
    """A quality and all that it is the product of."""
    return of.raw, of.salience, of.confidence, of.access_count, of.recency


@pytest.mark.parametrize(
    ("tier", "weight"),
    [
        ("procedural", 0.95),
        ("semantic", 0.90),
        ("episodic", 0.55),
        ("working", 0.30),
        ("archival", 0.5),
        ("", 0.5),
        (None, 0.5),
        (7, 0.5),
        (["semantic"], 0.5),
    ],
)
def test_the_table_of_tiers(tier: object, weight: float) -> None:
    """Salience is half the tier's weight without importance and the whole of it at the most; other tiers weigh .5."""
    assert of(memory_tier=tier).salience == pytest.approx(weight * 0.5)
    assert of(memory_tier=tier, importance=5).salience == pytest.approx(weight)


def test_no_tier_at_all_weighs_a_half() -> None:
    """A document without a tier has salience .5 * (.5 + .5 * 3/5) = .4."""
    assert of(importance=3).salience == pytest.approx(0.4)


def test_derived_salience_by_hand() -> None:
    """Semantic with importance 3 of 5: .9 * (.5 + .5 * .6) = .72; on the scale to 1, 3 is 1: .9."""
    assert of(memory_tier="semantic", importance=3).salience == pytest.approx(0.72)
    assert of(SCALE_1, memory_tier="semantic", importance=0.6).salience == pytest.approx(0.72)
    assert of(SCALE_1, memory_tier="semantic", importance=3).salience == pytest.approx(0.9)


@pytest.mark.parametrize("own", [0, 0.0, 0.8, 1])
def test_own_salience_goes_before_tier_and_importance(own: float) -> None:
    """A document's salience stands as it is, 0 too, whatever its tier and importance."""
    assert of(salience=own, memory_tier="procedural", importance=5).salience == own


@pytest.mark.parametrize("value", NO_NUMBERS)
def test_a_salience_that_is_no_number_is_derived(value: object) -> None:
    """A value that isn't a number is no salience: working with importance 5 has .3."""
    assert of(salience=value, memory_tier="working", importance=5).salience == pytest.approx(0.3)


@pytest.mark.parametrize(
    ("value", "by_5", "by_1"),
    [
        (0, 0.0, 0.0),
        (0.4, 0.08, 0.4),
        (1, 0.2, 1.0),
        (3, 0.6, 1.0),
        (5, 1.0, 1.0),
        (7, 1.0, 1.0),
        (-2, 0.0, 0.0),
        (1e308, 1.0, 1.0),
        (-1e308, 0.0, 0.0),
        (10**400, 1.0, 1.0),
    ],
    ids=named,
)
def test_importance_by_hand(value: float, by_5: float, by_1: float) -> None:
    """Importance / scale, within 0 and 1, on either scale."""
    assert importance({"importance": value}, 5, run()) == pytest.approx(by_5)
    assert importance({"importance": value}, 1, run()) == pytest.approx(by_1)


@pytest.mark.parametrize("value", NO_NUMBERS)
def test_importance_that_is_no_number_is_missing(value: object) -> None:
    """Missing importance is 0, and so is what isn't a number; True isn't 1."""
    assert importance({"importance": value}, 1, run()) == importance({}, 1, run()) == 0


def test_the_default_scale_is_five() -> None:
    """A composite stage that says nothing divides importance by 5."""
    assert of(memory_tier="semantic", importance=5) == of(
        Composite(importance_scale=5), memory_tier="semantic", importance=5
    )
    assert of(memory_tier="semantic", importance=1).salience == pytest.approx(0.9 * 0.6)


@pytest.mark.parametrize(
    ("count", "factor"),
    [
        (0, 1.0),
        (1, 1.6931471805599454),  # 1 + ln 2
        (9, 3.302585092994046),  # 1 + ln 10
        (2.5, 2.252762968495368),  # 1 + ln 3.5
        (-5, 1.0),
        *((value, 1.0) for value in NO_NUMBERS),
    ],
)
def test_accesses_by_hand(count: object, factor: float) -> None:
    """Quality is multiplied by 1 + ln(1 + count); fewer than none, and what isn't a number, is none."""
    assert of(salience=0.5, memory_tier="semantic", access_count=count).raw == pytest.approx(0.5 * factor)
    assert of(salience=0.5, memory_tier="semantic").raw == 0.5


@pytest.mark.parametrize(
    ("stamps", "days"),
    [
        ({"accessed_at": 7, "updated_at": 1, "created_at": 2}, 7),
        ({"updated_at": 14, "created_at": 2}, 14),
        ({"created_at": 3.5}, 3.5),
        ({"accessed_at": 0, "created_at": 90}, 0),
        ({"confirmed_at": 1, "created_at": 7}, 7),
    ],
)
def test_recency_goes_by_access_then_change_then_creation(stamps: dict[str, float], days: float) -> None:
    """exp(-days / 7) of the first of the three stamps that is there; a confirmation says nothing."""
    payload: dict[str, Any] = {name: ago(age) for name, age in stamps.items()}
    found = of(salience=1, **payload)
    # After 7 days 1/e, after 14 1/e^2, after 3.5 the root of 1/e.
    expected = {7: 0.36787944117144233, 14: 0.1353352832366127, 3.5: 0.6065306597126334, 0: 1.0}[days]
    assert found.recency == pytest.approx(expected)
    assert found.raw == pytest.approx(expected)


@pytest.mark.parametrize("value", NO_STAMPS, ids=named)
def test_a_stamp_that_is_no_time_is_missing(value: object) -> None:
    """The next stamp counts in its place; without any, recency and with it quality are 0."""
    assert of(salience=1, accessed_at=value, updated_at=ago(7)).recency == pytest.approx(math.exp(-1))
    assert of(salience=1, accessed_at=value, updated_at=value, created_at=value).raw == 0


@pytest.mark.parametrize("stamp", [ago(7), int(ago(7)), "2023-11-07T22:13:20Z", "2023-11-08T07:13:20+09:00"])
def test_a_stamp_is_a_number_or_an_offset_time(stamp: object) -> None:
    """Unix seconds and RFC 3339 name the same moment, in whatever offset."""
    assert of(salience=1, created_at=stamp).recency == pytest.approx(math.exp(-1))


def test_the_future_counts_as_now_with_a_warning() -> None:
    """A stamp after now has age 0, and the answer says that there was one."""
    noting = run()
    ahead = quality(candidate("a", 1.0, salience=1, created_at=ago(-30)), NOW, Composite(), noting)
    assert ahead.recency == 1.0
    assert len(noting.warnings()) == 1
    assert noting.warnings()[0].startswith("1 candidate ")


def test_the_present_is_no_future() -> None:
    """A stamp at now itself has age 0 without a warning."""
    noting = run()
    assert quality(candidate("a", 1.0, salience=1, created_at=NOW), NOW, Composite(), noting).recency == 1.0
    assert noting.warnings() == []


@pytest.mark.parametrize("tier", ["semantic", "procedural"])
def test_durable_tiers_dont_fade(tier: str) -> None:
    """Semantic and procedural documents are worth the same however long ago, and without any stamp."""
    assert of(salience=0.5, memory_tier=tier, created_at=YEAR_1).raw == 0.5
    assert of(salience=0.5, memory_tier=tier).raw == 0.5


@pytest.mark.parametrize("tier", ["episodic", "working", "archival", None])
def test_other_tiers_fade(tier: str | None) -> None:
    """Every other tier's quality falls to 1/e in a week, to nothing since the year 1, and is 0 without a stamp."""
    assert of(salience=0.5, memory_tier=tier, created_at=ago(7)).raw == pytest.approx(0.5 * math.exp(-1))
    assert of(salience=0.5, memory_tier=tier, created_at=YEAR_1).raw == of(salience=0.5, memory_tier=tier).raw == 0


def test_a_document_that_says_nothing() -> None:
    """An empty payload has salience .5 * .5, confidence 1, no accesses and no recency, so no quality."""
    assert factors(of()) == (0, 0.25, 1, 0, 0)


def test_a_fading_document_by_hand() -> None:
    """Episodic, importance 4 of 5, 3 accesses, used 3.5 days ago: .55 * .9 * (1 + ln 4) * exp(-.5)."""
    found = of(memory_tier="episodic", importance=4, access_count=3, accessed_at=ago(3.5), created_at=ago(90))
    # .495 * 2.386294361119891 * .6065306597126334
    assert found.raw == pytest.approx(0.7164435430936994)


def test_a_durable_document_by_hand() -> None:
    """Procedural, importance 5, 1 access, confidence .9 confirmed 21 days ago: .95 * (.9 - .05 * 2) * (1 + ln 2)."""
    found = of(memory_tier="procedural", importance=5, access_count=1, confidence=0.9, confirmed_at=ago(21))
    # .95 * .8 * 1.6931471805599454
    assert found.raw == pytest.approx(1.2867918572255586)


@pytest.mark.parametrize("value", WILD_NUMBERS, ids=named)
@pytest.mark.parametrize("name", ["importance", "salience", "confidence", "access_count"])
def test_wild_numbers_give_a_finite_quality(name: str, value: object) -> None:
    """Numbers out of all bounds neither raise nor leave the finite, and none makes a quality negative."""
    payload: dict[str, Any] = {"memory_tier": "semantic", name: value}
    found = of(**payload)
    assert all(math.isfinite(part) and part >= 0 for part in factors(found))


@given(payloads, st.sampled_from([Composite(), SCALE_1, Composite(confidence_decay="weibull")]))
def test_any_payload_has_a_finite_quality(payload: dict[str, Any], stage: Composite) -> None:
    """Whatever the fields hold, quality is a number of 0 or more, and so is all that it is the product of."""
    found = of(stage, **payload)
    assert all(math.isfinite(part) and part >= 0 for part in factors(found))


tiers = st.sampled_from(["procedural", "semantic", "episodic", "working", None])
ages = st.floats(0, 100_000)


@given(tiers, st.floats(0, 5), st.floats(0, 5), ages)
def test_more_importance_never_lowers_quality(tier: str | None, one: float, other: float, age: float) -> None:
    """Of two documents that differ in importance alone, the more important is worth as much or more."""
    low, high = sorted((one, other))
    lesser = of(memory_tier=tier, importance=low, created_at=ago(age))
    assert of(memory_tier=tier, importance=high, created_at=ago(age)).raw >= lesser.raw


@given(tiers, st.integers(0, 10**6), st.integers(0, 10**6), ages)
def test_more_accesses_never_lower_quality(tier: str | None, one: int, other: int, age: float) -> None:
    """Of two documents that differ in accesses alone, the one used more is worth as much or more."""
    low, high = sorted((one, other))
    lesser = of(memory_tier=tier, access_count=low, created_at=ago(age))
    assert of(memory_tier=tier, access_count=high, created_at=ago(age)).raw >= lesser.raw


@given(tiers, ages, ages, st.none() | st.floats(0, 1))
def test_age_never_raises_quality(tier: str | None, one: float, other: float, confidence: float | None) -> None:
    """Of two documents that differ in age alone, the older is worth as much or less."""
    young, old = sorted((one, other))
    newer = of(memory_tier=tier, confidence=confidence, updated_at=ago(young))
    assert of(memory_tier=tier, confidence=confidence, updated_at=ago(old)).raw <= newer.raw
