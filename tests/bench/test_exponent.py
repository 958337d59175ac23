"""Costs that grow faster than linear are told from those that don't, whatever a query costs at least."""

import math
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.exponent import Exponent

SIZES = (50, 100, 200, 500, 1000)


@given(st.floats(0.1, 3), st.floats(0.01, 100))
def test_a_power_has_its_own_exponent(power: float, factor: float) -> None:
    """Exactly, and with no doubt."""
    found = Exponent.of({size: [factor * size**power] * 3 for size in SIZES}).cost
    assert all(math.isclose(each, power, abs_tol=1e-9) for each in (found.estimate, found.low, found.high))


@given(st.floats(0, 1000), st.floats(0.01, 10))
def test_a_straight_line_is_linear(fixed: float, factor: float) -> None:
    """The increase has the exponent 1 whatever is fixed, which flattens the cost."""
    found = Exponent.of({size: [fixed + factor * size] * 3 for size in SIZES})
    assert found.increase is not None
    assert math.isclose(found.increase.estimate, 1.0, abs_tol=1e-6)
    assert found.cost.estimate <= 1 + 1e-6
    assert not found.superlinear


def test_a_square_is_seen_behind_a_fixed_cost() -> None:
    """At the largest size it is a third of the cost, whose own exponent is far below 1."""
    found = Exponent.of({size: [2 + size**2 / 1e6] * 3 for size in SIZES})
    assert found.cost.estimate < 0.3
    assert found.superlinear


@pytest.mark.parametrize(("power", "verdict"), [(0.5, False), (1.0, False), (1.5, True), (2.0, True)])
def test_rounds_that_differ_do_not_change_the_verdict(power: float, verdict: bool) -> None:
    """A round in which everything costs a fifth more, and a tenth of noise."""
    chance = random.Random(5)
    paces = (1.0, 1.2, 0.9)
    rounds = {
        size: [pace * (1 + (size / 100) ** power) * chance.uniform(0.95, 1.05) for pace in paces] for size in SIZES
    }
    assert Exponent.of(rounds).superlinear is verdict


def test_noise_around_a_fixed_cost_has_no_increase() -> None:
    """So there is no exponent of it, and nothing is faster than linear."""
    found = Exponent.of({10: [1.0, 1.2, 1.1], 100: [1.1, 1.1, 1.0], 1000: [1.2, 1.1, 1.2], 10_000: [1.1, 1.3, 1.1]})
    assert found.increase is None
    assert not found.superlinear
    assert abs(found.cost.estimate) < 0.05
    assert found.report()["increase"] is None


def test_one_size_has_no_growth() -> None:
    """It is an error."""
    with pytest.raises(ValueError, match="no two points"):
        Exponent.of({10: [1.0, 2.0]})
