"""Values by key within a bound, the base of the caches; the exact cache and the payload cache.

- The least recently used values leave first.
- A value is served before its time to live is over, never at or after it, in any order of the times; being served
  doesn't lengthen it.
- The sizes of all values sum to at most `max_size`.
- An expired value is removed by a `get` of its key and, as long as times don't go back, by the next `put`.
- A payload is known only to a search that saw the same version of its point, of which every write makes a new one,
  and, where the search reads it, the same fingerprint of its content.
- A payload that came with another fingerprint than the search saw is not cached: the point changed in between, or a
  replica of it lags behind.
- Versions count the writes of one replica of one making of a collection: others may count the same. Makings that are
  known apart share nothing. Where they are not, and between replicas, the fingerprint distinguishes contents, and the
  other fields are served for PAYLOAD_TTL seconds at most.
- The user of a payload checks that its query may see it, as of one that was fetched.

Times are seconds on any steady clock. For one thread.
"""

import math
import sys
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterable, Mapping
from typing import Any, Final, Generic, TypeVar

from schemas.document import CONTENT

Key = TypeVar("Key", bound=Hashable)
Value = TypeVar("Value")

LARGEST: Final = 8
"""An answer may take this part of its cache, an eighth: a larger one would displace too many others."""

OVERHEAD: Final = 416
"""Bytes of an entry over its key and answer, measured on CPython 3.11: objects, two tables and their room to grow."""


class BoundedCache(Generic[Key, Value]):
    """Values by key, for `ttl` seconds; `size_of` says how much of `max_size` a key and its value take: 1 by default.

    A value over a `share`-th of the cache isn't cached: it would displace too many others.
    """

    def __init__(
        self, max_size: int, size_of: Callable[[Key, Value], int] = lambda *_: 1, ttl: float = math.inf, share: int = 1
    ) -> None:
        self.max_size = max_size
        self.size = 0
        self._largest = max_size // share
        self._size_of = size_of
        self._ttl = ttl
        # Each with its size and its expiry, which is in both tables: a key is hashed at every look into one.
        self._values: OrderedDict[Key, tuple[Value, int, float]] = OrderedDict()
        self._expiry: OrderedDict[Key, float] = OrderedDict()

    def get(self, key: Key, now: float = 0.0) -> Value | None:
        """The key's value; None if it isn't cached or has expired."""
        found = self._values.get(key)
        if found is None:
            return None
        if found[2] <= now:
            self._drop(key)
            return None
        self._values.move_to_end(key)
        return found[0]

    def put(self, key: Key, value: Value, now: float = 0.0) -> None:
        """Put a value in place of the key's earlier one."""
        while self._expiry and self._expiry[oldest := next(iter(self._expiry))] <= now:
            self._drop(oldest)
        if key in self._values:
            self._drop(key)
        size = self._size_of(key, value)
        if size > self._largest:
            return
        self._expiry[key] = expiry = now + self._ttl
        self._values[key] = value, size, expiry
        self.size += size
        while self.size > self.max_size:
            self._drop(next(iter(self._values)))

    def remove(self, obsolete: Callable[[Key], bool]) -> None:
        for key in [key for key in self._values if obsolete(key)]:
            self._drop(key)

    def clear(self) -> None:
        self._values.clear()
        self._expiry.clear()
        self.size = 0

    def __contains__(self, key: Key) -> bool:
        return key in self._values

    def __len__(self) -> int:
        return len(self._values)

    def _drop(self, key: Key) -> None:
        self.size -= self._values.pop(key)[1]
        del self._expiry[key]


class ExactCache(BoundedCache[bytes, bytes]):
    """Answers by key, for `ttl` seconds; they and what Python needs for them take at most `max_bytes`."""

    def __init__(self, max_bytes: int, ttl: float) -> None:
        super().__init__(max_bytes, lambda key, answer: len(key) + len(answer) + OVERHEAD, ttl, LARGEST)


Payload = Mapping[str, Any]

PAYLOAD_TTL: Final = 60.0

_PAYLOAD_OVERHEAD: Final = 480
"""Bytes of an entry over its payload: its key, itself and its room in two tables."""

Making = tuple[str, int]
"""A collection's own name, and how often it was seen to be made again."""

Seen = tuple[str, int | None, object]
"""A point as a search saw it: its id, its version, None if unknown, and its content's fingerprint if it was read."""


class PayloadCache(BoundedCache[tuple[Making, str], tuple[int, Payload]]):
    """Payloads and their versions by making of a collection and point; they take at most `max_bytes`."""

    def __init__(self, max_bytes: int) -> None:
        super().__init__(max_bytes, lambda _, cached: footprint(cached[1]) + _PAYLOAD_OVERHEAD, PAYLOAD_TTL)

    def known(self, collection: Making, seen: Iterable[Seen], now: float) -> dict[str, Payload]:
        """The payloads of those points that are as they were seen, by id."""
        known, values = {}, self._values
        for id_, version, content in seen:
            if (cached := values.get(key := (collection, id_))) is not None:
                (held, payload), _, expiry = cached
                if held == version and expiry > now and content in (None, payload.get(CONTENT)):
                    values.move_to_end(key)
                    known[id_] = payload
        return known

    def add(self, collection: Making, seen: Iterable[Seen], payloads: Mapping[str, Payload], now: float) -> None:
        """Cache the payloads that were fetched of these points after they were seen."""
        for id_, version, content in seen:
            payload = payloads.get(id_)
            if payload is not None and version is not None and content in (None, payload.get(CONTENT)):
                self.put((collection, id_), (version, payload), now)


def footprint(value: object) -> int:
    """Size of a JSON value in memory, in bytes; an object that several members share is counted for each."""
    size = sys.getsizeof(value)
    if isinstance(value, dict):
        return size + sum(map(sys.getsizeof, value)) + sum(map(footprint, value.values()))
    return size + sum(map(footprint, value)) if isinstance(value, list) else size
