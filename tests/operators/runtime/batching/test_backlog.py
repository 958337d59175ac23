"""The backlog by itself: who goes first, what a call holds, and what is never sent."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from operators.runtime.batching.backlog import LATEST_CALLS, Backlog, Request, Slice
from operators.runtime.batching.policy import Waiting, Whole

One = Request[str, str]


@dataclass(frozen=True)
class Slices:
    """A gathering of strings, whose units are their characters, at most `size` a call."""

    size: int

    def units(self, query: str) -> int:
        """Its characters."""
        return len(query)

    def select(self, waiting: Iterable[Waiting[str]]) -> Sequence[int]:
        """As many as fit, in order."""
        counts, left = [], self.size
        for each in waiting:
            counts.append(min(left, len(each.query) - each.taken))
            left -= counts[-1]
            if not left:
                break
        return counts

    def part(self, query: str, start: int, stop: int) -> str:
        """Those characters."""
        return query[start:stop]

    def merged(self, query: str, outcomes: Sequence[str]) -> str:
        """All of them."""
        return "".join(outcomes)


def whole(max_batch: int = 64, max_concurrency: int = 1) -> Backlog[str, str]:
    """A backlog of requests that aren't divided."""
    return Backlog(Whole(max_batch), max_concurrency)


def request(name: str, deadline: float = math.inf, units: int = 1) -> One:
    """A request by name."""
    return Request(name, deadline, units)


def names(slices: Sequence[Slice[str, str]]) -> list[str]:
    """Whose units a call holds."""
    return [slice_.request.query for slice_ in slices]


def test_the_earliest_deadline_goes_first() -> None:
    """Whatever came first: the call takes the most urgent ones, equals in the order of their coming."""
    backlog = whole(max_batch=3)
    for name, deadline in [("a", 5.0), ("b", 1.0), ("c", 5.0), ("d", 3.0)]:
        backlog.put(request(name, deadline))
    assert names(backlog.take()) == ["b", "d", "a"]


def test_an_idle_backend_is_called_at_once_and_a_busy_one_gathers() -> None:
    """The first request goes alone; what comes while its call is under way goes together when it has ended."""
    backlog = whole()
    backlog.put(request("a"))
    assert names(backlog.take()) == ["a"]
    for name in "bcd":
        backlog.put(request(name))
        assert backlog.take() == []
    backlog.freed(0.1)
    assert names(backlog.take()) == ["b", "c", "d"]


@pytest.mark.parametrize(("most", "calls"), [(1, 1), (3, 3), (0, 8), (-1, 8)])
def test_calls_under_way_are_bounded(most: int, calls: int) -> None:
    """As many as `max_concurrency`, and any number at 0 or less."""
    backlog = whole(1, most)
    for number in range(8):
        backlog.put(request(str(number)))
    assert sum(1 for _ in iter(backlog.take, [])) == backlog.in_flight == calls


def test_a_request_is_spread_over_calls() -> None:
    """Calls are full: one takes the rest of a request and the beginning of the next; each unit is in one call."""
    backlog = Backlog[str, str](Slices(4), 0)
    first, second = request("abcdef", 1.0, 6), request("xyz", 2.0, 3)
    backlog.put(second)
    backlog.put(first)
    calls = [[(each.request.query, each.start, each.stop) for each in slices] for slices in iter(backlog.take, [])]
    assert calls == [[("abcdef", 0, 4)], [("abcdef", 4, 6), ("xyz", 0, 2)], [("xyz", 2, 3)]]


def test_a_request_is_complete_with_its_last_unit() -> None:
    """In whatever order its parts are answered."""
    divided = request("abcdef", units=6)
    divided.answer(Slice(divided, 4, 6), "ef")
    assert not divided.complete
    divided.answer(Slice(divided, 0, 4), "abcd")
    assert divided.complete


def test_what_is_withdrawn_is_not_sent() -> None:
    """Nor is the rest of a request of which some units are in a call."""
    backlog = Backlog[str, str](Slices(2), 0)
    divided = request("abcd", units=4)
    backlog.put(divided)
    assert len(backlog.take()) == 1
    backlog.withdraw(divided)
    backlog.withdraw(divided)
    assert backlog.take() == []


def test_past_deadlines_are_hopeless() -> None:
    """They leave the backlog, the others stay."""
    backlog = whole()
    late, early = request("late", 1.0), request("early", 1.1)
    backlog.put(late)
    backlog.put(early)
    assert backlog.hopeless(1.0) == [late]
    assert names(backlog.take()) == ["early"]


