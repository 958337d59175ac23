"""Both caches together: which answer goes where, and when it is gone."""

import pytest

from operators.caching.answer_cache import AnswerCache, ExactCache
from operators.caching.semantic_cache import Likeness, SemanticCache
from tests.operators.caching.likenesses import toward

WHERE = toward((1.0, 2.0))


def answers() -> AnswerCache:
    """Two caches with room enough."""
    return AnswerCache(ExactCache(1 << 20, 60.0), SemanticCache(1 << 20, 60.0))


@pytest.mark.parametrize("key", [b"k", None])
@pytest.mark.parametrize("scope", [b"s", None])
@pytest.mark.parametrize("where", [WHERE, None])
def test_an_answer_goes_where_its_query_may_look(
    key: bytes | None, scope: bytes | None, where: Likeness | None
) -> None:
    """By key if it has one; by direction if it has a scope and a direction."""
    cache = answers()
    cache.put(key, scope, where, b"answer", 0.0)
    assert cache.lookup(b"k", 1.0) == (b"answer" if key else None)
    assert cache.semantic_lookup(b"s", WHERE, 1.0) == (b"answer" if scope and where else None)


def test_what_is_forgotten_is_gone_from_both() -> None:
    """Nothing is served any more, and there is room again for all that there was."""
    cache = answers()
    for _ in range(2):
        cache.put(b"k", b"s", WHERE, b"answer", 0.0)
        assert cache.lookup(b"k", 1.0) == cache.semantic_lookup(b"s", WHERE, 1.0) == b"answer"
        cache.clear()
        assert cache.lookup(b"k", 1.0) is cache.semantic_lookup(b"s", WHERE, 1.0) is None


def test_times_reach_both_caches() -> None:
    """An answer expires in each."""
    cache = answers()
    cache.put(b"k", b"s", WHERE, b"answer", 100.0)
    assert cache.lookup(b"k", 159.0) == cache.semantic_lookup(b"s", WHERE, 159.0) == b"answer"
    assert cache.lookup(b"k", 160.0) is cache.semantic_lookup(b"s", WHERE, 160.0) is None
