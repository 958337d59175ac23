"""The payload cache: what is known of a point that was seen, however an indexer writes meanwhile."""

import tracemalloc
from collections.abc import Sequence
from typing import Any, NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, precondition, rule

from operators.caching import bounded
from operators.caching.bounded import PAYLOAD_TTL, Making, PayloadCache, Seen
from schemas.document import CONTENT
from tests.tiers import sized

MIB = 1024 * 1024
DOCUMENTS = ("documents", 0)
DOCUMENT = {"text": "a harbor lantern", CONTENT: 7}


def kept() -> PayloadCache:
    """A cache with one payload, of a point seen in version 3."""
    cache = PayloadCache(MIB)
    cache.add(DOCUMENTS, [("a", 3, 7)], {"a": DOCUMENT}, 0.0)
    return cache


@pytest.mark.parametrize(
    ("collection", "seen", "now"),
    [
        (("others", 0), ("a", 3, 7), 1.0),
        (("documents", 1), ("a", 3, 7), 1.0),
        (DOCUMENTS, ("b", 3, 7), 1.0),
        (DOCUMENTS, ("a", 4, 7), 1.0),
        (DOCUMENTS, ("a", 2, 7), 1.0),
        (DOCUMENTS, ("a", None, 7), 1.0),
        (DOCUMENTS, ("a", 3, 8), 1.0),
        (DOCUMENTS, ("a", 3, 7), PAYLOAD_TTL),
    ],
    ids=["collection", "making", "point", "later version", "earlier version", "no version", "content", "too old"],
)
def test_a_payload_is_of_what_was_seen(collection: Making, seen: Seen, now: float) -> None:
    """Another collection, making, point, version or content has no payload, and nothing has when its time is over."""
    cache = kept()
    assert cache.known(DOCUMENTS, [("a", 3, 7)], 1.0) == {"a": DOCUMENT}
    assert cache.known(collection, [seen], now) == {}


def test_a_search_that_read_no_fingerprint_goes_by_the_version() -> None:
    """Recipes that don't compare contents find the payload, too."""
    assert kept().known(DOCUMENTS, [("a", 3, None)], 1.0) == {"a": DOCUMENT}


@pytest.mark.parametrize("seen", [("a", 3, 8), ("a", None, 7)], ids=["another content", "no version"])
def test_what_is_not_as_it_was_seen_is_not_kept(seen: Seen) -> None:
    """A replica that lags behind, or a point that changed meanwhile, would be served to those who saw better."""
    cache = PayloadCache(MIB)
    cache.add(DOCUMENTS, [seen], {"a": DOCUMENT}, 0.0)
    assert len(cache) == 0


def test_what_was_kept_again_is_there_once() -> None:
    """A point's later payload takes the place of its earlier one, and its room."""
    cache = kept()
    before = cache.size
    cache.add(DOCUMENTS, [("a", 4, 7)], {"a": DOCUMENT}, 5.0)
    assert (len(cache), cache.size) == (1, before)
    assert cache.known(DOCUMENTS, [("a", 3, 7), ("a", 4, 7)], 6.0) == {"a": DOCUMENT}


def test_the_longest_unused_leave_first() -> None:
    """An entry that is asked for stays."""
    cache = PayloadCache(8 * 1024)
    known = []
    for number in range(50):
        cache.add(DOCUMENTS, [(str(number), 1, None)], {str(number): {"text": "x" * 500}}, 0.0)
        known.append(cache.known(DOCUMENTS, [("0", 1, None)], 0.0))
    assert all(known)
    assert len(cache) < 10
    assert cache.known(DOCUMENTS, [("1", 1, None), ("49", 1, None)], 0.0).keys() == {"49"}


@settings(max_examples=15, deadline=None)
@given(st.lists(st.sampled_from(["short", "x" * 900, "lantern " * 200]), min_size=1, max_size=6), st.integers(1, 20))
def test_it_takes_no_more_than_its_bound(texts: Sequence[str], fields: int) -> None:
    """Of any payloads, Python's own needs for them included."""
    bound = MIB // 4
    tracemalloc.start()
    try:
        cache = PayloadCache(bound)
        files = (__file__, bounded.__file__)
        ours = [tracemalloc.Filter(inclusive=True, filename_pattern=name) for name in files]
        before = tracemalloc.take_snapshot().filter_traces(ours)
        for number in range(600):
            text = f"{number} {texts[number % len(texts)]}"
            payload: dict[str, Any] = {
                "text": text,
                "list": [text[::2], number],
                **{f"f{at}": number for at in range(fields)},
            }
            cache.add(DOCUMENTS, [(f"point {number}", number, None)], {f"point {number}": payload}, 0.0)
        after = tracemalloc.take_snapshot().filter_traces(ours)
    finally:
        tracemalloc.stop()
    grown = sum(each.size_diff for each in after.compare_to(before, "filename"))
    assert cache.size <= bound
    # The table of an ordered dictionary grows by doubling.
    assert grown <= 1.25 * bound


class _Search(NamedTuple):
    """A search under way: the points as it saw them."""

    seen: dict[str, Seen]


class Racing(RuleBasedStateMachine):
    """Searches, fetches and an indexer, in any order. One server: every write gives its point the next version."""

    def __init__(self) -> None:
        super().__init__()
        self.cache = PayloadCache(4096)
        self.versions = 0
        self.points: dict[str, tuple[int, dict[str, Any]]] = {}
        self.searches: list[_Search] = []
        self.now = 0.0

    @rule(id_=st.sampled_from("abc"), content=st.integers(0, 2), stamp=st.integers())
    def write(self, id_: str, content: int, stamp: int) -> None:
        """A document is indexed, its text changed or not."""
        self.versions += 1
        self.points[id_] = self.versions, {CONTENT: content, "stamp": stamp, "written": self.versions}

    @rule(id_=st.sampled_from("abc"))
    def delete(self, id_: str) -> None:
        """A document is gone."""
        self.points.pop(id_, None)

    @rule(reads=st.booleans())
    def search(self, *, reads: bool) -> None:
        """A cached payload is seen, by a recipe that reads fingerprints or by another."""
        self.searches.append(
            _Search(
                {
                    id_: (id_, version, payload[CONTENT] if reads else None)
                    for id_, (version, payload) in self.points.items()
                }
            )
        )

    @precondition(lambda self: self.searches)
    @rule(which=st.integers(0, 1000), later=st.floats(0, 30))
    def fetch(self, which: int, later: float) -> None:
        """A search goes on: nothing that it knows is older than what it saw; what it doesn't know it fetches."""
        self.now += later
        seen = self.searches.pop(which % len(self.searches)).seen
        known = self.cache.known(DOCUMENTS, seen.values(), self.now)
        for id_, payload in known.items():
            # To the bit: with one server, a version has one payload.
            assert payload["written"] >= (seen[id_][1] or 0)
            assert seen[id_][2] in (None, payload[CONTENT])
        missing = [each for id_, each in seen.items() if id_ not in known]
        self.cache.add(
            DOCUMENTS,
            missing,
            {id_: self.points[id_][1] for id_, _, _ in missing if id_ in self.points},
            self.now,
        )


TestRacing = Racing.TestCase
TestRacing.settings = settings(max_examples=sized(80, nightly=1000), stateful_step_count=40, deadline=None)