def test_what_the_quickest_call_would_be_too_slow_for_is_hopeless() -> None:
    """While the backend is busy: of the latest calls the quickest took .2 s, so what has less left can't make it."""
    backlog = whole(1)
    for took in (0.5, 0.2, 0.9):
        backlog.put(request("before"))
        backlog.take()
        backlog.freed(took)
    backlog.put(request("under way"))
    backlog.take()
    short, long = request("short", 10.2), request("long", 10.21)
    backlog.put(short)
    backlog.put(long)
    assert backlog.hopeless(10.0) == [short]


def test_an_idle_backend_may_have_become_quicker() -> None:
    """It is asked although the latest calls took longer than what is left."""
    backlog = whole()
    backlog.put(request("slow"))
    backlog.take()
    backlog.freed(5.0)
    backlog.put(request("short", 11.0))
    assert backlog.hopeless(10.0) == []
    assert names(backlog.take()) == ["short"]


def test_what_was_quick_long_ago_is_forgotten() -> None:
    """Only the latest calls count."""
    backlog = whole(1)
    for took in (0.1, *[2.0] * LATEST_CALLS):
        backlog.put(request("before"))
        backlog.take()
        backlog.freed(took)
    backlog.put(request("under way"))
    backlog.take()
    hopeless = request("hopeless", 11.0)
    backlog.put(hopeless)
    assert backlog.hopeless(10.0) == [hopeless]


def test_a_failed_call_says_nothing_of_speed() -> None:
    """A call without answers doesn't count among the latest."""
    backlog = whole(1)
    backlog.put(request("refused"))
    backlog.take()
    backlog.freed(None)
    backlog.put(request("under way"))
    backlog.take()
    backlog.put(request("short", 10.01))
    assert backlog.hopeless(10.0) == []


class AnyOrder(RuleBasedStateMachine):
    """Requests come, calls are made and end in any order: every unit is in one call, unless it was given up."""

    def __init__(self) -> None:
        super().__init__()
        self.backlog = Backlog[str, str](Slices(5), 2)
        self.requests: list[One] = []
        self.given_up: set[int] = set()
        self.calls: list[list[Slice[str, str]]] = []
        self.sent: dict[int, list[tuple[int, int]]] = {}
        self.now = 0.0

    @rule(units=st.integers(1, 12), timeout=st.integers(1, 20))
    def come(self, units: int, timeout: int) -> None:
        """A request comes."""
        self.requests.append(request("x" * units, self.now + timeout, units))
        self.backlog.put(self.requests[-1])

    @rule()
    def call(self) -> None:
        """A call is made, if one may be."""
        waiting = [each for each in self.requests if each.taken < each.units]
        busy = len(self.calls)
        slices = self.backlog.take()
        assert bool(slices) == (bool(waiting) and busy < 2)
        if slices:
            self.calls.append(slices)
            assert sum(each.stop - each.start for each in slices) <= 5
            assert slices[0].request.deadline == min(each.deadline for each in waiting)
        for each in slices:
            assert id(each.request) not in self.given_up
            self.sent.setdefault(id(each.request), []).append((each.start, each.stop))

    @precondition(lambda self: self.calls)
    @rule(data=st.data(), fails=st.booleans())
    def end(self, data: st.DataObject, fails: bool) -> None:
        """A call ends."""
        slices = self.calls.pop(data.draw(st.integers(0, len(self.calls) - 1)))
        self.backlog.freed(None if fails else 1.0)
        for each in slices:
            if fails:
                self.backlog.withdraw(each.request)
                self.given_up.add(id(each.request))
            else:
                each.request.answer(each, "x" * (each.stop - each.start))

    @rule(seconds=st.integers(1, 5))
    def wait(self, seconds: int) -> None:
        """Time passes."""
        self.now += seconds
        self.given_up |= {id(each) for each in self.backlog.hopeless(self.now)}

    @invariant()
    def each_unit_is_in_one_call(self) -> None:
        """In order and without a gap; nothing is complete that has units elsewhere."""
        for each in self.requests:
            sent = self.sent.get(id(each), [])
            assert [start for start, _ in sent] == [0, *(stop for _, stop in sent)][: len(sent)]
            if id(each) not in self.given_up:
                assert each.taken == (sent[-1][1] if sent else 0)
            if each.complete:
                assert sent[-1][1] == each.units

    @invariant()
    def calls_are_counted(self) -> None:
        """As many as are under way."""
        assert self.backlog.in_flight == len(self.calls)


TestAnyOrder = AnyOrder.TestCase
TestAnyOrder.settings = settings(max_examples=60, stateful_step_count=30)
