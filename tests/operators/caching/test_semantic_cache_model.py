"""The semantic cache against a list that is searched from its end."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from operators.caching.semantic_cache import SemanticCache, entry_size, scope_size
from tests.operators.caching.likenesses import toward

TTL = 10.0
SCOPES = st.sampled_from([b"a", b"b", b"c"])
VECTORS = st.lists(st.integers(-3, 3).map(float), min_size=2, max_size=3).filter(any)
WORDS = st.sampled_from(["", "x", "y"])
ANSWERS = st.binary(max_size=300)

Vector = Sequence[float]


@dataclass
class Entry:
    """The model's entries."""

    scope: bytes
    vector: Vector
    words: str
    answer: bytes
    expiry: float


def dot(one: Vector, other: Vector) -> Fraction:
    """Exactly."""
    return sum((Fraction(x) * Fraction(y) for x, y in zip(one, other, strict=True)), Fraction())


def cosine(one: Vector, other: Vector) -> float:
    """As near as a float gets."""
    return float(dot(one, other)) / math.sqrt(dot(one, one) * dot(other, other))


def one_direction(one: Vector, other: Vector) -> bool:
    """True if one is the other, lengthened or shortened."""
    return dot(one, other) > 0 and dot(one, other) ** 2 == dot(one, one) * dot(other, other)


def size(entries: Sequence[Entry]) -> int:
    """The bytes that some entries are charged."""
    places = {(each.scope, len(each.vector)) for each in entries}
    each_scope = sum(scope_size(length) for _, length in places)
    return each_scope + sum(entry_size(len(each.vector), each.answer) for each in entries)


class AnyOrder(RuleBasedStateMachine):
    """Answers come, are asked for and expire in any order: the cache does what a list does."""

    def __init__(self) -> None:
        super().__init__()
        self.entries: list[Entry] = []
        self.now = 0.0

    @initialize(
        room=st.integers(8_000, 20_000), threshold=st.sampled_from([-1.0, 0.0, 0.7, 0.92, 1.0]), most=st.integers(0, 6)
    )
    def begin(self, room: int, threshold: float, most: int) -> None:
        """The cache is empty."""
        self.room, self.threshold, self.most = room, threshold, most
        self.cache = SemanticCache(room, TTL, threshold, most)

    @rule(seconds=st.integers(1, 6))
    def wait(self, seconds: int) -> None:
        """Time passes."""
        self.now += seconds

    @rule(scope=SCOPES, vector=VECTORS, words=WORDS)
    def ask(self, scope: bytes, vector: Vector, words: str) -> None:
        """An answer is asked for; a cosine at the threshold may be rounded to either side."""
        allowed: list[bytes | None] = []
        for each in reversed(self._at(scope, vector)):
            near = cosine(each.vector, vector)
            if each.expiry > self.now and each.words == words and near >= self.threshold - 1e-6:
                allowed.append(each.answer)
                if near >= self.threshold:
                    break
        else:
            allowed.append(None)
        assert self.cache.nearest(scope, toward(vector, words), self.now) in allowed

    @rule(scope=SCOPES, vector=VECTORS, words=WORDS, answer=ANSWERS)
    def put(self, scope: bytes, vector: Vector, words: str, answer: bytes) -> None:
        """An answer is kept."""
        self.cache.put(scope, toward(vector, words), answer, self.now)
        self.entries = [each for each in self.entries if each.expiry > self.now]
        same = [each for each in self._at(scope, vector) if each.words == words and one_direction(each.vector, vector)]
        self.entries = [each for each in self.entries if each not in same]
        new = Entry(scope, vector, words, answer, self.now + TTL)
        if size([new]) > self.room // 8:
            return
        self.entries.append(new)
        place = self._at(scope, vector)
        if len(place) > self.most:
            self.entries.remove(place[0])
        while size(self.entries) > self.room:
            del self.entries[0]

    def _at(self, scope: bytes, vector: Vector) -> list[Entry]:
        return [each for each in self.entries if each.scope == scope and len(each.vector) == len(vector)]

    @invariant()
    def holds_the_same(self) -> None:
        """As many entries, of as many bytes, within the bound, in the order that they came in."""
        assert len(self.cache) == len(self.entries)
        assert self.cache.bytes == size(self.entries) <= self.room
        assert all(one.expiry <= other.expiry for one, other in pairwise(self.entries))


TestAnyOrder = AnyOrder.TestCase
TestAnyOrder.settings = settings(max_examples=40, stateful_step_count=30)
