"""The semantic cache by itself: what is near enough, which answer is served, and what makes room."""

import math
import tracemalloc
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from operators.caching import bounded, semantic_cache
from operators.caching.bounded import LARGEST
from operators.caching.semantic_cache import (
    ENTRY,
    FINGERPRINT,
    Likeness,
    SemanticCache,
    digest_parts,
    direction,
    entry_size,
    scope_size,
)
from tests.operators.caching.allocation import allocated
from tests.operators.caching.likenesses import toward

A, B = b"a" * 32, b"b" * 32


def turned(degrees: float, length: float = 1.0, words: str = "") -> Likeness:
    """That of a vector of the plane at this angle."""
    return toward((length * math.cos(math.radians(degrees)), length * math.sin(math.radians(degrees))), words)


def roomy(**changes: Any) -> SemanticCache:
    """A cache with room enough."""
    return SemanticCache(**{"max_bytes": 1 << 24, "ttl": 60.0, **changes})


@pytest.mark.parametrize(("degrees", "served"), [(0, True), (23, True), (23.1, False), (90, False), (180, False)])
def test_what_is_near_enough_is_served(degrees: float, served: bool) -> None:
    """Cosine .92 is an angle of 23.07 degrees, whatever the lengths are."""
    cache = roomy()
    cache.put(A, turned(0, 100.0), b"answer", 0.0)
    assert cache.nearest(A, turned(degrees, 0.001), 0.0) == (b"answer" if served else None)


def test_the_newest_is_served() -> None:
    """Of those that are near enough, not the nearest, and not one that came later but lies elsewhere."""
    cache = roomy()
    for degrees in (0, 20, 90):
        cache.put(A, turned(degrees), b"%d" % degrees, 0.0)
    assert cache.nearest(A, turned(0), 0.0) == b"20"
    assert cache.nearest(A, turned(-10), 0.0) == b"0"


def test_other_words_are_never_served() -> None:
    """However near the vector is; an older answer of the same words is, and the same vector has one of each."""
    cache = roomy()
    for degrees, words in ((0, "one"), (0, "two"), (5, "three")):
        cache.put(A, turned(degrees, words=words), words.encode(), 0.0)
    assert len(cache) == 3
    for words in ("one", "two", "three"):
        assert cache.nearest(A, turned(1, words=words), 0.0) == words.encode()
    assert cache.nearest(A, turned(0, words="four"), 0.0) is None


@pytest.mark.parametrize("parts", [((b"ab",), (b"a", b"b")), ((b"", b"a"), (b"a", b"")), ((), (b"",))])
def test_fingerprints_of_other_parts_differ(parts: tuple[Sequence[bytes], Sequence[bytes]]) -> None:
    """Also where the parts are the same bytes one after the other."""
    one, other = (digest_parts(*each) for each in parts)
    assert len(one) == len(other) == FINGERPRINT
    assert one != other


@pytest.mark.parametrize("length", [2, 3, 64, 384, 1536])
def test_rounding_serves_nothing_below_the_threshold(length: int) -> None:
    """A cosine that reaches .92 is served, one below it by 1.1e-6 isn't."""
    random = np.random.default_rng(length)
    for shift, served in ((1e-12, True), (-1.1e-6, False)):
        for _ in range(100):
            one, other = np.linalg.qr(random.normal(size=(length, 2)))[0].T
            cosine = 0.92 + shift
            near = cosine * one + math.sqrt(1 - cosine**2) * other
            cache = roomy()
            cache.put(A, toward((one * random.uniform(0.01, 100)).tolist()), b"answer", 0.0)
            assert (cache.nearest(A, toward(near.tolist()), 0.0) is not None) == served


def test_rounding_hides_nothing_at_the_threshold() -> None:
    """A vector finds itself at threshold 1, of any length, also where each rounding of float32 is to the same side."""
    for length in range(2, 2000, 3):
        cache = roomy(threshold=1.0)
        cache.put(A, toward([1.0] + [0.0] * (length - 1)), b"other", 0.0)
        cache.put(A, toward([1.0] * length), b"answer", 0.0)
        assert cache.nearest(A, toward([1.0] * length), 0.0) == b"answer"


def test_a_scope_has_its_own_answers() -> None:
    """The same vector finds nothing under another scope."""
    cache = roomy()
    cache.put(A, turned(0), b"answer", 0.0)
    assert cache.nearest(B, turned(0), 0.0) is None


