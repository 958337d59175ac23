"""The breaker against a plain model: whom it lets through, and what it makes of how calls end."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from operators.clients.failures import OPENS_AFTER, REST, Breaker, Permit

ends = st.sampled_from(["succeed", "fail", "give_back"])


def end(breaker: Breaker, permit: Permit, how: str, now: float) -> None:
    """Tell the breaker how a call ended."""
    if how == "succeed":
        breaker.succeed(permit)
    elif how == "fail":
        breaker.fail(permit, now)
    else:
        breaker.give_back(permit)


def opened(at: float = 0.0) -> Breaker:
    """A breaker that opened at `at`."""
    breaker = Breaker()
    for _ in range(OPENS_AFTER):
        breaker.fail(admitted(breaker, at), at)
    return breaker


def admitted(breaker: Breaker, now: float) -> Permit:
    """The permit that the breaker must give now."""
    permit = breaker.admit(now)
    assert permit is not None
    return permit


class Backend(RuleBasedStateMachine):
    """Calls that begin and end in any order while time passes.

    The model knows each call under way by its number, and whether how it ends still matters.
    """

    def __init__(self) -> None:
        super().__init__()
        self.breaker = Breaker()
        self.now = 0.0
        self.calls: dict[int, Permit] = {}
        self.begun = 0
        self.matter: set[int] = set()
        self.in_a_row = 0
        self.open_since: float | None = None
        self.probe: int | None = None

    def change(self, open_since: float | None) -> None:
        """Another state: nothing that is under way matters any more."""
        self.open_since = open_since
        self.in_a_row = 0
        self.probe = None
        self.matter.clear()

    @rule(quarters=st.integers(1, 6))
    def wait(self, quarters: int) -> None:
        """Time passes, in exact quarters of a second."""
        self.now += quarters / 4

    @rule()
    def begin(self) -> None:
        """A caller asks; who is let through is what the model says."""
        permit = self.breaker.admit(self.now)
        if self.open_since is not None and (self.probe is not None or self.now < self.open_since + REST):
            assert permit is None
            return
        assert permit is not None
        self.begun += 1
        self.calls[self.begun] = permit
        self.matter.add(self.begun)
        if self.open_since is not None:
            self.probe = self.begun

    @precondition(lambda self: self.calls)
    @rule(data=st.data(), how=ends)
    def end(self, data: st.DataObject, how: str) -> None:
        """A call ends, somehow; every caller gives its permit back at last."""
        call = data.draw(st.sampled_from(sorted(self.calls)))
        permit = self.calls.pop(call)
        end(self.breaker, permit, how, self.now)
        self.breaker.give_back(permit)
        if call not in self.matter:
            return
        self.matter.discard(call)
        if how == "succeed":
            self.in_a_row = 0
            if call == self.probe:
                self.change(None)
        elif how == "fail":
            self.in_a_row += 1
            if call == self.probe or self.in_a_row == OPENS_AFTER:
                self.change(self.now)
        elif call == self.probe:
            self.probe = None

    @precondition(lambda self: self.open_since is None)
    @rule()
    def fail_on(self) -> None:
        """As many calls as open it fail, one after another."""
        for _ in range(OPENS_AFTER - self.in_a_row):
            self.breaker.fail(admitted(self.breaker, self.now), self.now)
        self.change(self.now)

    @invariant()
    def it_is_closed_when_the_model_is(self) -> None:
        """The breaker says of itself what the model says."""
        assert self.breaker.closed == (self.open_since is None)


Backend.TestCase.settings = settings(max_examples=100, stateful_step_count=40)
test_the_breaker_is_the_model = Backend.TestCase


@given(st.lists(st.sampled_from(["succeed", "fail"]), max_size=60))
def test_five_failures_in_a_row_open_it(ends: list[str]) -> None:
    """Calls one after another open the breaker at the fifth failure in a row, at no other place."""
    breaker = Breaker()
    in_a_row = 0
    for how in ends:
        end(breaker, admitted(breaker, 0.0), how, 0.0)
        in_a_row = in_a_row + 1 if how == "fail" else 0
        assert breaker.closed == (in_a_row < 5)
        if not breaker.closed:
            break


def test_a_rest_and_then_one_probe() -> None:
    """Open, it refuses for a quarter of a second; of any number of callers after that one gets through."""
    breaker = opened(at=7.0)
    assert [breaker.admit(7.0), breaker.admit(7.125), breaker.admit(7.249)] == [None] * 3
    assert [breaker.admit(7.25) is not None for _ in range(50)] == [True] + [False] * 49
    assert breaker.admit(1e9) is None


def test_a_probes_success_closes_it() -> None:
    """After a probe that succeeded everybody gets through, and it takes five failures to open it again."""
    breaker = opened()
    breaker.succeed(admitted(breaker, 1.0))
    for _ in range(4):
        breaker.fail(admitted(breaker, 1.0), 1.0)
    assert breaker.closed


def test_a_probes_failure_opens_it_for_another_rest() -> None:
    """A probe that failed begins a new rest, from its end."""
    breaker = opened()
    breaker.fail(admitted(breaker, 1.0), 3.0)
    assert breaker.admit(3.125) is None
    assert breaker.admit(3.25) is not None


def test_an_abandoned_probe_gives_its_place_back() -> None:
    """After a probe that told nothing the next caller probes at once, and the first one's late end changes nothing."""
    breaker = opened()
    abandoned = admitted(breaker, 1.0)
    breaker.give_back(abandoned)
    probe = admitted(breaker, 1.0)
    breaker.succeed(abandoned)
    assert not breaker.closed
    breaker.give_back(abandoned)
    assert breaker.admit(1.0) is None
    breaker.succeed(probe)
    assert breaker.closed


@pytest.mark.parametrize("how", ["succeed", "fail", "give_back"])
def test_what_began_before_it_opened_changes_nothing(how: str) -> None:
    """A call from before the opening neither closes the breaker, nor lengthens its rest, nor takes a probe's place."""
    breaker = Breaker()
    old = [admitted(breaker, 0.0) for _ in range(8)]
    for permit in old[:5]:
        breaker.fail(permit, 0.0)
    end(breaker, old[5], how, 0.125)
    assert breaker.admit(0.1875) is None
    probe = admitted(breaker, 1.0)
    end(breaker, old[6], how, 1.0)
    assert breaker.admit(1.0) is None
    breaker.succeed(probe)
    end(breaker, old[7], how, 1.0)
    assert breaker.closed


def test_failures_from_before_it_closed_do_not_count() -> None:
    """Any number of calls that began before the breaker opened and fail after it closed leave it closed."""
    breaker = Breaker()
    old = [admitted(breaker, 0.0) for _ in range(30)]
    for permit in old[:5]:
        breaker.fail(permit, 0.0)
    breaker.succeed(admitted(breaker, 1.0))
    for permit in old[5:]:
        breaker.fail(permit, 1.0)
    assert breaker.closed
