"""The semantic cache: answers to queries whose vectors have almost the same direction, and which agree otherwise.

- Of a scope's answers whose cosine reaches the threshold, and whose fingerprint is the query's, the newest is served;
  none below threshold - 1e-6 is, which allows for the rounding of float32.
- An answer is served before its time to live is over, never at or after it, in any order of the times.
- A scope has at most `per_scope` answers for each length of vectors (vectors of different lengths never match); the
  oldest are removed first. All scopes together take at most `max_bytes`; the oldest answer of all scopes is removed
  first, so that a new scope doesn't displace all answers of another.
- An answer replaces the earlier one of the same direction and fingerprint.

Times are seconds on any steady clock. For one thread. Measured at 1,000 vectors of 384: 0.03 ms for `nearest`, 0.01 for
`put`, 0.015 for the direction that both take.
"""

from collections import OrderedDict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import Final

import numpy as np
from numpy.typing import NDArray

from operators.caching.bounded import LARGEST

VectorRow = NDArray[np.float32]
_BucketKey = tuple[bytes, int]
"""A scope, and the length of its vectors."""

ENTRY: Final = 464
"""Bytes of an entry over its row and answer, measured on CPython 3.11: objects, tables and their room to grow."""

SCOPE: Final = 512
"""Bytes of a scope over its entries, measured likewise."""

_ROUNDING: Final = 5e-7
"""A cosine may lack so much of the threshold: both rows are off by 2**-24 of each number."""

FINGERPRINT: Final = 16


def scope_size(length: int) -> int:
    """The bytes that a scope of vectors of this length is charged: two rows are its room to grow."""
    return SCOPE + 2 * 4 * length


def entry_size(length: int, answer: bytes) -> int:
    """The bytes that an entry is charged: a row, and a quarter of one as room to grow."""
    return ENTRY + 5 * length + len(answer)


def direction(vector: Sequence[float]) -> VectorRow | None:
    """The vector at length 1; None for an empty one, one of zeros, and one with a number that isn't finite."""
    numbers = np.asarray(vector, np.float64)
    largest = np.abs(numbers).max(initial=0.0)
    if not 0.0 < largest < np.inf:
        return None
    # Squares of very large or very small numbers would leave the range of a float.
    scaled = numbers / largest
    row: VectorRow = (scaled / np.sqrt(scaled @ scaled)).astype(np.float32)
    # Adding 0.0 makes one zero of both, so that equal rows are equal bytes.
    return row + np.float32(0.0)


@dataclass(frozen=True, slots=True, eq=False)
class Likeness:
    """Two queries are alike if their directions are similar enough and their fingerprints equal.

    `same`: only the same direction, to the rounding of float32, is similar enough.
    """

    direction: VectorRow
    fingerprint: bytes
    same: bool = False


def digest_parts(*values: bytes) -> bytes:
    """A digest of FINGERPRINT bytes; those of different values differ."""
    lengths = b"".join(len(value).to_bytes(8) for value in values)
    return blake2b(lengths + b"".join(values), digest_size=FINGERPRINT).digest()


@dataclass(slots=True, eq=False)
class _Entry:
    key: bytes
    bucket: "_Bucket"
    index: int
    answer: bytes
    expiry: float