def test_a_length_has_its_own_answers() -> None:
    """A vector with zeros more or fewer is another one."""
    cache = roomy()
    cache.put(A, toward((1.0, 0.0)), b"two", 0.0)
    assert cache.nearest(A, toward((1.0,)), 0.0) is cache.nearest(A, toward((1.0, 0.0, 0.0)), 0.0) is None
    cache.put(A, toward((1.0, 0.0, 0.0)), b"three", 0.0)
    assert cache.nearest(A, toward((1.0, 0.0)), 0.0) == b"two"
    assert cache.nearest(A, toward((1.0, 0.0, 0.0)), 0.0) == b"three"


@pytest.mark.parametrize(
    "vector", [(), (0.0, 0.0), (-0.0, 0.0), (math.nan, 1.0), (1.0, math.nan), (math.inf, 1.0), (1.0, -math.inf)]
)
@pytest.mark.filterwarnings("error")
def test_what_has_no_direction(vector: Sequence[float]) -> None:
    """Nothing, zeros, and what isn't finite."""
    assert direction(vector) is None


@pytest.mark.parametrize("size", [5e-324, 1e-200, 1e-30, 1e30, 1e200, 1.7e308])
@pytest.mark.filterwarnings("error")
def test_no_number_is_too_large_or_too_small(size: float) -> None:
    """A vector keeps its direction if its squares would leave the range of a float."""
    cache = roomy(threshold=1.0)
    cache.put(A, toward((size, -size)), b"answer", 0.0)
    assert cache.nearest(A, toward((1.0, -1.0)), 0.0) == b"answer"
    assert cache.nearest(A, toward((1.0, 1.0)), 0.0) is None


def test_a_vector_that_is_kept_again_is_the_newest() -> None:
    """It takes the place of the last one of its direction, whose answer is gone."""
    cache = roomy(per_scope=2)
    cache.put(A, turned(0), b"first", 0.0)
    cache.put(A, turned(10), b"near", 0.0)
    cache.put(A, toward((3.0, 0.0)), b"second", 0.0)
    assert len(cache) == 2
    assert cache.nearest(A, turned(0), 0.0) == b"second"
    assert cache.nearest(A, turned(30), 0.0) == b"near"


def test_zeros_of_either_sign_are_the_same() -> None:
    """As are numbers too small for float32."""
    cache = roomy()
    for zero in (0.0, -0.0, 1e-60, -1e-60):
        cache.put(A, toward((1.0, zero)), b"%g" % zero, 0.0)
        assert len(cache) == 1


def test_a_vector_that_is_almost_the_same_is_another_one() -> None:
    """A fiftieth of a degree apart are two entries."""
    cache = roomy()
    cache.put(A, turned(0), b"answer", 0.0)
    cache.put(A, turned(0.02), b"answer", 0.0)
    assert len(cache) == 2


def test_an_answer_lives_until_its_time_is_over() -> None:
    """An older one that is near enough doesn't outlive a newer one; a vector kept again lives anew."""
    cache = roomy()
    cache.put(A, turned(0), b"old", 0.0)
    cache.put(A, turned(5), b"new", 30.0)
    assert cache.nearest(A, turned(0), 89.9) == b"new"
    assert cache.nearest(A, turned(0), 90.0) is None
    assert cache.nearest(A, turned(-20), 59.9) == b"old"
    assert cache.nearest(A, turned(-20), 60.0) is None


def test_a_clock_that_goes_back_serves_nothing_late() -> None:
    """A newer answer whose time is over is passed by."""
    cache = roomy()
    cache.put(A, turned(0), b"later", 100.0)
    cache.put(A, turned(5), b"earlier", 0.0)
    assert cache.nearest(A, turned(0), 59.0) == b"earlier"
    assert cache.nearest(A, turned(0), 60.0) == b"later"


def test_what_has_expired_makes_room() -> None:
    """With the next answer that is kept, in whatever scope."""
    cache = roomy()
    cache.put(A, turned(0), b"answer", 0.0)
    cache.put(A, turned(90), b"answer", 1.0)
    cache.put(B, turned(0), b"answer", 60.0)
    assert len(cache) == 2
    assert cache.bytes == 2 * (scope_size(2) + entry_size(2, b"answer"))


@pytest.mark.parametrize("most", [1, 2, 7])
def test_a_scope_keeps_its_newest(most: int) -> None:
    """So many answers each; another scope's don't count."""
    cache = roomy(per_scope=most, threshold=0.9999)
    for number in range(10):
        for scope in (A, B):
            cache.put(scope, turned(number * 9), b"%d" % number, 0.0)
    found = [number for number in range(10) if cache.nearest(A, turned(number * 9), 0.0) == b"%d" % number]
    assert found == list(range(10 - most, 10))
    assert len(cache) == 2 * most


