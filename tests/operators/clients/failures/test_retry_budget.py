"""The budget of retries: a share of the requests, and a small reserve, however long a failure lasts."""

from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, precondition, rule

from operators.clients.admission import RetryBudget


class Requests(RuleBasedStateMachine):
    """Requests that begin, are tried again and end in any order; the model is the rule, in fractions."""

    def __init__(self) -> None:
        super().__init__()
        self.budget = RetryBudget()
        self.bucket = Fraction(3)
        self.begun = self.active = self.retries = 0

    def spill(self) -> None:
        """A retry beyond a fifth of the active requests, and beyond three, is lost."""
        self.bucket = min(self.bucket, max(Fraction(3), Fraction(self.active, 5)))

    @rule(count=st.integers(1, 30))
    def begin(self, count: int) -> None:
        """Requests make their first try."""
        for _ in range(count):
            self.budget.begin()
            self.begun += 1
            self.active += 1
            self.bucket += Fraction(1, 5)
            self.spill()

    @precondition(lambda self: self.active)
    @rule(data=st.data())
    def end(self, data: st.DataObject) -> None:
        """Requests end."""
        for _ in range(data.draw(st.integers(1, self.active))):
            self.budget.end()
            self.active -= 1
            self.spill()

    @rule(count=st.integers(1, 10))
    def retry(self, count: int) -> None:
        """Retries are given as long as the bucket holds a whole one."""
        for _ in range(count):
            assert self.budget.take() == (self.bucket >= 1)
            if self.bucket >= 1:
                self.bucket -= 1
                self.retries += 1
        assert self.retries <= Fraction(self.begun, 5) + 3


Requests.TestCase.settings = settings(max_examples=100, stateful_step_count=40)
test_the_budget_is_the_rule = Requests.TestCase


def taken(budget: RetryBudget, most: int = 1000) -> int:
    """The number of retries that the budget gives now."""
    return sum(budget.take() for _ in range(most))


def test_three_without_a_request() -> None:
    """A new budget gives three retries and no more."""
    budget = RetryBudget()
    assert taken(budget) == 3
    assert not budget.take()


@pytest.mark.parametrize(("requests", "retries"), [(4, 0), (5, 1), (9, 1), (10, 2), (500, 100), (10_000, 2_000)])
def test_five_first_tries_buy_one_retry(requests: int, retries: int) -> None:
    """Once the reserve is spent, n requests under way buy n/5 retries, exactly, also when they began long ago."""
    budget = RetryBudget()
    taken(budget)
    for _ in range(requests):
        budget.begin()
    assert taken(budget, 10_000) == retries


@given(st.integers(1, 2000))
def test_a_long_failure_costs_a_fifth(requests: int) -> None:
    """Requests one at a time, all of which want retries without end, get a fifth of their number and the reserve."""
    budget = RetryBudget()
    given_out = 0
    for _ in range(requests):
        budget.begin()
        given_out += taken(budget, 5)
        budget.end()
    # The first request's fifth is over the brim of a full bucket.
    assert given_out == 3 + (requests - 1) // 5


def test_quiet_times_save_nothing_up() -> None:
    """After any number of requests that needed no retry, one request alone has three and no more."""
    budget = RetryBudget()
    for _ in range(1000):
        budget.begin()
    for _ in range(1000):
        budget.end()
    budget.begin()
    assert taken(budget) == 3


def test_many_active_requests_save_a_fifth_of_themselves() -> None:
    """A hundred requests under way have room for twenty retries, and no room for more."""
    budget = RetryBudget()
    for _ in range(100):
        budget.begin()
    for _ in range(1000):
        budget.begin()
        budget.end()
    assert taken(budget) == 20