class _Bucket:
    """The entries of a scope with vectors of one length, oldest first; each has the row at its index; None is a gap."""

    def __init__(self, key: _BucketKey) -> None:
        self.key = key
        self.used = 0
        self._entries: list[_Entry | None] = []
        self._rows: VectorRow = np.empty((2, key[1]), np.float32)
        self._slack = (key[1] + 8) * 2.0**-24
        """Error of a dot product of two such unit vectors in float32, in any order of its sum."""

    def similar(self, row: VectorRow, least: float) -> Iterator[_Entry]:
        """The entries whose cosine is at least that, the newest first."""
        rough = self._rows[: len(self._entries)] @ row
        for index in np.flatnonzero(rough >= least - self._slack)[::-1]:
            entry = self._entries[index]
            sure = rough[index] >= least + self._slack
            if entry is not None and (sure or self._rows[index].astype(np.float64) @ row >= least):
                yield entry

    def oldest(self) -> _Entry:
        return next(entry for entry in self._entries if entry is not None)

    def add(self, key: bytes, row: VectorRow, answer: bytes, expiry: float) -> _Entry:
        if len(self._entries) == len(self._rows):
            self._fit()
        entry = _Entry(key, self, len(self._entries), answer, expiry)
        self._rows[entry.index] = row
        self._entries.append(entry)
        self.used += 1
        return entry

    def remove(self, entry: _Entry) -> None:
        """Remove an entry, and free the room that no other entry is charged for."""
        self._entries[entry.index] = None
        self.used -= 1
        if len(self._rows) > self.used + self.used // 4 + 2:
            self._fit()

    def _fit(self) -> None:
        """Close the gaps, and leave room for an eighth more and two."""
        entries = [entry for entry in self._entries if entry is not None]
        rows = np.empty((self.used + self.used // 8 + 2, self.key[1]), np.float32)
        # Any mode but "raise" writes into the room itself, not into a copy of it.
        self._rows.take([entry.index for entry in entries], axis=0, out=rows[: self.used], mode="clip")
        for index, entry in enumerate(entries):
            entry.index = index
        self._entries, self._rows = [*entries], rows


class SemanticCache:
    """Answers by scope and likeness, for `ttl` seconds."""

    def __init__(self, max_bytes: int, ttl: float, threshold: float = 0.92, per_scope: int = 1000) -> None:
        self._most = max_bytes
        self._ttl = ttl
        self._least = threshold - _ROUNDING
        self._per_scope = per_scope
        self._buckets: dict[_BucketKey, _Bucket] = {}
        self._entries: OrderedDict[bytes, _Entry] = OrderedDict()
        self.bytes = 0

    def nearest(self, scope: bytes, likeness: Likeness, now: float) -> bytes | None:
        """The newest answer of the scope to a query that is like this one, and has not expired; None without one."""
        row = likeness.direction
        bucket = self._buckets.get((scope, len(row)))
        if bucket is None:
            return None
        least = 1 - _ROUNDING if likeness.same else self._least
        alike = (each for each in bucket.similar(row, least) if each.key.startswith(likeness.fingerprint))
        return next((entry.answer for entry in alike if entry.expiry > now), None)

    def put(self, scope: bytes, likeness: Likeness, answer: bytes, now: float) -> None:
        """Put an answer as its scope's newest; one over a LARGEST-th of the cache isn't cached."""
        while self._entries and self._oldest().expiry <= now:
            self._drop(self._oldest())
        row = likeness.direction
        key = likeness.fingerprint + digest_parts(row.tobytes()) + scope
        same = self._entries.get(key)
        if same is not None:
            self._drop(same)
        bucket_key = (scope, len(row))
        size = entry_size(len(row), answer)
        if size + scope_size(len(row)) > self._most // LARGEST:
            return
        bucket = self._buckets.get(bucket_key)
        if bucket is None:
            bucket = self._buckets[bucket_key] = _Bucket(bucket_key)
            self.bytes += scope_size(len(row))
        self._entries[key] = bucket.add(key, row, answer, now + self._ttl)
        self.bytes += size
        if bucket.used > self._per_scope:
            self._drop(bucket.oldest())
        while self.bytes > self._most:
            self._drop(self._oldest())

    def clear(self) -> None:
        self._buckets.clear()
        self._entries.clear()
        self.bytes = 0

    def __len__(self) -> int:
        return len(self._entries)

    def _oldest(self) -> _Entry:
        return next(iter(self._entries.values()))

    def _drop(self, entry: _Entry) -> None:
        bucket = entry.bucket
        bucket.remove(entry)
        del self._entries[entry.key]
        length = bucket.key[1]
        self.bytes -= entry_size(length, entry.answer)
        if not bucket.used:
            del self._buckets[bucket.key]
            self.bytes -= scope_size(length)
