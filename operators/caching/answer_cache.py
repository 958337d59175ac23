"""The answer cache: answers to identical queries, answers to similar ones, and request coalescing (singleflight).

Of identical queries in flight one, the leader, is computed for all.
"""

from typing import Final, Generic, TypeVar

from operators.caching.bounded import BoundedCache
from operators.caching.semantic_cache import LARGEST, Likeness, SemanticCache

Item = TypeVar("Item")

OVERHEAD: Final = 416
"""Bytes of an entry over its key and answer, measured on CPython 3.11: objects, two tables and their room to grow."""


class ExactCache(BoundedCache[bytes, bytes]):
    """Answers by key, for `ttl` seconds; they and what Python needs for them take at most `max_bytes`."""

    def __init__(self, max_bytes: int, ttl: float) -> None:
        super().__init__(max_bytes, lambda key, answer: len(key) + len(answer) + OVERHEAD, ttl, LARGEST)


class AnswerCache:
    """Looks answers up in both caches, and puts each answer into those that its query may use."""

    def __init__(self, exact: ExactCache, semantic: SemanticCache) -> None:
        self._exact = exact
        self._semantic = semantic

    def lookup(self, key: bytes, now: float) -> bytes | None:
        """The cached answer to the identical query."""
        return self._exact.get(key, now)

    def semantic_lookup(self, scope: bytes, likeness: Likeness, now: float) -> bytes | None:
        """The newest cached answer to a query that is like this one."""
        return self._semantic.nearest(scope, likeness, now)

    def put(self, key: bytes | None, scope: bytes | None, likeness: Likeness | None, answer: bytes, now: float) -> None:
        """Put an answer into the exact cache, given a key, and into the semantic one, given a scope and a likeness."""
        if key is not None:
            self._exact.put(key, answer, now)
        if scope is not None and likeness is not None:
            self._semantic.put(scope, likeness, answer, now)

    def clear(self) -> None:
        """Remove every answer."""
        self._exact.clear()
        self._semantic.clear()


class Coalescer(Generic[Item]):
    """The leader of each key: at most one item, until it is done."""

    def __init__(self) -> None:
        self._leading: dict[bytes, Item] = {}

    def lead(self, key: bytes, item: Item) -> None:
        """Make the item the key's leader. Raises ValueError if the key has one."""
        if key in self._leading:
            raise ValueError("this key has a leader")
        self._leading[key] = item

    def of(self, key: bytes) -> Item | None:
        """The key's leader; None without one."""
        return self._leading.get(key)

    def done(self, key: bytes) -> None:
        """Remove the key's leader; does nothing without one."""
        self._leading.pop(key, None)

    def __len__(self) -> int:
        return len(self._leading)
