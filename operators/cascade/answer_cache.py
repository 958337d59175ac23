"""The answer cache: both caches behind what the flow does with them, counted."""

from operators.cascade.exact_cache import ExactCache
from operators.cascade.semantic_cache import Direction, SemanticCache


class AnswerCache:
    """One answer goes to the caches that its query may use; each look into one is a hit or a miss of it."""

    def __init__(self, exact: ExactCache, semantic: SemanticCache) -> None:
        self.exact = exact
        self.semantic = semantic
        self.exact_hits = 0
        self.exact_misses = 0
        self.semantic_hits = 0
        self.semantic_misses = 0

    def lookup(self, key: bytes, now: float) -> bytes | None:
        """The answer to the identical query."""
        answer = self.exact.get(key, now)
        if answer is None:
            self.exact_misses += 1
        else:
            self.exact_hits += 1
        return answer

    def recall(self, scope: bytes, direction: Direction, now: float) -> bytes | None:
        """The newest answer to a query of almost the same direction."""
        answer = self.semantic.nearest(scope, direction, now)
        if answer is None:
            self.semantic_misses += 1
        else:
            self.semantic_hits += 1
        return answer

    def keep(
        self, key: bytes | None, scope: bytes | None, direction: Direction | None, answer: bytes, now: float
    ) -> None:
        """Keep an answer by its key, if it has one, and by its direction, if it has a scope and a direction."""
        if key is not None:
            self.exact.put(key, answer, now)
        if scope is not None and direction is not None:
            self.semantic.put(scope, direction, answer, now)
