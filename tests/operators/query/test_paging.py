"""Paging: the pages of an ordered lookup, held to an engine that can only begin at a value."""

import math
from collections.abc import Sequence
from itertools import cycle

import pytest
from hypothesis import given
from hypothesis import strategies as st

from operators.query.cursor import After
from operators.query.paging import LookupPage, OrderValue, find_page, records_to_ask

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
    assert len(this.ends) == this.last - this.first
    return found[this.first : this.last], following(this)


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
    assert (this.first, this.last, following(this)) == expected


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
