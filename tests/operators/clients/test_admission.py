"""The breaker and its window against a plain model: which calls begin, and the state after their ends."""

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from operators.clients.admission import LONGEST_REST, OPENS_AFTER, REST, WIDE, Breaker, Permit


def end(breaker: Breaker, permit: Permit, how: str, now: float, rest: float = 0.0) -> None:
    """End a call: as a success, a failure, throttled, or without a word."""
    if how == "succeed":
        breaker.succeed(permit)
    elif how == "fail":
        breaker.fail(permit, now, rest)
    elif how == "throttle":
        breaker.throttle(permit, now, rest)
    breaker.end(permit)


def begun(breaker: Breaker, now: float) -> Permit:
    """The permit that the breaker must give now."""
    assert not breaker.rests(now)
    assert breaker.room > 0
    return breaker.begin()


def opened(at: float = 0.0) -> Breaker:
    """A breaker that opened at `at`."""
    breaker = Breaker()
    for _ in range(OPENS_AFTER):
        end(breaker, begun(breaker, at), "fail", at)
    return breaker


class Backend(RuleBasedStateMachine):
    """Calls that begin and end in any order while time passes.

    The model knows each call under way: those that began before the last opening count for nothing.
    """

    def __init__(self) -> None:
        super().__init__()
        self.breaker = Breaker()
        self.now = 0.0
        self.stale: list[Permit] = []
        self.active: list[tuple[Permit, int]] = []
        self.narrowings = 0
        self.in_a_row = 0
        self.until: float | None = None
        self.held = 0.0
        self.window = math.inf
        self.threshold = math.inf

    def fail(self, rest: float) -> None:
        """A failure that counts."""
        self.hold(rest)
        self.in_a_row += 1
        if self.until is not None or self.in_a_row == OPENS_AFTER:
            self.until = self.now + min(max(rest, REST), LONGEST_REST)
            self.stale += [permit for permit, _ in self.active]
            self.active = []
            self.in_a_row = 0
            self.window, self.threshold = 1, math.inf

    def hold(self, rest: float) -> None:
        """The server names a time in which it wants no call."""
        if rest:
            self.held = max(self.held, self.now + min(rest, LONGEST_REST))
            self.window, self.threshold = 1, math.inf
            self.narrowings += 1

    @rule(quarters=st.integers(1, 6))
    def wait(self, quarters: int) -> None:
        """Time passes, in exact quarters of a second."""
        self.now += quarters / 4

    @rule()
    def begin(self) -> None:
        """A call begins where the model says that it may."""
        rests = self.until is not None and self.now < self.until
        assert self.breaker.rests(self.now) == rests
        assert self.breaker.pause(self.now) == max(0.0, self.held - self.now)
        assert self.breaker.room == self.window - len(self.active)
        if not rests and self.breaker.room > 0:
            self.active.append((self.breaker.begin(), self.narrowings))

    @precondition(lambda self: self.until is None and not self.active)
    @rule()
    def open(self) -> None:
        """Calls fail, one after another, until it opens: single rules seldom come that far."""
        for _ in range(OPENS_AFTER - self.in_a_row):
            end(self.breaker, begun(self.breaker, self.now), "fail", self.now)
            self.fail(0)

    @precondition(lambda self: self.active)
    @rule(
        data=st.data(),
        how=st.sampled_from(["succeed", "fail", "throttle", "nothing"]),
        rest=st.sampled_from([0, 2, 1e9]),
    )
    def end(self, data: st.DataObject, how: str, rest: float) -> None:
        """A call ends, and counts."""
        call = permit, narrowing = data.draw(st.sampled_from(self.active))
        under_way = len(self.active)
        end(self.breaker, permit, how, self.now, rest)
        self.active.remove(call)
        if how == "succeed":
            self.in_a_row, self.until = 0, None
            if narrowing == self.narrowings and self.window < math.inf:
                self.window += 1 if self.window < self.threshold else 1 / self.window
                self.window = self.window if self.window < WIDE else math.inf
        elif how == "fail" or (how == "throttle" and under_way == 1):
            self.fail(rest)
        elif how == "throttle" and rest:
            self.hold(rest)
        elif how == "throttle" and narrowing == self.narrowings:
            self.narrowings += 1
            self.window = self.threshold = max(1, min(under_way, self.window) // 2)

    @precondition(lambda self: self.stale)
    @rule(how=st.sampled_from(["succeed", "fail", "throttle", "nothing"]))
    def end_stale(self, how: str) -> None:
        """A call from before the opening ends: that changes nothing."""
        end(self.breaker, self.stale.pop(), how, self.now)

    @invariant()
    def it_is_closed_when_the_model_is(self) -> None:
        """The breaker says of itself what the model says."""
        assert self.breaker.closed == (self.until is None)


Backend.TestCase.settings = settings(max_examples=100, stateful_step_count=40)
test_the_breaker_is_the_model = Backend.TestCase


@given(st.lists(st.sampled_from(["succeed", "fail"]), max_size=60))
def test_five_failures_in_a_row_open_it(ends: list[str]) -> None:
    """Calls one after another open the breaker at the fifth failure in a row, at no other place."""
    breaker = Breaker()
    in_a_row = 0
    for how in ends:
        end(breaker, begun(breaker, 0.0), how, 0.0)
        in_a_row = in_a_row + 1 if how == "fail" else 0
        assert breaker.closed == (in_a_row < OPENS_AFTER)
        if not breaker.closed:
            break


def test_a_rest_and_then_one_call() -> None:
    """Open, the breaker rests for a quarter of a second; then it has room for one call."""
    breaker = opened(at=7.0)
    assert [breaker.rests(now) for now in (7.0, 7.125, 7.249, 7.25)] == [True, True, True, False]
    begun(breaker, 7.25)
    assert breaker.room == 0


def test_a_call_that_succeeds_closes_it() -> None:
    """After its rest a success closes it: no rest follows, and five failures in a row are needed to open it again."""
    breaker = opened()
    end(breaker, begun(breaker, 1.0), "succeed", 1.0)
    assert breaker.closed
    for _ in range(OPENS_AFTER - 1):
        end(breaker, begun(breaker, 1.0), "fail", 1.0)
    assert breaker.closed


def test_calls_double_after_an_outage() -> None:
    """Rounds of calls that succeed after an outage are of 1, 2, 4, ... calls, until nothing bounds them."""
    breaker = opened()
    rounds = []
    while breaker.room < math.inf:
        calls = [begun(breaker, 1.0) for _ in range(int(breaker.room))]
        rounds.append(len(calls))
        for permit in calls:
            end(breaker, permit, "succeed", 1.0)
    assert rounds == [1, 2, 4, 8, 16, 32]


def test_throttled_calls_halve_the_window_once_and_it_grows_by_one_a_round() -> None:
    """Of 40 calls under way 20 are throttled: 20 may go on; each round of 20 that succeeds adds about one."""
    breaker = Breaker()
    calls = [begun(breaker, 0.0) for _ in range(40)]
    for permit in calls[:20]:
        end(breaker, permit, "throttle", 0.0)
    for permit in calls[20:]:
        end(breaker, permit, "succeed", 0.0)
    assert breaker.closed
    assert breaker.room == 20
    for permit in [begun(breaker, 0.0) for _ in range(20)]:
        end(breaker, permit, "succeed", 0.0)
    assert 20.9 < breaker.room < 21


def test_a_call_that_is_throttled_alone_is_a_failure() -> None:
    """A backend that takes not even one call at a time is unavailable: its breaker opens."""
    breaker = Breaker()
    for _ in range(OPENS_AFTER):
        end(breaker, begun(breaker, 0.0), "throttle", 0.0)
    assert not breaker.closed


@pytest.mark.parametrize(("asked", "rests"), [(0.0, REST), (10.0, 10.0), (1e6, LONGEST_REST)])
def test_it_rests_as_long_as_the_server_asks(asked: float, rests: float) -> None:
    """The last failure's `Retry-After` is the rest, within bounds."""
    breaker = Breaker()
    for _ in range(OPENS_AFTER):
        end(breaker, begun(breaker, 0.0), "fail", 0.0, asked)
    assert breaker.rests(rests - 0.01)
    assert not breaker.rests(rests)


def test_an_abandoned_call_gives_its_room_back() -> None:
    """After a call that told nothing the next one goes at once, and the first one's late success still counts."""
    breaker = opened()
    breaker.end(begun(breaker, 1.0))
    assert breaker.room == 1
    assert not breaker.closed
