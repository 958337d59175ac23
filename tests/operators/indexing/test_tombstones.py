"""Tombstones: what is left of deletions that others cover."""

import itertools
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import TypeAdapter

from operators.access.filters import condition, matches_filter
from operators.indexing import deletion
from operators.indexing.deletion import Forgotten
from schemas.filters import AnyFilter, Filter

FILTER: TypeAdapter[AnyFilter] = TypeAdapter(Filter)


@given(st.lists(st.tuples(st.integers(0, 9), st.sampled_from(["[]", "[1]", "[2]"])), max_size=12))
def test_a_tombstone_keeps_no_more_than_it_needs(given_: list[tuple[int, str]]) -> None:
    """In any order: the latest version of each filter, without those that a deletion of all covers."""
    tombstone: deletion.Tombstone = ()
    for version, where in given_:
        tombstone = deletion.remember(tombstone, Forgotten(version, where))
    latest = {where: max(at for at, other in given_ if other == where) for _, where in given_}
    whole = latest.get("[]", -1)
    assert {(each.version, each.where) for each in tombstone} == {
        (at, where) for where, at in latest.items() if where == "[]" or at > whole
    }


_FIELD = st.sampled_from("ab")
_BOUNDS = st.tuples(
    st.dictionaries(st.sampled_from(["lt", "lte"]), st.integers(0, 3), min_size=1, max_size=1),
    st.dictionaries(st.sampled_from(["gt", "gte"]), st.integers(0, 3), max_size=1),
).map(lambda both: {**both[0], **both[1]})
FILTERS = st.lists(
    st.fixed_dictionaries({"field": _FIELD, "op": st.just("eq"), "value": st.sampled_from([0, 1, 2, True, "1"])})
    | st.fixed_dictionaries(
        {"field": _FIELD, "op": st.just("any_of"), "value": st.lists(st.integers(0, 2), min_size=1, max_size=3)}
    )
    | st.fixed_dictionaries({"field": _FIELD, "op": st.sampled_from(["range", "date_range"]), "value": _BOUNDS}),
    max_size=2,
)
FOUND = [0, 1, 2, 3, True, "1", "1970-01-01T00:00:01Z", "1970-01-01T00:00:02Z", [0, 3], None]


@settings(max_examples=400)
@given(FILTERS, FILTERS, st.integers(0, 1), st.integers(0, 1))
def test_a_deletion_covers_what_it_deletes(wide: list[Any], narrow: list[Any], later: int, version: int) -> None:
    """A filter that a later one covers says nothing more: whatever document meets it meets the later one, too."""
    parsed = [[FILTER.validate_python(each) for each in filters] for filters in (wide, narrow)]
    one, other = (
        Forgotten.of(at, list(map(condition, each))) for at, each in zip((later, version), parsed, strict=True)
    )
    if one.supersedes(other):
        assert later >= version
        for a, b in itertools.product(FOUND, FOUND):
            meets = [all(matches_filter(each, {"a": a, "b": b}) for each in filters) for filters in parsed]
            assert meets[0] or not meets[1]


@pytest.mark.parametrize(
    ("later", "earlier"),
    [
        ([("a", "lt", 20)], [("a", "lt", 10)]),
        ([("a", "lte", 10)], [("a", "lt", 10)]),
        ([("a", "gt", 1)], [("a", "gte", 2), ("b", "lt", 1)]),
        ([], [("a", "lt", 10)]),
    ],
)
def test_a_later_bound_takes_the_place_of_an_earlier_one(later: list[Any], earlier: list[Any]) -> None:
    """As where each night the documents before a date are forgotten: one filter is left, not one for each night."""
    one, other = (
        Forgotten.of(at, [{"key": key, "range": {name: bound}} for key, name, bound in bounds])
        for at, bounds in ((2, later), (1, earlier))
    )
    assert deletion.remember([other], one) == [one]
    assert deletion.remember([one], other) == [one]
    assert one == other or not other.supersedes(one)
