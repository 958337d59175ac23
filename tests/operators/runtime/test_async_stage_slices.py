"""Divided requests in a real dataflow: parts in several calls, merged in order, or given up as a whole."""

import asyncio
import logging
import math
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from operators.runtime.dispatcher import BatchKey, Bounds, Load
from operators.runtime.stage import async_stage
from schemas.errors import BackendBadResponse, BackendError, BackendTimeout, BackendUnavailable, DeadlinePassed
from tests.operators.runtime.batching.test_backlog import Slices
from tests.operators.runtime.flowing import Asking, items
from tests.operators.runtime.test_async_stage import looping

LANE = "a"
UNITS = "abcdefghijklmnopqrstuvwxyz"


@dataclass(frozen=True)
class Item:
    """An item: its units are the letters of `text`, its deadline is on the monotonic clock."""

    text: str
    deadline: float = math.inf
    answered: bool = False


@dataclass
class Backend:
    """Says letters in capitals. A call takes as many seconds as its slowest letter, and what it met is kept in order.

    A part with a letter of `wrong` is an error by itself; a call with one of `broken` fails, and with one of `defects`
    it raises what it shouldn't.
    """

    seconds: Mapping[str, float] = field(default_factory=dict)
    wrong: str = ""
    broken: str = ""
    defects: str = ""
    log: list[tuple[str, list[str]]] = field(default_factory=list)

    async def __call__(self, batch_key: BatchKey, parts: Sequence[str], timeout: float) -> list[str | BackendError]:
        """One call."""
        letters = "".join(parts)
        self.log.append(("called", list(parts)))
        try:
            await asyncio.sleep(max(self.seconds.get(letter, 0.0) for letter in letters))
        except asyncio.CancelledError:
            self.log.append(("cancelled", list(parts)))
            raise
        if set(letters) & set(self.broken):
            raise BackendUnavailable("broken")
        if set(letters) & set(self.defects):
            raise KeyError("a defect")
        self.log.append(("answered", list(parts)))
        return [BackendBadResponse(part) if set(part) & set(self.wrong) else part.upper() for part in parts]

    def of(self, what: str) -> list[list[str]]:
        """The calls of which that is known."""
        return [parts for said, parts in self.log if said == what]


@dataclass
class Reports:
    """The calls in flight, whenever their number changed, and what each call carried."""

    counts: list[float] = field(default_factory=list)
    carried: list[float] = field(default_factory=list)
    waited: list[float] = field(default_factory=list)

    @property
    def load(self) -> Load:
        """The callbacks that note it."""
        return Load(self.carried.append, self.waited.append, self.counts.append)

    def most(self) -> float:
        """The most calls at once; each change was told, and all calls have ended."""
        counts = [0, *self.counts]
        assert {abs(after - before) for before, after in pairwise(counts)} <= {1}
        assert counts[-1] == 0
        return max(counts)


def ran(
    batches: Iterable[list[Item]],
    backend: Backend,
    size: int,
    max_concurrency: int = 8,
    *,
    timeout: float = 60.0,
    reports: Reports | None = None,
    least: int | None = None,
) -> dict[str, Any]:
    """Run a flow over the batches, whose calls take `size` letters: what became of each item, which left once.

    `least`: how few letters are an outcome; None: all of them alone.
    """
    seen: list[str] = []

    def noted() -> Iterator[list[Item]]:
        for batch in batches:
            seen.extend(item.text for item in batch)
            yield batch

    with looping() as calls:
        asking = Asking(
            lambda item: (LANE, item.text),
            backend,
            Bounds(timeout, 1, max_concurrency),
            lambda item: item.deadline,
            policy=Slices(size, least=least),
            load=reports.load if reports is not None else None,
        )
        finished = items(noted(), lambda up: async_stage("asking", up, asking, calls))
    assert sorted(each.item.text for each in finished) == sorted(seen)
    return {each.item.text: each.outcome for each in finished}


def test_parts_are_merged_in_their_order() -> None:
    """A request of several calls leaves once with all its units in order, though the last was answered first."""
    backend = Backend({"a": 0.1, "c": 0.05})
    assert ran([[Item("abcdef")]], backend, 2) == {"abcdef": "ABCDEF"}
    assert backend.of("answered") == [["ef"], ["cd"], ["ab"]]


def test_calls_are_full() -> None:
    """A call takes the rest of one request and the beginning of the next, and each gets back its own."""
    backend = Backend()
    texts = ["abcdef", "ghi", "jk"]
    assert ran([[Item(text) for text in texts]], backend, 4) == {text: text.upper() for text in texts}
    assert backend.of("called") == [["abcd"], ["ef", "gh"], ["i", "jk"]]


def test_a_request_without_units_needs_no_call() -> None:
    """It leaves with what nothing merges to, while its neighbours are asked for."""
    backend = Backend()
    assert ran([[Item(""), Item("ab")]], backend, 4) == {"": "", "ab": "AB"}
    assert ran([[Item("")]], backend, 4) == {"": ""}
    assert backend.of("called") == [["ab"]]


@pytest.mark.parametrize("fault", ["wrong", "broken", "defects"])
def test_a_failed_part_fails_its_request_at_once(fault: str, caplog: pytest.LogCaptureFixture) -> None:
    """Its other calls, in which nobody else waits, are cancelled then and there: the next request, which takes a while,
    is answered after that.
    """
    caplog.set_level(logging.CRITICAL)
    backend = Backend({"a": 60, "e": 60, "x": 0.2})
    setattr(backend, fault, "c")
    outcomes = ran([[Item("abcdef")], [Item("x")]], backend, 2)
    assert isinstance(outcomes["abcdef"], BackendError)
    assert outcomes["x"] == "X"
    after = [parts for said, parts in backend.log if said != "called" and parts != ["cd"]]
    assert sorted(after[:2]) == [["ab"], ["ef"]]
    assert sorted(backend.of("cancelled")) == [["ab"], ["ef"]]


