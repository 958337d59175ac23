"""The answer cache: the exact and the semantic cache behind one interface."""

from operators.caching.exact_cache import ExactCache
from operators.caching.semantic_cache import Direction, SemanticCache


class AnswerCache:
    """Looks answers up in both caches, and puts each answer into those that its query may use."""

    def __init__(self, exact: ExactCache, semantic: SemanticCache) -> None:
        self._exact = exact
        self._semantic = semantic

    def lookup(self, key: bytes, now: float) -> bytes | None:
        """The cached answer to the identical query."""
        return self._exact.get(key, now)

    def semantic_lookup(self, scope: bytes, direction: Direction, now: float) -> bytes | None:
        """The newest cached answer to a query of almost the same direction."""
        return self._semantic.nearest(scope, direction, now)

    def put(
        self, key: bytes | None, scope: bytes | None, direction: Direction | None, answer: bytes, now: float
    ) -> None:
        """Put an answer into the exact cache, given a key, and into the semantic one, given a scope and a direction."""
        if key is not None:
            self._exact.put(key, answer, now)
        if scope is not None and direction is not None:
            self._semantic.put(scope, direction, answer, now)

    def clear(self) -> None:
        """Remove every answer."""
        self._exact.clear()
        self._semantic.clear()
