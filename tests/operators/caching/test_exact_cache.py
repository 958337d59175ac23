"""The exact cache by itself and against a model: what is served, for how long, and what makes room."""

import tracemalloc
from collections.abc import Sequence
from dataclasses import dataclass

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from operators.caching import bounded
from operators.caching.bounded import LARGEST, OVERHEAD, ExactCache
from tests.operators.caching.allocation import allocated
from tests.tiers import sized

ROOM = LARGEST * (OVERHEAD + 10)
"""For eight answers of nine bytes under keys of one."""


def filled(cache: ExactCache, keys: str, now: float = 0.0) -> None:
    """Keep an answer of nine bytes under each of these keys."""
    for key in keys:
        cache.put(key.encode(), nine(key), now)


def nine(key: str) -> bytes:
    """An answer of nine bytes."""
    return key.encode() * 9


def kept(cache: ExactCache, keys: str, now: float = 0.0) -> str:
    """Those of the keys that the cache answers."""
    return "".join(key for key in keys if cache.get(key.encode(), now) == nine(key))


def test_an_answer_is_its_keys() -> None:
    """A cached answer is served under its key alone, as often as it is asked for."""
    cache = ExactCache(ROOM, 60.0)
    cache.put(b"a", b"answer", 0.0)
    assert [cache.get(key, 1.0) for key in (b"a", b"a", b"b", b"")] == [b"answer", b"answer", None, None]


def test_the_least_recently_used_is_out_first() -> None:
    """Eight fit; being served is being used."""
    cache = ExactCache(ROOM, 60.0)
    filled(cache, "abcdefgh")
    assert kept(cache, "a") == "a"
    filled(cache, "ij")
    assert kept(cache, "abcdefghij") == "adefghij"


def test_an_answer_that_is_kept_again_is_used() -> None:
    """It has its key's place alone, and is the last to go."""
    cache = ExactCache(ROOM, 60.0)
    filled(cache, "abcdefgha")
    assert len(cache) == 8
    filled(cache, "i")
    assert kept(cache, "abcdefghi") == "acdefghi"


def test_an_answer_lives_until_its_time_is_over() -> None:
    """Not a moment longer, and serving it lengthens nothing."""
    cache = ExactCache(ROOM, 60.0)
    filled(cache, "a")
    assert kept(cache, "a", 59.999) == "a"
    assert cache.get(b"a", 60.0) is None
    assert len(cache) == cache.size == 0


def test_an_answer_that_is_kept_again_lives_anew() -> None:
    """Its time runs from the last time that it was kept."""
    cache = ExactCache(ROOM, 60.0)
    filled(cache, "a", 0.0)
    filled(cache, "a", 30.0)
    assert kept(cache, "a", 89.0) == "a"
    assert kept(cache, "a", 90.0) == ""


def test_a_clock_that_goes_back_serves_nothing_late() -> None:
    """An answer that was kept at an earlier time than the one before it ends at its own."""
    cache = ExactCache(ROOM, 60.0)
    filled(cache, "a", 100.0)
    filled(cache, "b", 0.0)
    filled(cache, "c", 61.0)
    assert kept(cache, "abc", 61.0) == "ac"


def test_what_has_expired_makes_room() -> None:
    """With the next answer that is kept, however recently it was used."""
    cache = ExactCache(ROOM, 60.0)
    filled(cache, "abc", 0.0)
    filled(cache, "d", 30.0)
    assert kept(cache, "abc", 59.0) == "abc"
    filled(cache, "e", 60.0)
    assert len(cache) == 2


@pytest.mark.parametrize(("size", "stays"), [(9, True), (10, False), (10 * ROOM, False)])
def test_one_answer_takes_at_most_an_eighth(size: int, stays: bool) -> None:
    """A larger one isn't kept and pushes nobody out, but what it replaces is old and goes."""
    cache = ExactCache(ROOM, 60.0)
    filled(cache, "abcdefgh")
    cache.put(b"a", b"." * size, 0.0)
    assert kept(cache, "bcdefgh") == "bcdefgh"
    assert cache.get(b"a", 0.0) == (b"." * size if stays else None)


def test_a_cache_of_no_bytes_keeps_nothing() -> None:
    """That is how it is switched off."""
    cache = ExactCache(0, 60.0)
    cache.put(b"", b"", 0.0)
    assert cache.get(b"", 0.0) is None


@pytest.mark.parametrize("entries", [6, 11, 86, 171, 1366, 5462, 10923])
def test_the_bytes_are_those_that_python_takes(entries: int) -> None:
    """Also where a table has just grown: what is counted is at least what is allocated, within a factor of two."""
    cache = ExactCache(1 << 30, 60.0)
    tracemalloc.start()
    try:
        for number in range(entries):
            cache.put(number.to_bytes(32), bytes([number % 256]) * 100, float(number) / entries)
        used = allocated(__file__, bounded)
    finally:
        tracemalloc.stop()
    assert len(cache) == entries
    assert used <= cache.size <= 2 * used


@dataclass
class Entry:
    """The model's entries."""

    key: bytes
    answer: bytes
    expiry: float


class AnyOrder(RuleBasedStateMachine):
    """Answers come, are asked for and expire in any order: the cache does what a list does."""

    def __init__(self) -> None:
        super().__init__()
        self.cache = ExactCache(ROOM, 10.0)
        self.entries: Sequence[Entry] = []
        self.now = 0.0

    @rule(seconds=st.integers(1, 6))
    def wait(self, seconds: int) -> None:
        """Time passes."""
        self.now += seconds

    @rule(key=st.sampled_from([b"%d" % number for number in range(12)]))
    def get(self, key: bytes) -> None:
        """An answer is asked for."""
        found = [each for each in self.entries if each.key == key and each.expiry > self.now]
        others = [each for each in self.entries if each.key != key]
        self.entries = others + found
        assert self.cache.get(key, self.now) == (found[0].answer if found else None)

    @rule(key=st.sampled_from([b"%d" % number for number in range(12)]), answer=st.binary(max_size=12))
    def put(self, key: bytes, answer: bytes) -> None:
        """An answer is kept."""
        self.cache.put(key, answer, self.now)
        entries = [each for each in self.entries if each.key != key and each.expiry > self.now]
        if OVERHEAD + len(key) + len(answer) <= ROOM // 8:
            entries.append(Entry(key, answer, self.now + 10.0))
        while size(entries) > ROOM:
            del entries[0]
        self.entries = entries

    @invariant()
    def holds_the_same(self) -> None:
        """As many entries, of as many bytes, within the bound."""
        assert len(self.cache) == len(self.entries)
        assert self.cache.size == size(self.entries) <= ROOM


def size(entries: Sequence[Entry]) -> int:
    """The bytes of some entries."""
    return sum(OVERHEAD + len(each.key) + len(each.answer) for each in entries)


TestAnyOrder = AnyOrder.TestCase
TestAnyOrder.settings = settings(max_examples=sized(40, nightly=400), stateful_step_count=40)
