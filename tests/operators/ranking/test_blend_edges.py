"""The five-signal blend at its edges: clocks, odd stamps, ties, wrong weights, and nothing to rank by."""

import itertools
import math
from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from operators.ranking.blend import rank_by_blend
from operators.ranking.run import Run
from schemas.recipes import RecipeError
from schemas.recipes.fusion import Weighted
from tests.operators.ranking.pools import DAY, NOW, ids, keyword, recipe, run, scores, structured, vector
from tests.operators.ranking.random_pools import SIGNALS

RECENCY: Mapping[str, Any] = {"keyword_weight": 0.0, "vector_weight": 0.0, "priority_weight": 0.0}
OFF: Mapping[str, Any] = {f"{name}_weight": 0.0 for name in SIGNALS}


def recency(payload: Mapping[str, Any], of: Run | None = None, **parameters: Any) -> float:
    """The recency signal of a document with this payload, alone."""
    found = [vector(("a", 0.5), payloads={"a": payload})]
    return rank_by_blend(found, Weighted(**RECENCY, **parameters), of or run())[0].score


@pytest.mark.parametrize(
    ("days", "value"), [(0.0, 1.0), (7.0, 0.5), (14.0, 0.25), (3.5, math.sqrt(0.5)), (70.0, 2**-10)]
)
def test_recency_halves_every_seven_days(days: float, value: float) -> None:
    """Its value is 2^(-age / 7 days), continuously."""
    assert recency({"created_at": NOW - days * DAY}) == pytest.approx(value, rel=1e-12)


@pytest.mark.parametrize(("cycle", "value"), [(100, 1.0), (50, 0.5), (0, 0.25), (75, math.sqrt(0.5)), (-400, 2**-10)])
def test_recency_halves_every_fifty_cycles(cycle: int, value: float) -> None:
    """With the caller's cycle its value is 2^(-age / 50 cycles)."""
    assert recency({"cycle": cycle}, run(cycle=100)) == pytest.approx(value, rel=1e-12)


def test_half_lives_are_parameters() -> None:
    """A recipe may name other half-lives, of days and of cycles, and each counts for its own clock only."""
    other: dict[str, Any] = {"half_life_days": 1.0, "half_life_cycles": 10.0}
    payload = {"created_at": NOW - 2 * DAY, "cycle": 90}
    assert recency(payload, **other) == pytest.approx(0.25, rel=1e-12)
    assert recency(payload, run(cycle=100), **other) == pytest.approx(0.5, rel=1e-12)


def test_the_callers_cycle_goes_before_the_time() -> None:
    """A query with a cycle ignores stamps, and a document without a cycle is maximally old."""
    assert recency({"created_at": NOW}, run(cycle=100)) == 0.0
    assert recency({"created_at": NOW, "cycle": 50}, run(cycle=100)) == pytest.approx(0.5, rel=1e-12)
    assert recency({"cycle": 50}, run(cycle=100, now=None)) == pytest.approx(0.5, rel=1e-12)


def test_cycle_zero_is_a_clock() -> None:
    """A query at the first cycle still carries a cycle."""
    assert recency({"created_at": NOW, "cycle": 0}, run(cycle=0)) == 1.0
    assert recency({"created_at": NOW}, run(cycle=0)) == 0.0


def test_an_update_goes_before_the_creation() -> None:
    """The stamp is `updated_at`, be it the older, or else `created_at`; no other stamp counts."""
    assert recency({"updated_at": NOW - 7 * DAY, "created_at": NOW}) == pytest.approx(0.5, rel=1e-12)
    assert recency({"updated_at": None, "created_at": NOW - 7 * DAY}) == pytest.approx(0.5, rel=1e-12)
    assert recency({"accessed_at": NOW, "confirmed_at": NOW}) == 0.0


def test_a_future_stamp_counts_as_now_and_is_warned_of() -> None:
    """A document dated after the query's now has age 0, and the answer says so; one dated at now is no warning."""
    of = run()
    payloads = {"a": {"created_at": NOW + DAY}, "b": {"created_at": NOW}, "c": {"created_at": NOW - 7 * DAY}}
    found = [vector(("c", 0.5), ("b", 0.5), ("a", 0.5), payloads=payloads)]
    assert scores(rank_by_blend(found, Weighted(**RECENCY), of)) == [("a", 1.0), ("b", 1.0), ("c", pytest.approx(0.5))]
    assert of.ahead == {"a"}
    assert len(of.warnings()) == 1
    assert "1 " in of.warnings()[0]


def test_past_stamps_warn_of_nothing() -> None:
    """Without a stamp in the future there is no warning."""
    of = run()
    recency({"created_at": NOW - DAY}, of)
    assert of.warnings() == []


def test_a_cycle_to_come_counts_as_the_present() -> None:
    """A document of a later cycle than the query's has age 0."""
    assert recency({"cycle": 150}, run(cycle=100)) == 1.0


STAMPS = ["2023-11-07T22:13:20Z", "2023-11-08T00:13:20+02:00", int(NOW - 7 * DAY), NOW - 7 * DAY]


@pytest.mark.parametrize("stamp", STAMPS)
def test_stamps_are_read_in_either_form(stamp: object) -> None:
    """RFC 3339 with any offset, and Unix seconds whole or not, are the same moment."""
    assert recency({"created_at": stamp}) == pytest.approx(0.5, rel=1e-12)


ODD: list[object] = [
    None,
    "",
    "yesterday",
    "2023-11-07",
    "2023-11-07T22:13:20",
    "1e9",
    True,
    [NOW],
    {},
    math.nan,
    1e308,
    -1e308,
]


