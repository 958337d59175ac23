"""The backlog by itself: who goes first, what a call holds, and what is never sent."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from operators.runtime.batching.backlog import Backlog, PendingRequest, Slice
from operators.runtime.batching.call_times import LATEST_CALLS
from operators.runtime.batching.policy import BatchingPolicy, Waiting, Whole
from schemas.errors import BackendError, BackendUnavailable

One = PendingRequest[str, str]
LOST = BackendUnavailable("down")


@dataclass(frozen=True)
class Slices(BatchingPolicy[str, str]):
    """A gathering of strings, whose units are their characters, at most `size` a call."""

    size: int
    divides: bool = True
    least: int | None = None

    def tenant(self, query: str) -> str:
        """Its first character."""
        return query[:1]

    def units(self, query: str) -> int:
        """Its characters."""
        return len(query)

    def select(self, waiting: Iterable[Waiting[str]]) -> Sequence[int]:
        """As many as fit, in order."""
        counts, left = [], self.size
        for each in waiting:
            counts.append(min(left, each.stop - each.taken))
            left -= counts[-1]
            if not left:
                break
        return counts

    def part(self, query: str, start: int, stop: int) -> str:
        """Those characters."""
        return query[start:stop]

    def combine(self, query: str, outcomes: Sequence[str]) -> str:
        """All of them."""
        return "".join(outcomes)

    def partial(self, query: str, units: int, outcomes: Sequence[str], lost: BackendError) -> str | None:
        """Those that there are, and the reason for the others; None if there are none."""
        return f"{''.join(outcomes)} {lost.reason}" if outcomes else None


def whole(max_batch: int = 64, max_concurrency: int = 1) -> Backlog[str, str]:
    """A backlog of requests that aren't divided."""
    return Backlog(Whole(max_batch), max_concurrency)


def request(name: str, deadline: float = math.inf, units: int = 1) -> One:
    """A request by name."""
    return PendingRequest(name, deadline, units)


def names(slices: Sequence[Slice[str, str]]) -> list[str]:
    """The tenants whose units a call holds."""
    return [slice_.request.query for slice_ in slices]


def test_the_earliest_deadline_goes_first() -> None:
    """Whatever came first: the call takes the most urgent ones, equals in the order of their coming."""
    backlog = whole(max_batch=3)
    for name, deadline in [("a", 5.0), ("b", 1.0), ("c", 5.0), ("d", 3.0)]:
        backlog.put(request(name, deadline))
    assert names(backlog.take(0.0)) == ["b", "d", "a"]


def test_an_idle_backend_is_called_at_once_and_a_busy_one_gathers() -> None:
    """The first request goes alone; what comes while its call is under way goes together when it has ended."""
    backlog = whole()
    backlog.put(request("a"))
    assert names(backlog.take(0.0)) == ["a"]
    for name in "bcd":
        backlog.put(request(name))
        assert backlog.take(0.0) == []
    backlog.on_call_end(1, 0.1)
    assert names(backlog.take(0.0)) == ["b", "c", "d"]


@pytest.mark.parametrize(("most", "calls"), [(1, 1), (3, 3), (0, 8), (-1, 8)])
def test_calls_under_way_are_bounded(most: int, calls: int) -> None:
    """As many as `max_concurrency`, and any number at 0 or less."""
    backlog = whole(1, most)
    for number in range(8):
        backlog.put(request(str(number)))
    assert sum(1 for _ in iter(lambda: backlog.take(0.0), [])) == backlog.in_flight == calls


def test_a_request_is_spread_over_calls() -> None:
    """Calls are full: one takes the rest of a request and the beginning of the next; each unit is in one call."""
    backlog = Backlog[str, str](Slices(4), 0)
    first, second = request("abcdef", 1.0, 6), request("xyz", 2.0, 3)
    backlog.put(second)
    backlog.put(first)
    calls = [
        [(each.request.query, each.start, each.stop) for each in slices]
        for slices in iter(lambda: backlog.take(0.0), [])
    ]
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
    assert len(backlog.take(0.0)) == 1
    backlog.truncate(divided, 0, LOST)
    backlog.truncate(divided, 0, LOST)
    assert backlog.take(0.0) == []


def test_past_deadlines_are_hopeless() -> None:
    """They are told, and once they are cut the others stay."""
    backlog = whole()
    late, early = request("late", 1.0), request("early", 1.1)
    backlog.put(late)
    backlog.put(early)
    assert backlog.expired(1.0) == [late]
    backlog.truncate(late, 0, LOST)
    assert names(backlog.take(0.0)) == ["early"]


def test_what_the_quickest_call_would_be_too_slow_for_is_hopeless() -> None:
    """While the backend is busy: of the latest calls the quickest took .2 s, so what has less left can't make it."""
    backlog = whole(1)
    for took in (0.5, 0.2, 0.9):
        backlog.put(request("before"))
        backlog.take(0.0)
        backlog.on_call_end(1, took)
    backlog.put(request("under way"))
    backlog.take(0.0)
    short, long = request("short", 10.2), request("long", 10.21)
    backlog.put(short)
    backlog.put(long)
    assert backlog.expired(10.0) == [short]


