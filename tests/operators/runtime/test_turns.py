"""Turns: places are shared between tenants, none is lost, and no more calls than places are under way."""

import asyncio
from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from operators.runtime.turns import Turns


async def settled() -> None:
    """All that can go on has gone on."""
    for _ in range(20):
        await asyncio.sleep(0)


class Calls:
    """Calls in turns, each of which ends when it is told to."""

    def __init__(self, places: int) -> None:
        self.turns = Turns(places)
        self.begun: list[tuple[str, asyncio.Event]] = []
        self.tasks: list[asyncio.Task[None]] = []

    def ask(self, tenant: str) -> asyncio.Task[None]:
        """One more call."""
        task = asyncio.create_task(self._call(tenant))
        self.tasks.append(task)
        return task

    async def _call(self, tenant: str) -> None:
        end = asyncio.Event()
        async with self.turns.turn(tenant):
            self.begun.append((tenant, end))
            try:
                await end.wait()
            finally:
                self.begun.remove((tenant, end))

    async def end(self) -> str:
        """End the call that began first: its tenant."""
        tenant, end = self.begun[0]
        end.set()
        await settled()
        return tenant

    @property
    def under_way(self) -> Counter[str]:
        """Calls by tenant."""
        return Counter(tenant for tenant, _ in self.begun)


async def test_a_flood_takes_no_place_that_another_needs() -> None:
    """The next place is the other tenant's, and then half of them are, whatever waits."""
    calls = Calls(4)
    for _ in range(1000):
        calls.ask("flood")
    await settled()
    for _ in range(5):
        calls.ask("other")
    await settled()
    assert calls.under_way == {"flood": 4}
    await calls.end()
    assert calls.under_way == {"flood": 3, "other": 1}
    await calls.end()
    for _ in range(3):
        assert calls.under_way == {"flood": 2, "other": 2}
        await calls.end()
    for task in calls.tasks:
        task.cancel()


async def test_tenants_take_turns_at_one_place() -> None:
    """In a circle, once all wait."""
    calls = Calls(1)
    for tenant in "aaabbc":
        calls.ask(tenant)
    await settled()
    assert "".join([await calls.end() for _ in range(6)]) == "aabcab"


@given(st.integers(1, 3), st.lists(st.tuples(st.sampled_from("abc"), st.sampled_from(["ask", "end", "give up"]))))
def test_no_place_is_lost(places: int, steps: list[tuple[str, str]]) -> None:
    """As many calls go on as there are places, whether others end or are given up, waiting or under way."""

    async def scenario() -> None:
        calls = Calls(places)
        for tenant, step in steps:
            live = [task for task in calls.tasks if not task.done()]
            if step == "ask":
                calls.ask(tenant)
            elif step == "end" and calls.begun:
                await calls.end()
            elif step == "give up" and live:
                live[ord(tenant) % len(live)].cancel()
            await settled()
            left = sum(not task.done() for task in calls.tasks)
            assert len(calls.begun) == min(places, left)
        while calls.begun:
            await calls.end()
        assert all(task.done() for task in calls.tasks)

    asyncio.run(scenario())
