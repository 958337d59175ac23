"""The exact cache: answers by key; the least recently used are removed first.

Promises
--------
- An answer is served before its time to live is over, never at or after it, whatever order the times come in; being
  served doesn't lengthen it.
- Keys, answers and what Python needs for them take at most `max_bytes`.
- An expired answer is removed by a `get` of its key and, as long as times don't go back, by the next `put`.

Times are seconds on any steady clock. For one thread.
"""

from collections import OrderedDict
from typing import Final

LARGEST: Final = 8
"""An answer may take this part of the cache, an eighth: a larger one would displace too many others."""

OVERHEAD: Final = 384
"""Bytes of an entry beside its key and answer, measured on CPython 3.11: objects, two tables and their room to grow."""


class ExactCache:
    """Answers by key, for `ttl` seconds."""

    def __init__(self, max_bytes: int, ttl: float) -> None:
        self._most = max_bytes
        self._ttl = ttl
        self._answers: OrderedDict[bytes, bytes] = OrderedDict()
        self._expiry: OrderedDict[bytes, float] = OrderedDict()
        self.bytes = 0

    def get(self, key: bytes, now: float) -> bytes | None:
        """The key's answer; None if it isn't cached or has expired."""
        answer = self._answers.get(key)
        if answer is None:
            return None
        if self._expiry[key] <= now:
            self._drop(key)
            return None
        self._answers.move_to_end(key)
        return answer

    def put(self, key: bytes, answer: bytes, now: float) -> None:
        """Put an answer in place of the key's earlier one; one over a LARGEST-th of the cache isn't cached."""
        self._expire(now)
        if key in self._answers:
            self._drop(key)
        size = _size(key, answer)
        if size > self._most // LARGEST:
            return
        self._answers[key] = answer
        self._expiry[key] = now + self._ttl
        self.bytes += size
        while self.bytes > self._most:
            self._drop(next(iter(self._answers)))

    def clear(self) -> None:
        """Remove every answer."""
        self._answers.clear()
        self._expiry.clear()
        self.bytes = 0

    def __len__(self) -> int:
        return len(self._answers)

    def _expire(self, now: float) -> None:
        while self._expiry:
            key, expiry = next(iter(self._expiry.items()))
            if expiry > now:
                break
            self._drop(key)

    def _drop(self, key: bytes) -> None:
        self.bytes -= _size(key, self._answers.pop(key))
        del self._expiry[key]


def _size(key: bytes, answer: bytes) -> int:
    return len(key) + len(answer) + OVERHEAD