def test_an_idle_backend_may_have_become_quicker() -> None:
    """It is asked although the latest calls took longer than what is left."""
    backlog = whole()
    backlog.put(request("slow"))
    backlog.take(0.0)
    backlog.on_call_end(1, 5.0)
    backlog.put(request("short", 11.0))
    assert backlog.expired(10.0) == []
    assert names(backlog.take(0.0)) == ["short"]


def test_what_was_quick_long_ago_is_forgotten() -> None:
    """Only the latest calls count."""
    backlog = whole(1)
    for took in (0.1, *[2.0] * LATEST_CALLS):
        backlog.put(request("before"))
        backlog.take(0.0)
        backlog.on_call_end(1, took)
    backlog.put(request("under way"))
    backlog.take(0.0)
    hopeless = request("hopeless", 11.0)
    backlog.put(hopeless)
    assert backlog.expired(10.0) == [hopeless]


def test_a_failed_call_says_nothing_of_speed() -> None:
    """A call without answers doesn't count among the latest."""
    backlog = whole(1)
    backlog.put(request("refused"))
    backlog.take(0.0)
    backlog.on_call_end(1, None)
    backlog.put(request("under way"))
    backlog.take(0.0)
    backlog.put(request("short", 10.01))
    assert backlog.expired(10.0) == []


class AnyOrder(RuleBasedStateMachine):
    """Requests come, calls are made and end in any order: every unit is in one call, unless it was given up or cut."""

    def __init__(self) -> None:
        super().__init__()
        self.backlog = Backlog[str, str](Slices(5), 2)
        self.requests: list[One] = []
        self.given_up: set[int] = set()
        self.calls: list[list[Slice[str, str]]] = []
        self.sent: dict[int, list[tuple[int, int]]] = {}
        self.now = 0.0
        self.shortens = False

    @initialize(least=st.none() | st.integers(1, 3))
    def begin(self, least: int | None) -> None:
        """The backlog shortens requests, or it does not."""
        self.shortens = least is not None
        self.backlog = Backlog[str, str](Slices(5, least=least), 2)

    @rule(units=st.integers(1, 12), timeout=st.integers(1, 20), tenant=st.sampled_from("xy"))
    def come(self, units: int, timeout: int, tenant: str) -> None:
        """A request comes."""
        self.requests.append(PendingRequest(tenant * units, self.now + timeout, units, tenant))
        self.backlog.put(self.requests[-1])

    @rule()
    def call(self) -> None:
        """A call is made, if one may be."""
        for late in self.backlog.expired(self.now):
            self.backlog.truncate(late, 0, LOST)
            self.given_up.add(id(late))
        waiting = [each for each in self.requests if each.taken < each.units]
        busy = len(self.calls)
        slices = self.backlog.take(self.now)
        assert bool(slices) == (bool(waiting) and busy < 2)
        if slices:
            self.calls.append(slices)
            assert sum(each.stop - each.start for each in slices) <= 5
            tenants = {each.tenant for each in waiting}
            if not self.shortens and len(tenants) < 2:
                assert slices[0].request.deadline == min(each.deadline for each in waiting)
        for each in slices:
            assert id(each.request) not in self.given_up
            self.sent.setdefault(id(each.request), []).append((each.start, each.stop))

    @precondition(lambda self: self.calls)
    @rule(data=st.data(), fails=st.booleans(), took=st.integers(1, 20))
    def end(self, data: st.DataObject, fails: bool, took: int) -> None:
        """A call ends."""
        slices = self.calls.pop(data.draw(st.integers(0, len(self.calls) - 1)))
        self.backlog.on_call_end(sum(each.stop - each.start for each in slices), None if fails else took / 4)
        for each in slices:
            if fails:
                self.backlog.truncate(each.request, 0, LOST)
                self.given_up.add(id(each.request))
            else:
                each.request.answer(each, each.request.query[each.start : each.stop])

    @rule(seconds=st.integers(1, 5))
    def wait(self, seconds: int) -> None:
        """Time passes."""
        self.now += seconds

    @invariant()
    def each_unit_is_in_one_call(self) -> None:
        """In order and without a gap; nothing is complete that has units elsewhere; only who shortens cuts."""
        for each in self.requests:
            sent = self.sent.get(id(each), [])
            assert [start for start, _ in sent] == [0, *(stop for _, stop in sent)][: len(sent)]
            if id(each) in self.given_up:
                continue
            assert each.taken == (sent[-1][1] if sent else 0)
            assert each.whole or self.shortens
            if each.complete:
                assert sent[-1][1] == each.units

    @invariant()
    def calls_and_what_waits_are_counted(self) -> None:
        """As many as are under way, and the units that no call has and nobody gave up."""
        assert self.backlog.in_flight == len(self.calls)
        waiting = (each for each in self.requests if id(each) not in self.given_up)
        assert self.backlog.waiting == sum(each.units - each.taken for each in waiting)


TestAnyOrder = AnyOrder.TestCase
TestAnyOrder.settings = settings(max_examples=60, stateful_step_count=30)
