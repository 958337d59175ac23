"""Bisection: how a refused batch is divided."""

from hypothesis import given
from hypothesis import strategies as st

from operators.runtime.batching.policy import divide


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
