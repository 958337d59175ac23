"""The answer cache: both caches behind what the flow does with them."""

from operators.caching.exact_cache import ExactCache
from operators.caching.semantic_cache import Direction, SemanticCache


class AnswerCache:
    """One answer goes to the caches that its query may use."""

    def __init__(self, exact: ExactCache, semantic: SemanticCache) -> None:
        self._exact = exact
        self._semantic = semantic

    def lookup(self, key: bytes, now: float) -> bytes | None:
        """The answer to the identical query."""
        return self._exact.get(key, now)

    def semantic_lookup(self, scope: bytes, direction: Direction, now: float) -> bytes | None:
        """The newest answer to a query of almost the same direction."""
        return self._semantic.nearest(scope, direction, now)

    def put(
        self, key: bytes | None, scope: bytes | None, direction: Direction | None, answer: bytes, now: float
    ) -> None:
        """Keep an answer by its key, if it has one, and by its direction, if it has a scope and a direction."""
        if key is not None:
            self._exact.put(key, answer, now)
        if scope is not None and direction is not None:
            self._semantic.put(scope, direction, answer, now)

    def clear(self) -> None:
        """Forget every answer."""
        self._exact.clear()
        self._semantic.clear()
