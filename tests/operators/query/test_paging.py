"""Paging: the pages of an ordered lookup, held to an engine that can only begin at a value."""

import math
from collections.abc import Sequence
from itertools import cycle
from typing import Any, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from operators.query.backend_answers import OrderValue
from operators.query.cursor import After
from operators.query.lookup import LookupPage, find_page, records_to_ask
from operators.query.outcome import sort_candidates
from operators.ranking.candidate import Candidate
from schemas.query import OrderBy

START = After(None, 0)
Record = tuple[float, int]
"""An order value and an id."""


def scroll(records: Sequence[Record], after: After, limit: int, *, descending: bool) -> list[Record]:
    """An engine's answer: in order, ties by id in the order's direction, from a value on, so many."""
    ordered = sorted(records, reverse=descending)
    if after.value is not None:
        start = after.value
        ordered = [each for each in ordered if (each[0] <= start if descending else each[0] >= start)]
    return ordered[:limit]


def page(records: Sequence[Record], after: After, limit: int, *, descending: bool) -> tuple[list[Record], After | None]:
    """One page, and where the next begins."""
    found = scroll(records, after, records_to_ask(after, limit), descending=descending)
    this = find_page([value for value, _ in found], after, limit)
    assert len(this.ends) == len(this.indexes)
    return [found[index] for index in this.indexes], following(this)


def following(this: LookupPage) -> After | None:
    """The start of the page after this one."""
    return this.ends[-1] if this.more else None


VALUES = st.integers(-3, 3) | st.sampled_from([-0.5, 1.5, 2.0])
RECORDS = st.lists(VALUES, max_size=30).map(lambda values: [(value, id_) for id_, value in enumerate(values)])
SIZES = st.lists(st.integers(1, 8), min_size=1, max_size=4)


@given(RECORDS, SIZES, st.booleans())
def test_pages_are_the_long_page_cut_up(records: list[Record], sizes: list[int], descending: bool) -> None:
    """Of an unchanged index, whatever ties there are and however large each page: nothing twice, nothing left out, all
    in order, every page full but the last, and none empty behind it.
    """
    given_: list[Record] = []
    everything = len(records)
    after = START
    for limit in cycle(sizes):
        this, then = page(records, after, limit, descending=descending)
        given_ += this
        assert len(given_) <= everything
        if then is None:
            break
        assert len(this) == limit
        after = then
    assert given_ == sorted(records, reverse=descending)
    assert this or not records


@given(RECORDS, SIZES, st.booleans(), st.data())
def test_what_goes_away_makes_nothing_come_twice(
    records: list[Record], sizes: list[int], descending: bool, data: st.DataObject
) -> None:
    """Records may go between two pages: those that were given aren't given again, and the order holds."""
    given_: list[Record] = []
    everything = len(records)
    after = START
    for limit in cycle(sizes):
        this, then = page(records, after, limit, descending=descending)
        given_ += this
        assert len(given_) <= everything
        if then is None:
            break
        after = then
        gone = data.draw(st.sets(st.sampled_from(records), max_size=4) if records else st.just(set()))
        records = [each for each in records if each not in gone]
    assert len(set(given_)) == len(given_)
    assert given_ == sorted(given_, reverse=descending)


@pytest.mark.parametrize(
    ("values", "after", "limit", "expected"),
    [
        ([], START, 2, (0, 0, None)),
        ([5, 5], START, 2, (0, 2, None)),
        ([5, 5, 5], START, 2, (0, 2, After(5, 2))),
        ([5, 5, 5, 4], After(5, 2), 2, (2, 4, None)),
        ([5, 5, 5, 5, 4], After(5, 2), 2, (2, 4, After(5, 4))),
        ([5, 4, 4, 3], After(5, 1), 2, (1, 3, After(4, 2))),
        ([4, 4, 3], After(5, 2), 2, (0, 2, After(4, 2))),
        ([5, 4, 3], After(5, 2), 1, (1, 2, After(4, 1))),
        ([5, 5], After(5, 2), 2, (2, 2, None)),
    ],
)
def test_turns_by_hand(
    values: list[OrderValue], after: After, limit: int, expected: tuple[int, int, After | None]
) -> None:
    """A next page begins at the last value given, behind as many of it as were given, and only if there is one."""
    this = find_page(values, after, limit)
    first, last, then = expected
    assert (this.indexes, following(this)) == ([*range(first, last)], then)


