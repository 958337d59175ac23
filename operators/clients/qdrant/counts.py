"""Counts of documents that Qdrant makes: cached, and refreshed behind the queries that use them.

Promises
--------
- A count is refreshed when its watermark has moved, after a rest of several times the last lookup's duration, and once
  in a time to live; by one lookup at a time, which goes on when nobody waits for it, and whose count is cached.
- No query waits where a count is known: the old one serves until the new one is there.
- Where none is, all wait for the lookup, each within its own time, and a failed or late one is an error: another value
  for it would make scores differ from replica to replica.
- A lookup is made for the tenant that asks for it first.
"""

import asyncio
import math
import time
from collections.abc import Awaitable, Callable, Hashable
from dataclasses import dataclass
from typing import Final, Generic, TypeVar

from operators.caching.bounded import BoundedCache
from schemas.errors import BackendError, BackendTimeout

Key = TypeVar("Key", bound=Hashable)
Count = TypeVar("Count")

TIME_TO_LIVE: Final = 60.0
"""Seconds after which counts are refreshed."""

LOOKUP_TIMEOUT: Final = 10.0
"""Seconds that a lookup may take, however short the time of the queries that wait for it."""

REST: Final = 1.0
"""Seconds between two lookups of one key, at least, however often its watermark moves."""

_RESTS: Final = 4
"""Multiple of the duration of the last lookup: counting takes a fifth of the time at most."""

Watermark = tuple[str, ...]
Clock = Callable[[], float]


@dataclass(slots=True)
class _Counted(Generic[Count]):
    """A count and its watermark; from `rest` on another watermark makes it stale, from `until` on anything does."""

    count: Count
    watermark: Watermark | None
    rest: float
    until: float


class Counts(Generic[Key, Count]):
    """The counts of at most `size` keys; `clock` gives seconds.

    `count` takes a key, the tenant that asks, and the seconds that it may take. It raises BackendError, and returns
    None, which is not cached, for a key that Qdrant can't count. `late` is the message of a lookup that isn't done in a
    query's time.
    """

    def __init__(
        self, count: Callable[[Key, str, float], Awaitable[Count | None]], size: int, late: str, clock: Clock
    ) -> None:
        self._count = count
        self._late = late
        self._clock = clock
        self._known: BoundedCache[Key, _Counted[Count]] = BoundedCache(size)
        self._lookups: dict[Key, asyncio.Task[Count | BackendError | None]] = {}

    def __len__(self) -> int:
        """The number of counts that are known."""
        return len(self._known)

    def __contains__(self, key: Key) -> bool:
        return key in self._known

    async def of(self, key: Key, tenant: str, watermark: Watermark | None, timeout: float) -> Count | None:
        """The count of a key, known within `timeout` seconds; raises BackendError.

        `watermark` is that of the counted documents, None if it isn't known.
        """
        known = self._known.get(key)
        if known is None:
            found = await self._wait(self._lookup(key, tenant, watermark), timeout)
            if isinstance(found, BackendError):
                raise found
            return found
        now = self._clock()
        moved = watermark is not None and watermark != known.watermark
        if now >= known.until or (moved and now >= known.rest):
            self._lookup(key, tenant, watermark)
        return known.count

    def forget(self, obsolete: Callable[[Key], bool]) -> None:
        """Remove the counts of these keys."""
        self._known.remove(obsolete)

    def _lookup(self, key: Key, tenant: str, watermark: Watermark | None) -> asyncio.Task[Count | BackendError | None]:
        lookup = self._lookups.get(key)
        if lookup is None:
            lookup = self._lookups[key] = asyncio.create_task(self._look_up(key, tenant, watermark))
            lookup.add_done_callback(lambda _: self._lookups.pop(key))
        return lookup

    async def _wait(
        self, lookup: asyncio.Task[Count | BackendError | None], timeout: float
    ) -> Count | BackendError | None:
        try:
            async with asyncio.timeout(timeout):
                return await asyncio.shield(lookup)
        except TimeoutError:
            return BackendTimeout(self._late)

    async def _look_up(self, key: Key, tenant: str, watermark: Watermark | None) -> Count | BackendError | None:
        began = self._clock()
        try:
            found = await self._count(key, tenant, LOOKUP_TIMEOUT)
        except BackendError as error:
            # Where an old count serves meanwhile, it is refreshed after another time to live.
            if (known := self._known.get(key)) is not None:
                known.watermark, known.rest, known.until = watermark, math.inf, self._clock() + TIME_TO_LIVE
            return error
        if found is not None:
            now = self._clock()
            rest = now + max(REST, _RESTS * (now - began))
            self._known.put(key, _Counted(found, watermark, rest, now + TIME_TO_LIVE))
        return found


def remaining(deadline: float) -> float:
    """Seconds until a moment of the monotonic clock."""
    return deadline - time.monotonic()
