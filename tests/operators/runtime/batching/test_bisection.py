"""Bisection: how a refused batch is divided; chunks by size, and groups by key."""

from hypothesis import given
from hypothesis import strategies as st

from operators.runtime.batching.policy import by_key, chunks, divide


@given(st.lists(st.integers()), st.integers(0, 8), st.none() | st.integers(0, 10))
def test_the_parts_are_the_batch(items: list[int], singly: int, most: int | None) -> None:
    """In order, none empty, each smaller than the whole; few items one by one; never more than may be."""
    parts = divide(items, singly=singly, most=most)
    if not parts:
        assert len(items) < 2 or (most is not None and most < (len(items) if len(items) <= singly else 2))
        return
    assert [item for part in parts for item in part] == items
    assert all(0 < len(part) < len(items) for part in parts)
    assert most is None or len(parts) <= most
    assert len(parts) == (len(items) if len(items) <= singly else 2)
    assert max(map(len, parts)) - min(map(len, parts)) <= 1


def test_what_is_one_is_not_divided() -> None:
    """One item, or none, is refused for good."""
    assert divide([1]) == divide([]) == []


@given(st.lists(st.integers()), st.integers(1, 8))
def test_chunks_are_the_items(items: list[int], size: int) -> None:
    """In order, all of the size but the last, which has the rest; none of nothing."""
    found = chunks(items, size)
    assert [item for chunk in found for item in chunk] == items
    assert all(len(chunk) == size for chunk in found[:-1])
    assert all(0 < len(chunk) <= size for chunk in found[-1:])


@given(st.lists(st.integers(-9, 9)))
def test_each_key_has_its_items(items: list[int]) -> None:
    """In the items' order, and the keys in the order of their first."""
    found = by_key(items, abs)
    assert found == {key: [item for item in items if abs(item) == key] for key in map(abs, items)}
    assert list(found) == list(dict.fromkeys(map(abs, items)))
