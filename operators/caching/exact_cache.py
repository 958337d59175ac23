"""The exact cache: answers by key, the least recently used out first.

Promises
--------
- An answer is served before its time to live is over, never at or after it, whatever order the times come in; being
  served doesn't lengthen it.
- Keys, answers and what Python needs for them take at most `max_bytes`.
- What has expired leaves when it is met, and, as long as times don't go back, with the next `put`.

Times are seconds on any steady clock. For one thread.
"""

from collections import OrderedDict
from typing import Final

LARGEST: Final = 8
"""An answer may take the eighth part of the cache: one that is larger would push out too many others."""

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
        """The key's answer, if it is here and has not expired."""
        answer = self._answers.get(key)
        if answer is None:
            return None
        if self._expiry[key] <= now:
            self._drop(key)
            return None
        self._answers.move_to_end(key)
        return answer

    def put(self, key: bytes, answer: bytes, now: float) -> None:
        """Keep an answer in the place of the key's last one, unless it is too large a part of the cache."""
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
        """Forget every answer."""
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
