"""Likenesses of vectors that have a direction."""

from collections.abc import Sequence

from operators.caching.semantic_cache import Likeness, digest_parts, direction


def toward(vector: Sequence[float], words: str = "") -> Likeness:
    """That of a query whose vector is this one, and whose words are these."""
    found = direction(vector)
    assert found is not None
    return Likeness(found, digest_parts(words.encode()))