def test_the_oldest_is_out_first_whosever_it_is() -> None:
    """A scope that begins takes no more from a large one than the room it needs."""
    room = 2 * scope_size(2) + 20 * entry_size(2, b"..")
    cache = SemanticCache(room, 60.0, 0.9999)
    for number in range(20):
        cache.put(A, turned(number * 4), b"%02d" % number, 0.0)
    cache.put(B, turned(0), b"..", 0.0)
    assert cache.bytes == room
    assert [number for number in range(20) if not cache.nearest(A, turned(number * 4), 0.0)] == [0]
    assert cache.nearest(B, turned(0), 0.0) == b".."


@pytest.mark.parametrize(("more", "stays"), [(0, True), (1, False)])
def test_one_answer_takes_at_most_an_eighth(more: int, stays: bool) -> None:
    """A larger one isn't kept and pushes nobody out, but what it replaces is old and goes."""
    answer = b"." * (ENTRY + more)
    cache = SemanticCache(LARGEST * (scope_size(2) + entry_size(2, answer[more:])), 60.0)
    cache.put(A, turned(0), b"old", 0.0)
    cache.put(A, turned(90), b"other", 0.0)
    cache.put(A, turned(0), answer, 0.0)
    assert cache.nearest(A, turned(0), 0.0) == (answer if stays else None)
    assert cache.nearest(A, turned(90), 0.0) == b"other"


@pytest.mark.parametrize("most", [{"max_bytes": 0}, {"per_scope": 0}])
def test_a_cache_without_room_keeps_nothing(most: dict[str, float]) -> None:
    """That is how it is switched off."""
    cache = roomy(**most)
    cache.put(A, turned(0), b"answer", 0.0)
    assert len(cache) == cache.bytes == 0
    assert cache.nearest(A, turned(0), 0.0) is None


@pytest.mark.parametrize(("scopes", "entries"), [(1, 171), (1, 683), (86, 1), (1366, 1), (500, 2), (60, 20)])
@pytest.mark.parametrize("length", [8, 384])
def test_the_bytes_are_those_that_python_takes(length: int, scopes: int, entries: int) -> None:
    """The count is at least what is allocated, also where a table has just grown, and when half is gone."""
    cache = SemanticCache(1 << 30, 60.0, 2.0, 10_000)
    vectors = np.random.default_rng(1).normal(size=(entries, length)).tolist()
    count = scopes * entries
    tracemalloc.start()
    try:
        for number, vector in enumerate(vectors):
            for scope in range(scopes):
                now = (number * scopes + scope) * 60.0 / count
                cache.put(scope.to_bytes(32), toward(vector), bytes([number % 256]) * 100, now)
        assert len(cache) == count
        assert allocated(__file__, semantic_cache, bounded) <= cache.bytes
        cache.put(A, toward(vectors[0]), b"", 90.0)
        assert count // 2 - 1 <= len(cache) <= count // 2 + 1
        # Python's tables keep their room until they grow again.
        tables = 170 * (count - len(cache))
        assert allocated(__file__, semantic_cache, bounded) - tables <= cache.bytes
    finally:
        tracemalloc.stop()


@pytest.mark.slow
@pytest.mark.parametrize(("scopes", "most"), [(1, 1 << 30), (1000, 1_200_000), (5000, 400_000)])
def test_the_bytes_are_those_that_python_takes_while_answers_come_and_go(scopes: int, most: int) -> None:
    """As many go as come, replaced, over the scope's number or over the bytes: gaps and tables stay paid for."""
    random = np.random.default_rng(1)
    directions = [toward(vector) for vector in random.normal(size=(3000, 8)).tolist()]
    puts = random.integers((scopes, len(directions)), size=(10_000, 2)).tolist()
    cache = SemanticCache(most, 60.0, 2.0)
    tracemalloc.start()
    try:
        others, _ = tracemalloc.get_traced_memory()
        for scope, where in puts:
            cache.put(scope.to_bytes(32), directions[where], bytes([where % 256]) * 100, 0.0)
            traced, _ = tracemalloc.get_traced_memory()
            if len(cache) > 300 and traced - others > cache.bytes:
                own = allocated(__file__, semantic_cache, bounded)
                assert own <= cache.bytes
                # The rest is that of threads of other tests: looked at for each answer, it would take minutes.
                others = traced - own
    finally:
        tracemalloc.stop()
