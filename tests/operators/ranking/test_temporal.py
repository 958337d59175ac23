"""Temporal targeting: proximity by hand, what a bonus does to an order, and where nothing may change, to the byte."""

import math
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from operators.ranking.candidate import Candidate, Leg
from operators.ranking.composite import proximity, temporal
from operators.ranking.run import Facts
from operators.text.dates import TemporalExpression
from schemas.errors import InputError
from schemas.recipes import SHIPPED
from schemas.recipes.stages import Temporal
from tests.operators.ranking.odd import NO_STAMPS, YEAR_1, ago, named, payloads
from tests.operators.ranking.pools import (
    NOW,
    any_finite,
    candidate,
    ids,
    keyword,
    legs,
    rank,
    recipe,
    run,
    scores,
    vector,
)
from tests.operators.text.times import temporal_expression

THREE_WEEKS = TemporalExpression(21, 5)


@pytest.mark.parametrize(
    ("away", "near"),
    [
        (0, 1.0),
        (2.5, 1.0),
        (5, 1.0),  # the tolerance
        (6, 0.9),  # (15 - 6) / 10
        (7.5, 0.75),
        (10, 0.5),  # twice the tolerance
        (14, 0.1),
        (15, 0.0),  # three times the tolerance
        (15.5, 0.0),
        (21, 0.0),
    ],
)
def test_proximity_by_hand(away: float, near: float) -> None:
    """1 within 5 days of 21 days ago, then linearly to 0 at 15 days from it, before and after alike."""
    assert proximity(21 + away, THREE_WEEKS) == pytest.approx(near)
    assert proximity(21 - away, THREE_WEEKS) == pytest.approx(near)


def test_the_bonus_by_hand() -> None:
    """Boost .40 * proximity is added to the score as it is: 3 gains .4, .3, .2 and nothing."""
    pool = [
        candidate("far", 3.0, created_at=ago(36)),
        candidate("near", 3.0, created_at=ago(21)),
        candidate("half", 3.0, created_at=ago(31)),
        candidate("late", 3.0, created_at=ago(13.5)),
    ]
    found = temporal(pool, Temporal(), run(temporal_expression=THREE_WEEKS))
    assert scores(found) == [
        ("near", pytest.approx(3.4)),
        ("late", pytest.approx(3.3)),  # 7.5 away: .4 * .75
        ("half", pytest.approx(3.2)),
        ("far", 3.0),
    ]


def test_a_boost_is_the_recipes() -> None:
    """Another boost than .40 is a bonus of its own size, below a negative score, too."""
    found = temporal(
        [candidate("a", -1.0, created_at=ago(21))], Temporal(boost=2.5), run(temporal_expression=THREE_WEEKS)
    )
    assert scores(found) == [("a", 1.5)]


def test_a_document_of_the_time_climbs() -> None:
    """A document of the query's time goes past what is a little more relevant, and not past what is much more."""
    pool = [candidate("much", 0.9), candidate("little", 0.5), candidate("dated", 0.45, created_at=ago(21))]
    assert ids(temporal(pool, Temporal(), run(temporal_expression=THREE_WEEKS))) == ["much", "dated", "little"]


@pytest.mark.parametrize("stamp", NO_STAMPS, ids=named)
def test_an_undated_document_gains_nothing(stamp: object) -> None:
    """Without a date, and with one that isn't a time, the bonus is 0, even at an anchor of today."""
    pool = [candidate("a", 0.5, created_at=stamp), candidate("b", 0.5)]
    assert scores(temporal(pool, Temporal(), run(temporal_expression=TemporalExpression(0, 2)))) == [
        ("a", 0.5),
        ("b", 0.5),
    ]


def test_only_the_creation_counts() -> None:
    """A change, an access or a confirmation at the time is no date of the document."""
    pool = [candidate("a", 0.5, updated_at=ago(21), accessed_at=ago(21), confirmed_at=ago(21))]
    assert scores(temporal(pool, Temporal(), run(temporal_expression=THREE_WEEKS))) == [("a", 0.5)]


def test_the_future_is_as_far_as_its_date_says() -> None:
    """A document dated after now gains by its distance to the time named, and there is nothing to warn of."""
    noting = run(temporal_expression=TemporalExpression(1, 1))
    pool = [candidate("month", 0.5, created_at=ago(-30)), candidate("day", 0.5, created_at=ago(-1))]
    assert scores(temporal(pool, Temporal(), noting)) == [("day", pytest.approx(0.7)), ("month", 0.5)]
    assert noting.warnings() == []
    pool = [candidate("month", 0.5, created_at=ago(-30))]
    to_come = run(temporal_expression=TemporalExpression(-30, 2))
    assert scores(temporal(pool, Temporal(), to_come)) == [("month", 0.9)]


def test_the_year_1_is_far_from_everything() -> None:
    """The oldest stamp that there is gains nothing."""
    pool = [candidate("a", 0.5, created_at=YEAR_1)]
    assert scores(temporal(pool, Temporal(), run(temporal_expression=TemporalExpression(365, 30)))) == [("a", 0.5)]