def test_a_page_that_is_cut_goes_on_where_it_was_cut() -> None:
    """After each of its records a page knows where one that ends there goes on."""
    assert find_page([5, 5, 4, 4, 3], After(5, 1), 3).ends == [After(5, 2), After(4, 1), After(4, 2)]


@given(st.integers(0, 100), st.integers(1, 200))
def test_one_more_than_the_page_is_asked_for(seen: int, limit: int) -> None:
    """The records before it at the first value, the page, and one record that tells whether there is another page."""
    assert records_to_ask(After(1, seen), limit) == seen + limit + 1


@given(st.lists(VALUES, min_size=1, max_size=40), st.integers(1, 8))
def test_as_many_pages_as_needed(values: list[float], limit: int) -> None:
    """A whole number of pages has no empty one behind it."""
    records: list[Record] = [(value, id_) for id_, value in enumerate(values)]
    pages, then = 1, page(records, START, limit, descending=False)[1]
    while then is not None:
        then = page(records, then, limit, descending=False)[1]
        pages += 1
        assert pages <= len(values)
    assert pages == math.ceil(len(values) / limit)


@given(RECORDS, SIZES, st.booleans(), st.data())
def test_no_known_record_comes_twice_whatever_is_written(
    records: list[Record], sizes: list[int], descending: bool, data: st.DataObject
) -> None:
    """Records may come and go between two pages: with those known that were given, none is given twice, and none that
    was there all the time, behind the page, is left out.
    """
    stayed, given_ = set(records), list[Record]()
    after = START
    for limit in cycle(sizes):
        found = scroll(records, after, records_to_ask(after, limit + len(given_)), descending=descending)
        known = {index for index, each in enumerate(found) if each in given_}
        this = find_page([value for value, _ in found], after, limit, known, len(given_))
        given_ += [found[index] for index in this.indexes]
        assert len(set(given_)) == len(given_)
        if not this.more:
            break
        after = this.ends[-1]
        gone = data.draw(st.sets(st.sampled_from(records), max_size=3) if records else st.just(set()))
        stayed -= gone
        new = [(value, 100 + len(given_) + at) for at, value in enumerate(data.draw(st.lists(VALUES, max_size=1)))]
        records = [each for each in records if each not in gone] + new
    assert stayed <= set(given_)


LEVELS = st.integers(-2, 2) | st.sampled_from([0.5, None, True, "a", "2026-01-01T00:00:00Z", [], [3, -3]])


@given(st.lists(LEVELS, max_size=12), st.sampled_from(["asc", "desc"]))
def test_candidates_are_ordered_by_a_field(levels: list[Any], direction: Literal["asc", "desc"]) -> None:
    """Stably, in both directions; what has no number and no time in the field comes last, and booleans are none."""
    candidates = [Candidate(str(rank), 0.0, {"m": {"level no.": level}}) for rank, level in enumerate(levels)]
    order_by = OrderBy(field='m."level no."', direction=direction)
    ordered = [int(each.id) for each in sort_candidates(candidates, order_by)]

    def value(rank: int) -> float | None:
        match levels[rank]:
            case bool() | None | "a" | []:
                return None
            case [*several]:
                return float(min(several) if direction == "asc" else max(several))
            case str():
                return 1767225600.0
            case int() | float() as number:
                return number
        raise AssertionError(levels[rank])

    valued = [rank for rank in range(len(levels)) if value(rank) is not None]
    sign = 1 if direction == "asc" else -1
    expected = sorted(valued, key=lambda rank: (sign * (value(rank) or 0), rank))
    assert ordered == expected + [rank for rank in range(len(levels)) if rank not in valued]


def test_times_of_every_form_are_ordered() -> None:
    """With an offset, without one, which is UTC, and a date; the index's own milliseconds of the two own fields."""
    times = ["2026-01-02", "2026-01-01T23:00:00", "2026-01-02T00:30:00+01:00", "2026-01-01T22:00:00Z"]
    candidates = [Candidate(str(rank), 0.0, {"when": time}) for rank, time in enumerate(times)]
    assert [each.id for each in sort_candidates(candidates, OrderBy(field="when"))] == ["3", "1", "2", "0"]
    own = [Candidate(str(rank), 0.0, {"_created": stamp}) for rank, stamp in enumerate((5000, 0, 7000))]
    assert [each.id for each in sort_candidates(own, OrderBy(field="created_at", direction="desc"))] == ["2", "0", "1"]
