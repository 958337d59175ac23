"""The payload cache: a point's payload is fetched again only once the point has changed, or its time to live is over.

Promises
--------
- A payload is known only to a search that saw the same version of its point and, where the search reads it, the same
  fingerprint of its content. Every write to a point gives it a new version, so that an old payload isn't served to a
  query whose search found a newer point.
- A payload that came with another fingerprint than the search saw is not cached: the point changed in between, or a
  replica of it lags behind.
- Versions count the writes of one replica of one making of a collection: another replica, or the same name's next
  making, may count the same for others. Makings that are known apart share nothing. Where they are not, and between
  replicas, the fingerprint distinguishes contents, and the other fields are served for `ttl` seconds at most.
- The user of a payload checks that its query may see it, as of one that was fetched.
- Payloads and what Python needs for them take at most `max_bytes`; the least recently used leave first.

Times are seconds on any steady clock. For one thread.
"""

import sys
from collections.abc import Iterable, Mapping
from typing import Any, Final

from operators.caching.bounded import BoundedCache
from schemas.document import CONTENT

Payload = Mapping[str, Any]

TTL: Final = 60.0
"""Seconds."""

_OVERHEAD: Final = 480
"""Bytes of an entry over its payload: its key, itself and its room in two tables."""

Making = tuple[str, int]
"""A collection's own name, and how often it was seen to be made again."""

Seen = tuple[str, int | None, object]
"""A point as a search saw it: its id, its version, None if unknown, and its content's fingerprint if it was read."""


class PayloadCache(BoundedCache[tuple[Making, str], tuple[int, Payload]]):
    """Payloads and their versions by making of a collection and point, for `ttl` seconds."""

    def __init__(self, max_bytes: int, ttl: float) -> None:
        super().__init__(max_bytes, lambda _, cached: footprint(cached[1]) + _OVERHEAD, ttl)

    def known(self, collection: Making, seen: Iterable[Seen], now: float) -> dict[str, Payload]:
        """The payloads of those points that are as they were seen, by id."""
        known = {}
        for id_, version, content in seen:
            cached = self.get((collection, id_), now)
            if cached is not None and cached[0] == version and content in (None, cached[1].get(CONTENT)):
                known[id_] = cached[1]
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
        size += sum(footprint(name) + footprint(each) for name, each in value.items())
    elif isinstance(value, list):
        size += sum(map(footprint, value))
    return size