def test_ties_keep_their_order() -> None:
    """Equal scores stay in the order in which they came, with and without a bonus."""
    dates = {"z": 21, "b": 60, "y": 22, "a": 90}
    pool = [candidate(id_, 0.5, created_at=ago(days)) for id_, days in dates.items()]
    assert ids(temporal(pool, Temporal(), run(temporal_expression=THREE_WEEKS))) == ["z", "y", "b", "a"]


def test_a_bonus_needs_a_clock() -> None:
    """An anchor without a now is an error that names both `now` and the stage."""
    with pytest.raises(InputError, match=r"^now: .*stage temporal "):
        temporal([candidate("a", 1.0)], Temporal(), run(now=None, temporal_expression=THREE_WEEKS))


@pytest.mark.parametrize(
    ("boost", "of"), [(0.4, None), (0.0, THREE_WEEKS), (-0.0, THREE_WEEKS), (-1.0, THREE_WEEKS), (-1.0, None)]
)
def test_nothing_to_do_needs_no_clock(boost: float, of: TemporalExpression | None) -> None:
    """Without an anchor, or with a boost of 0 or less, nothing moves and no now is asked for."""
    pool = [candidate("a", 0.5, created_at=ago(60)), candidate("b", 0.4, created_at=ago(21))]
    assert scores(temporal(pool, Temporal(boost=boost), run(now=None, temporal_expression=of))) == [
        ("a", 0.5),
        ("b", 0.4),
    ]


def as_bytes(stages: list[Any], found: list[Leg], **facts: Any) -> bytes:
    """A whole ranking and all that it says beside its results, explanations, too, as JSON."""
    ranked = rank(recipe(*stages), found, Facts(now=NOW, explain=True, **facts))
    assert ranked.run.explanations is not None
    steps = {id_: [each.legs, each.stages] for id_, each in ranked.run.explanations.by_id.items()}
    rest = [ranked.run.backends, ranked.run.reranked, ranked.run.warnings()]
    return orjson.dumps([[each.id, each.score, each.payload] for each in ranked.candidates] + [steps, rest])


payload_pools = st.dictionaries(
    st.sampled_from("abcdefghij"), st.sampled_from([ago(1), ago(21), ago(300), "soon", None])
)


@given(legs(), payload_pools, st.sampled_from([(None, 0.4), (THREE_WEEKS, 0.0), (THREE_WEEKS, -1.0), (None, -1.0)]))
def test_nothing_to_do_is_exactly_the_composite(
    found: list[Leg], dates: dict[str, object], to_do: tuple[TemporalExpression | None, float]
) -> None:
    """Without an anchor, or with a boost of 0 or less, the answer is the composite's, byte for byte."""
    of, boost = to_do
    stamped = [
        Leg(each.name, each.status, each.ids, each.scores, [{"created_at": dates.get(id_)} for id_ in each.ids])
        for each in found
    ]
    plain = as_bytes(["score", "dedupe", "composite"], stamped, temporal_expression=of)
    assert (
        as_bytes(["score", "dedupe", "composite", {"temporal": {"boost": boost}}], stamped, temporal_expression=of)
        == plain
    )


def test_three_weeks_ago_in_the_shipped_recipe() -> None:
    """A deed of three weeks ago is found before what is worded a little closer, of today."""
    payloads_of = {"today": {"created_at": ago(0.1)}, "then": {"created_at": ago(20)}, "none": {}}
    found = [
        vector(("today", 0.8), ("then", 0.75), ("none", 0.5), payloads=payloads_of),
        keyword(("today", 9.0), ("then", 8.0), ("none", 4.0), payloads=payloads_of),
    ]
    asked, plain = "what did I do three weeks ago", "what did I do"
    recipe_ = SHIPPED["composite"]
    assert (
        ids(rank(recipe_, found, Facts(now=NOW, temporal_expression=temporal_expression(plain, NOW))).candidates)[0]
        == "today"
    )
    assert (
        ids(rank(recipe_, found, Facts(now=NOW, temporal_expression=temporal_expression(asked, NOW))).candidates)[0]
        == "then"
    )


anchors = st.builds(TemporalExpression, st.integers(0, 40_000), st.integers(1, 4_000))


@given(anchors, st.floats(0, 50_000), st.floats(0, 50_000))
def test_proximity_falls_with_the_distance(of: TemporalExpression, one: float, other: float) -> None:
    """Proximity is within 0 and 1, and of two ages the one farther from the anchor is never the nearer."""
    close, distant = sorted((one, other), key=lambda age: abs(age - of.days))
    assert 0 <= proximity(distant, of) <= proximity(close, of) <= 1


@given(st.lists(st.tuples(any_finite, payloads), max_size=8), anchors, st.floats(-10, 1e6))
def test_any_payload_gains_a_finite_bonus(
    pool: list[tuple[float, dict[str, Any]]], of: TemporalExpression, boost: float
) -> None:
    """Whatever the fields hold: each gains 0 to boost, none is lost, no score is NaN or infinite."""
    before = {str(place): score for place, (score, _) in enumerate(pool)}
    found = temporal(
        [Candidate(str(place), *each) for place, each in enumerate(pool)],
        Temporal(boost=boost),
        run(temporal_expression=of),
    )
    assert {each.id for each in found} == before.keys()
    assert all(math.isfinite(each.score) for each in found)
    assert all(before[each.id] <= each.score <= before[each.id] + max(0.0, boost) for each in found)
