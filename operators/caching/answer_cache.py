"""The answer cache: the exact and the semantic cache behind one interface."""

from operators.caching.exact_cache import ExactCache
from operators.caching.semantic_cache import Likeness, SemanticCache


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
