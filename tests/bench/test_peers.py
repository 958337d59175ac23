"""The hand-written service commits no query that isn't answered."""

from hypothesis import given
from hypothesis import strategies as st

from bench.peers.contiguous import Contiguous


@given(st.permutations(range(100, 112)), st.integers(0, 12))
def test_the_position_is_before_the_first_unanswered_query(order: list[int], answered: int) -> None:
    """In whatever order they are answered."""
    offsets = Contiguous(100)
    for offset in order[:answered]:
        offsets.answered(offset)
    assert offsets.position == min(order[answered:], default=112)
