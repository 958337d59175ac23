"""Splitting over a limit: in order, at once, whole or not at all."""

import asyncio
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from operators.clients.failures import in_batches
from schemas.errors import BackendUnavailable


@given(st.lists(st.integers(), max_size=50), st.integers(1, 12))
def test_batches_cover_the_items_in_order(items: list[int], size: int) -> None:
    """The batches joined are the items, and none is empty or longer than the limit."""

    async def same(batch: Sequence[int]) -> Sequence[int]:
        await asyncio.sleep(0)
        return batch

    answers = asyncio.run(in_batches(items, size, same))
    assert [item for answer in answers for item in answer] == items
    assert all(0 < len(answer) <= size for answer in answers)


async def test_batches_are_in_flight_together() -> None:
    """No batch waits for another's answer."""
    barrier = asyncio.Barrier(3)

    async def meet(batch: Sequence[int]) -> int:
        await barrier.wait()
        return batch[0]

    async with asyncio.timeout(2):
        assert await in_batches([1, 2, 3], 1, meet) == [1, 2, 3]


async def test_first_failure_cancels_the_rest() -> None:
    """One failed batch raises its own error, and the others are cancelled."""
    cancelled = []

    async def second_fails(batch: Sequence[int]) -> None:
        if batch[0] == 2:
            raise BackendUnavailable("two")
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            cancelled.append(batch[0])
            raise

    with pytest.raises(BackendUnavailable, match="two"):
        await in_batches([1, 2, 3], 1, second_fails)
    assert sorted(cancelled) == [1, 3]