def test_what_is_left_of_a_failed_request_is_not_sent() -> None:
    """Of one slot: after the part that failed comes the next request."""
    backend = Backend(wrong="b")
    outcomes = ran([[Item("abcdef"), Item("xy")]], backend, 2, 1)
    assert isinstance(outcomes["abcdef"], BackendBadResponse)
    assert outcomes["xy"] == "XY"
    assert backend.of("called") == [["ab"], ["xy"]]


def test_a_call_in_which_another_waits_goes_on() -> None:
    """A request fails by one part, and its other part's call, which has a neighbour's units, is answered."""
    backend = Backend({"e": 0.1}, wrong="a")
    outcomes = ran([[Item("abcdef"), Item("xyz")]], backend, 4)
    assert isinstance(outcomes["abcdef"], BackendBadResponse)
    assert outcomes["xyz"] == "XYZ"
    assert backend.of("cancelled") == []


def test_the_earliest_deadline_goes_first() -> None:
    """Three that wait for one slot take it in the order of their deadlines."""
    backend, now = Backend({"x": 0.1}), time.monotonic()
    waiting = [Item("c", now + 900), Item("a", now + 300), Item("b", now + 600)]
    ran([[Item("x")], waiting], backend, 1, 1, timeout=1000)
    assert [called for called in backend.of("called") if called != ["x"]] == [["a"], ["b"], ["c"]]


def turns(until: Callable[[], object]) -> Iterator[list[Item]]:
    """Empty batches until something holds: when a source blocks, the engine then leaves it alone for as long."""
    while not until():
        time.sleep(0.05)
        yield []


@pytest.mark.slow
def test_what_can_not_make_it_is_given_up_at_once() -> None:
    """While the backend is busy, and the quickest call took longer than what is left: not asked, and not waited for.
    The answer blames the query's own deadline or the stage's time-out, whichever binds.
    """
    backend = Backend({"a": 3.0, "b": 60})

    def batches() -> Iterator[list[Item]]:
        yield [Item("a")]
        yield from turns(lambda: backend.of("answered"))
        yield [Item("b")]
        yield from turns(lambda: ["b"] in backend.of("called"))
        asked = time.monotonic()
        yield [Item("hurried", asked + 2.5), Item("patient")]
        # Whatever comes has the backlog looked through: for three seconds it finds one with too little time left.
        yield from ([Item("")] for _ in turns(lambda: time.monotonic() > asked + 6.5))

    outcomes = ran(batches(), backend, 8, 1, timeout=6.0)
    assert outcomes["a"] == "A"
    assert type(outcomes["hurried"]) is DeadlinePassed
    assert type(outcomes["patient"]) is type(outcomes["b"]) is BackendTimeout
    told = [str(outcomes[name]).split(":")[0] for name in ("hurried", "patient", "b")]
    assert told == ["not asked", "not asked", "no answer before the deadline"]
    assert backend.of("called") == [["a"], ["b"]]


LETTERS = [letter for letter in map(chr, range(0x61, 0x600)) if letter.islower() and letter.upper().lower() == letter]
fates = st.sampled_from(["", "", "", "", "", "wrong", "broken", "defects", "slow"])


@settings(max_examples=60)
@given(
    st.lists(st.lists(st.tuples(st.integers(0, 8), st.booleans(), fates), max_size=4), max_size=4),
    st.integers(1, 6),
    st.integers(0, 3),
)
def test_whatever_comes_has_its_own_units(
    batches: list[list[tuple[int, bool, str]]], size: int, max_concurrency: int
) -> None:
    """Random sizes, deadlines and fates: an item leaves once, with all its own units and no other's, or with an error
    that it or a neighbour in one of its calls met; every call is within its bounds, and all of them end.
    """
    letters, backend, reports = iter(LETTERS), Backend(), Reports()
    seconds: dict[str, float] = {}
    flowing: list[list[Item]] = []
    for batch in batches:
        flowing.append([])
        for units, hurried, fate in batch:
            text = "".join(next(letters) for _ in range(units))
            flowing[-1].append(Item(text, time.monotonic() + 0.01 if hurried else math.inf))
            if fate == "slow":
                seconds |= dict.fromkeys(text[:1], 0.02)
            elif fate:
                setattr(backend, fate, getattr(backend, fate) + text[-1:])
    backend.seconds = seconds
    outcomes = ran(flowing, backend, size, max_concurrency, reports=reports)
    called = backend.of("called")
    for item in (item for batch in flowing for item in batch):
        outcome = outcomes[item.text]
        shared = {letter for parts in called for letter in "".join(parts) if any(part in item.text for part in parts)}
        if isinstance(outcome, BackendTimeout):
            assert item.deadline < math.inf
        elif isinstance(outcome, BackendError):
            assert set(item.text) & set(backend.wrong + backend.defects) or shared & set(backend.broken)
        else:
            assert outcome == item.text.upper()
    # After a call with a defect, each of its parts is asked alone.
    first = [parts for parts in called if len(parts) == 1 or not set("".join(parts)) & set(backend.defects)]
    sent = "".join(letter for parts in first for part in parts for letter in part)
    assert len(set(sent)) == len(sent)
    assert all(len("".join(parts)) <= size for parts in called)
    assert reports.most() <= (max_concurrency or len(called))
