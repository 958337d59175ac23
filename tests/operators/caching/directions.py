"""Directions of vectors that have one."""

from collections.abc import Sequence

from operators.caching.semantic_cache import Direction, direction


def toward(vector: Sequence[float]) -> Direction:
    """Where the vector points."""
    found = direction(vector)
    assert found is not None
    return found
