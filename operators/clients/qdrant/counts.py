"""Counts of documents that Qdrant makes: kept, and made anew behind the queries that use them.

What is promised:
- a count is asked for anew when its watermark has moved, after a rest of several times what the last lookup took, and
  once in a time to live; by one lookup at a time, which goes on when it isn't waited for, and what it finds is kept;
- no query waits where a count is known: the old one serves until the new one is there;
- where none is, all wait for the lookup, each within its own time, and a failed or late one is an error: another value
  in its place would make scores differ from replica to replica;
- a lookup is made for the tenant that asks for it first.
"""

import asyncio
import math
import time
from collections.abc import Awaitable, Callable, Hashable
from dataclasses import dataclass
from typing import Final, Generic, TypeVar

from cachetools import LRUCache, TTLCache

from schemas.errors import BackendError, BackendTimeout

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")

TIME_TO_LIVE: Final = 60.0
"""Seconds after which counts are asked for anew."""

LOOKUP_TIMEOUT: Final = 10.0
"""Seconds that a lookup may take, however short the time of those is that wait for it."""

REST: Final = 1.0
"""Seconds between two lookups of one key, at least, however often its watermark moves."""

_RESTS: Final = 4
"""Times the duration of the last lookup: counting keeps a fifth of the time at most."""

Watermark = tuple[str, ...]
Clock = Callable[[], float]


@dataclass(frozen=True, slots=True)
class _Counted:
    """At which watermark something was counted, and until when it isn't counted again for another one."""

    watermark: Watermark | None
    rest: float


class Counts(Generic[K, V]):
    """What `count` finds by key, of at most `size` keys; `clock` gives seconds.

    `count` is given a key, the tenant that asks, and the seconds that it may take. It raises BackendError, and returns
    None for what Qdrant can't count, which is not kept. `late` is the message of a lookup that isn't done in a query's
    time.
    """

    def __init__(
        self, count: Callable[[K, str, float], Awaitable[V | None]], size: int, late: str, clock: Clock
    ) -> None:
        self._count = count
        self._late = late
        self._clock = clock
        self._known: LRUCache[K, V] = LRUCache(size)
        self._fresh: TTLCache[K, _Counted] = TTLCache(size, TIME_TO_LIVE, clock)
        self._lookups: dict[K, asyncio.Task[V | BackendError | None]] = {}

    def __contains__(self, key: K) -> bool:
        return key in self._known

    async def of(self, key: K, tenant: str, watermark: Watermark | None, timeout: float) -> V | None:
        """The count of a key, known within `timeout` seconds; raises BackendError.

        `watermark` is how far what is counted is indexed, None if that isn't known.
        """
        found: V | BackendError | None = self._known.get(key)
        if found is None:
            found = await self._waited(self._lookup(key, tenant, watermark), timeout)
        elif self._moved(key, watermark):
            self._lookup(key, tenant, watermark)
        if isinstance(found, BackendError):
            raise found
        return found

    def forget(self, obsolete: Callable[[K], bool]) -> None:
        """Keep nothing of these keys."""
        for key in [key for key in self._known if obsolete(key)]:
            del self._known[key]

    def _moved(self, key: K, watermark: Watermark | None) -> bool:
        counted = self._fresh.get(key)
        if counted is None:
            return True
        return watermark is not None and watermark != counted.watermark and self._clock() >= counted.rest

    def _lookup(self, key: K, tenant: str, watermark: Watermark | None) -> asyncio.Task[V | BackendError | None]:
        lookup = self._lookups.get(key)
        if lookup is None:
            lookup = self._lookups[key] = asyncio.create_task(self._look_up(key, tenant, watermark))
            lookup.add_done_callback(lambda _: self._lookups.pop(key))
        return lookup

    async def _waited(self, lookup: asyncio.Task[V | BackendError | None], timeout: float) -> V | BackendError | None:
        try:
            async with asyncio.timeout(timeout):
                return await asyncio.shield(lookup)
        except TimeoutError:
            return BackendTimeout(self._late)

    async def _look_up(self, key: K, tenant: str, watermark: Watermark | None) -> V | BackendError | None:
        began = self._clock()
        try:
            found = await self._count(key, tenant, LOOKUP_TIMEOUT)
        except BackendError as error:
            # Where an old count serves meanwhile, it is tried again after another time to live.
            if key in self._known:
                self._fresh[key] = _Counted(watermark, math.inf)
            return error
        if found is not None:
            self._known[key] = found
            now = self._clock()
            self._fresh[key] = _Counted(watermark, now + max(REST, _RESTS * (now - began)))
        return found


def remaining(deadline: float) -> float:
    """Seconds until a moment of the monotonic clock."""
    return deadline - time.monotonic()
