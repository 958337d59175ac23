"""The payload cache: a point's payload is fetched again only once the point has changed, or its time to live is over.

Promises
--------
- A payload is known only to who has seen the same version of its point and, where the search reads it, the same
  fingerprint of its content. Every write to a point, whoever makes it, gives it a new version, so that what was there
  before isn't served to a query whose search found what came after.
- A payload that came with another fingerprint than the search saw is not kept: the point changed in between, or a
  replica of it lags behind.
- Versions count the writes of one replica of one making of a collection: another replica, or the same name's next
  making, may count the same for others. Makings that are known apart share nothing. Where they are not, and between
  replicas, the fingerprint tells contents apart, and what is beside the content is served for `ttl` seconds at most.
- Whoever uses a payload checks that its query may see it, as of one that was fetched.
- Payloads and what Python needs for them take at most `max_bytes`; those that were longest unused leave first.

Times are seconds on any steady clock. For one thread.
"""

import sys
from collections import OrderedDict
from collections.abc import Iterable, Mapping
from typing import Any, Final, NamedTuple

from schemas.document import CONTENT

Payload = Mapping[str, Any]

TTL: Final = 60.0
"""Seconds."""

_OVERHEAD: Final = 400
"""Bytes of an entry beside its payload: its key, itself and its place in the table."""


Making = tuple[str, int]
"""A collection's own name, and how often it was seen to be made again."""

Seen = tuple[str, int | None, object]
"""What a search saw of a point: its id, its version, None if unknown, and its content's fingerprint if it was read."""


class _Kept(NamedTuple):
    version: int
    content: object
    payload: Payload
    size: int
    expiry: float


class PayloadCache:
    """Payloads by making of a collection and point, for `ttl` seconds."""

    def __init__(self, max_bytes: int, ttl: float) -> None:
        self._most = max_bytes
        self._ttl = ttl
        self._kept: OrderedDict[tuple[Making, str], _Kept] = OrderedDict()
        self.bytes = 0

    def known(self, collection: Making, seen: Iterable[Seen], now: float) -> dict[str, Payload]:
        """The payloads of those points that are as they were seen, by id."""
        known = {}
        find, used = self._kept.get, self._kept.move_to_end
        for id_, version, content in seen:
            key = collection, id_
            if (found := find(key)) is None:
                continue
            was, fingerprint, payload, _, expiry = found
            if was == version and expiry > now and (content is None or content == fingerprint):
                used(key)
                known[id_] = payload
        return known

    def put(self, collection: Making, seen: Iterable[Seen], payloads: Mapping[str, Payload], now: float) -> None:
        """Keep what was fetched of these points after they were seen."""
        for id_, version, content in seen:
            payload = payloads.get(id_)
            if payload is not None and version is not None and content in (None, payload.get(CONTENT)):
                self._put((collection, id_), version, payload, now)
        while self.bytes > self._most:
            _, oldest = self._kept.popitem(last=False)
            self.bytes -= oldest.size

    def __len__(self) -> int:
        return len(self._kept)

    def _put(self, key: tuple[Making, str], version: int, payload: Payload, now: float) -> None:
        if (present := self._kept.pop(key, None)) is not None:
            self.bytes -= present.size
        kept = _Kept(version, payload.get(CONTENT), payload, footprint(payload) + _OVERHEAD, now + self._ttl)
        self._kept[key] = kept
        self.bytes += kept.size


def footprint(value: object) -> int:
    """Bytes that a JSON value takes in memory; what its parts share with others is counted for each."""
    size = sys.getsizeof(value)
    if isinstance(value, dict):
        size += sum(footprint(name) + footprint(each) for name, each in value.items())
    elif isinstance(value, list):
        size += sum(map(footprint, value))
    return size
