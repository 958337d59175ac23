"""Supervision: replicas are started again at their time, and the command ends once, with the right exit code."""

import math
import signal
from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from flows.process.supervision import (
    FAILED,
    FIRST,
    HEALTHY,
    LONGEST,
    MISCONFIGURED,
    Supervision,
)

COUNT = 3
CODES = st.sampled_from([0, 1, 130, -signal.SIGKILL, -signal.SIGTERM, -signal.SIGSEGV])


def delays(lives: list[float], code: int = FAILED) -> list[float | None]:
    """The back-off after each end of a lone replica that lives so long after each start."""
    supervision = Supervision(1)
    found: list[float | None] = []
    now = 0.0
    for life in lives:
        assert supervision.due(now) == [0]
        now += life
        found.append(supervision.ended(0, code, now))
        now += found[-1] or 0.0
    return found


@pytest.mark.parametrize("code", [0, 1, 130, -signal.SIGKILL])
def test_the_back_off_by_hand(code: int) -> None:
    """It doubles from a second to a minute with each end, however the replica ended and however often."""
    assert delays([1.0] * 2000, code) == [1, 2, 4, 8, 16, 32, *[60] * 1994]
    assert (FIRST, LONGEST) == (1, 60)


def test_health_begins_the_back_off_anew() -> None:
    """After a minute of running the next end is the first again; after less it isn't."""
    assert delays([1, 1, HEALTHY, 1, HEALTHY - 0.1, HEALTHY]) == [1, 2, 1, 2, 4, 1]


def test_a_configuration_error_ends_the_command_with_2() -> None:
    """At the first one no replica is started any more, and whatever the others end with, the exit code is 2."""
    supervision = Supervision(COUNT)
    supervision.due(0.0)
    assert supervision.ended(0, FAILED, 0.0) == 1.0
    assert supervision.ended(1, MISCONFIGURED, 0.5) is None
    supervision.stop()
    assert supervision.due(10.0) == []
    assert supervision.ended(2, FAILED, 10.0) is None
    assert supervision.exit_code == MISCONFIGURED


@pytest.mark.parametrize(
    ("ends", "code"),
    [
        ([0, 0], 0),
        ([0, -signal.SIGTERM], 0),
        ([1, 0], 1),
        ([0, 130], 1),
        ([-signal.SIGKILL, 0], 1),
        ([MISCONFIGURED, 0], 1),
    ],
)
def test_a_signal_ends_the_command_with_0_if_all_drain(ends: list[int], code: int) -> None:
    """The exit code is 0 if each replica drains or has nothing to drain yet, and 1 otherwise."""
    supervision = Supervision(2)
    supervision.due(0.0)
    supervision.stop()
    for index, end in enumerate(ends):
        assert supervision.exit_code is None
        supervision.ended(index, end, 2.0)
    assert supervision.exit_code == code


def test_a_signal_ends_the_command_while_replicas_wait() -> None:
    """A replica that waits for its start isn't started, and isn't waited for."""
    supervision = Supervision(1)
    supervision.due(0.0)
    supervision.ended(0, FAILED, 0.0)
    supervision.stop()
    assert supervision.exit_code == 0
    assert supervision.due(math.inf) == []


@given(st.lists(st.tuples(st.integers(1, COUNT - 1), st.floats(0.1, 200), CODES), max_size=30))
def test_replicas_do_not_disturb_one_another(others: list[tuple[int, float, int]]) -> None:
    """Replica 0 is started at the same times, whatever becomes of the others, as long as the command goes on."""
    ends = [(10.0 + 40.0 * n, 0, FAILED) for n in range(6)]
    moment = dict.fromkeys(range(1, COUNT), 0.0)
    for index, life, code in others:
        moment[index] += LONGEST + life
        ends.append((moment[index], index, code))
    supervision = Supervision(COUNT)
    supervision.due(0.0)
    found = []
    for now, index, code in sorted(ends):
        supervision.due(now)
        delay = supervision.ended(index, code, now)
        if supervision.ending:
            return
        if index == 0:
            found.append(delay)
    assert found == [1, 2, 4, 8, 16, 32]


class Life(RuleBasedStateMachine):
    """Replicas that live and end at random, beside a plain account of what is promised."""

    def __init__(self) -> None:
        super().__init__()
        self.supervision = Supervision(COUNT)
        self.now = 0.0
        self.running: set[int] = set()
        self.next_start = dict.fromkeys(range(COUNT), 0.0)
        self.drained = True
        self.reason: int | None = None

    @rule(seconds=st.floats(0, 100))
    def wait(self, seconds: float) -> None:
        """Time passes; exactly the replicas whose time has come are started, unless the command ends."""
        self.now += seconds
        started = self.supervision.due(self.now)
        assert Counter(started) <= Counter(range(COUNT))
        assert not self.running & set(started)
        if self.reason is None:
            waiting = set(range(COUNT)) - self.running
            assert set(started) == {index for index in waiting if self.next_start[index] <= self.now}
        else:
            assert started == []
        self.running |= set(started)

    @precondition(lambda self: self.running)
    @rule(data=st.data(), code=CODES | st.just(MISCONFIGURED))
    def end(self, data: st.DataObject, code: int) -> None:
        """One that runs ends; it is started again within a minute, or the command ends for a reason."""
        index = data.draw(st.sampled_from(sorted(self.running)))
        self.running.remove(index)
        delay = self.supervision.ended(index, code, self.now)
        if self.reason is not None:
            assert delay is None
            self.drained &= code in (0, -signal.SIGTERM)
            return
        if code == MISCONFIGURED:
            assert delay is None
            self.reason = MISCONFIGURED
        else:
            assert delay is not None
            assert FIRST <= delay <= LONGEST
            self.next_start[index] = self.now + delay

    @rule()
    def stop(self) -> None:
        """A signal comes; a second one changes nothing."""
        self.supervision.stop()
        if self.reason is None:
            self.reason = 0

    @invariant()
    def ends_once_for_its_reason(self) -> None:
        """The command ends if there is a reason, once no replica runs, with that reason's exit code."""
        assert self.supervision.ending == (self.reason is not None)
        if self.reason is None or self.running:
            assert self.supervision.exit_code is None
        else:
            assert self.supervision.exit_code == (self.reason or (0 if self.drained else FAILED))


Life.TestCase.settings = settings(stateful_step_count=50)
test_replicas_run_until_the_command_ends = Life.TestCase
