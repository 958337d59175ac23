"""Turns: calls that wait for each other, first come first served, or a few at once, shared between tenants.

In `Turns`, each call that ends gives its place to the tenant with the fewest calls under way; of several, to the one
that has waited longest since it was served. So each tenant has an equal part of the places, or fewer if it needs fewer:
max-min fairness, as in `operators.runtime.batching.backlog`, by places and without deadlines. A tenant waits for
one call of another at most, however many calls that one wants. Used on one event loop.
"""

import asyncio
from collections import Counter, deque
from collections.abc import AsyncIterator, Hashable
from contextlib import asynccontextmanager


class WaitQueue(deque[asyncio.Future[None]]):
    """Calls that wait, first come first served. One that is cancelled when it is woken wakes the next."""

    async def wait(self, *, first: bool = False) -> None:
        """Wait to be woken, behind all others or as the first."""
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        (self.appendleft if first else self.append)(turn)
        try:
            await turn
        except asyncio.CancelledError:
            if turn in self:
                self.remove(turn)
            elif not turn.cancelled():
                self.wake()
            raise

    def wake(self, most: float = 1) -> None:
        """Wake the first that wait."""
        while self and most > 0:
            turn = self.popleft()
            if not turn.done():
                turn.set_result(None)
                most -= 1


class Turns:
    """At most `most` calls at once."""

    def __init__(self, most: int) -> None:
        self._free = most
        self._under_way: Counter[Hashable] = Counter()
        # In the order in which tenants began to wait; one that is served begins again.
        self._waiting: dict[Hashable, deque[asyncio.Future[None]]] = {}

    @asynccontextmanager
    async def turn(self, tenant: Hashable) -> AsyncIterator[None]:
        """Wait for a place; the call is made within the context."""
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(tenant, deque()).append(turn)
        self._fill()
        try:
            await turn
            yield
        finally:
            # A turn that is given up has taken a place if it had come by then.
            if turn.done() and not turn.cancelled():
                self._free += 1
                self._under_way -= Counter([tenant])
                self._fill()

    def _fill(self) -> None:
        while self._free and self._waiting:
            tenant = min(self._waiting, key=self._under_way.__getitem__)
            waiting = self._waiting.pop(tenant)
            turn = waiting.popleft()
            if waiting:
                self._waiting[tenant] = waiting
            if not turn.done():
                turn.set_result(None)
                self._free -= 1
                self._under_way[tenant] += 1