@pytest.mark.parametrize("stamp", ODD, ids=repr)
def test_what_is_no_stamp_is_maximally_old(stamp: object) -> None:
    """A naive, unreadable or impossible time counts as none: 0, and nothing is raised."""
    assert recency({"created_at": stamp, "updated_at": stamp}) == 0.0


@pytest.mark.parametrize("cycle", [None, "50", "", True, [50], {}, math.nan], ids=repr)
def test_what_is_no_cycle_is_maximally_old(cycle: object) -> None:
    """Whatever isn't a number counts as no cycle: 0, and nothing is raised."""
    assert recency({"cycle": cycle}, run(cycle=100)) == 0.0


def test_the_first_year_is_merely_old() -> None:
    """A stamp of year 1 has a recency so small that it is 0 as a float, and is no error."""
    assert recency({"created_at": "0001-01-01T00:00:00Z"}) == 0.0


def test_without_a_clock_recency_is_off() -> None:
    """With neither time nor cycle the other signals share its weight, and nothing is warned of."""
    of = run(now=None)
    found = [vector(("a", 0.8), payloads={"a": {"created_at": NOW, "cycle": 1, "priority": "P1"}}), keyword()]
    # .55 * .8 + .05 * 1 over .90
    assert rank_by_blend(found, Weighted(), of)[0].score == pytest.approx(0.49 / 0.90, rel=1e-12)
    assert of.warnings() == []


@pytest.mark.parametrize("signal", SIGNALS)
@pytest.mark.parametrize("weight", [-0.01, -1e-300, float("-inf"), math.nan])
def test_a_negative_weight_is_an_error(signal: str, weight: float) -> None:
    """A weight below 0, or none at all, is refused with the parameter's name, not clamped."""
    with pytest.raises(RecipeError, match=rf"weighted\.{signal}_weight"):
        recipe({"weighted": {f"{signal}_weight": weight}})


UNDATED = {"priority": "P1"}
DATED: Mapping[str, Mapping[str, Any]] = {
    "d": {"created_at": NOW - 3 * DAY},
    "c": {"created_at": NOW - 1 * DAY},
    "b": UNDATED,
    "a": {"created_at": NOW - 3 * DAY},
}


def test_all_signals_off_is_newest_first_at_zero() -> None:
    """Without any weight the newest goes first, the undated last, equal times by id, and every score is 0."""
    found = [vector(("d", 0.9), ("b", 0.8), ("a", 0.1), payloads=DATED), keyword(("c", 1.0), payloads=DATED)]
    blended = rank_by_blend(found, Weighted(**OFF), run())
    assert scores(blended) == [("c", 0.0), ("a", 0.0), ("d", 0.0), ("b", 0.0)]


def test_all_signals_off_obeys_the_limit() -> None:
    """The limit keeps the newest."""
    found = [vector(("d", 0.9), ("c", 0.1), payloads=DATED)]
    assert ids(rank_by_blend(found, Weighted(**OFF, limit=1), run())) == ["c"]


def test_nothing_to_ask_by_is_scored_by_the_signals_left() -> None:
    """Of documents that no query led to, recency and priority decide, their weights shared."""
    week: dict[str, Any] = {"created_at": NOW - 7 * DAY}
    payloads = {"a": week, "b": {**week, "priority": "P1"}, "c": {}}
    blended = rank_by_blend([structured("a", "b", "c", payloads=payloads)], Weighted(), run())
    # .10 and .05 become 2/3 and 1/3: b 2/3 * .5 + 1/3 = 2/3, a 2/3 * .5 = 1/3
    assert ids(blended) == ["b", "a", "c"]
    assert [one.score for one in blended] == pytest.approx([2 / 3, 1 / 3, 0.0], rel=1e-12)


def test_ties_go_by_the_documents_own_id() -> None:
    """Equal scores stand by the id that the payload names, whatever the points' ids, legs and ranks are."""
    payloads = {"p1": {"id": "zoe"}, "p2": {"id": "amy"}, "p3": {"id": "kim"}, "p4": {"id": "Zoe"}}
    hits = [(point, 0.5) for point in payloads]
    for order in itertools.permutations(hits):
        found = [vector(*order[:2], payloads=payloads), structured(*(point for point, _ in order), payloads=payloads)]
        blended = rank_by_blend(found, Weighted(**{**OFF, "priority_weight": 1.0}), run())
        assert ids(blended) == ["p4", "p2", "p3", "p1"]


@pytest.mark.parametrize("own", [None, 7, True, ["a"], {}], ids=repr)
def test_ties_go_by_the_points_id_where_the_payload_names_none(own: object) -> None:
    """A value that isn't a string is no id of a document."""
    payloads = {point: {"id": own} for point in "cab"}
    blended = rank_by_blend([vector(("c", 0.5), ("a", 0.5), ("b", 0.5), payloads=payloads)], Weighted(), run())
    assert ids(blended) == ["a", "b", "c"]


values = (
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=4) | st.just([1]) | st.just({"a": 1})
)
payload = st.dictionaries(
    st.sampled_from(["id", "created_at", "updated_at", "cycle", "priority", "edges", "type"]), values
)


@given(st.lists(payload, min_size=1, max_size=4), st.sampled_from([None, 0, 100]))
def test_no_payload_breaks_the_blend(payloads: list[dict[str, Any]], cycle: int | None) -> None:
    """Whatever stands in a payload, scores are finite, from 0 to 1 where no edge is, and nothing is raised."""
    given_ = {str(place): one for place, one in enumerate(payloads)}
    found = [vector(*((point, 0.5) for point in given_), payloads=given_)]
    blended = rank_by_blend(found, Weighted(graph_weight=0.2), run(cycle=cycle))
    assert len(blended) == len(payloads)
    assert all(0 <= one.score <= 1 for one in blended)
