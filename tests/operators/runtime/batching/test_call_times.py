"""The duration of calls: what is learnt of the latest ones, and what a time allows."""

import math

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from operators.runtime.batching.call_times import LATEST_CALLS, CallTimes

calls = st.lists(st.tuples(st.integers(1, 1000), st.floats(1e-3, 100)), min_size=1, max_size=40)


def learnt(*answered: tuple[int, float]) -> CallTimes:
    """The estimate that these calls teach."""
    times = CallTimes()
    for units, took in answered:
        times.note(units, took)
    return times


def test_nothing_is_known_at_first() -> None:
    """Without a call every size fits into any time, and no rate bounds anything."""
    times = CallTimes()
    assert (times.takes(1000), times.within(0.0), times.rate, times.quickest) == (0.0, math.inf, math.inf, 0.0)


def test_calls_of_one_size_say_that_time_is_in_proportion() -> None:
    """By hand: 50 units take half a second, so 10 take a tenth, and a quarter of a second is for 25."""
    times = learnt(*[(50, 0.5)] * 4)
    assert times.takes(10) == pytest.approx(0.1)
    assert times.within(0.25) == 25
    assert times.rate == pytest.approx(100)


def test_a_fixed_part_is_told_from_the_time_of_a_unit() -> None:
    """As NumPy fits a line to the calls and a call of nothing, by the weights that fade."""
    answered = [(10, 1.0), (20, 1.5), (10, 1.1), (30, 2.0)]
    units, took = zip((0, 0.0), *answered, strict=True)
    each, fixed = np.polyfit(units, took, 1, w=np.sqrt([0.25, 0.75**3, 0.75**2, 0.75, 1.0]))
    times = learnt(*answered)
    assert fixed > 0
    assert times.takes(0) == pytest.approx(fixed)
    assert times.takes(25) == pytest.approx(fixed + 25 * each)
    assert times.within(1.0) == (1.0 - fixed) // each
    assert times.within(fixed * 0.99) == 0
    assert times.rate == pytest.approx(30 / (fixed + 30 * each))


@given(st.lists(st.tuples(st.integers(1, 1000), st.floats(0, 0.01)), min_size=4, max_size=60))
def test_what_is_kept_up_call_by_call_is_the_fit_of_all_calls(noisy: list[tuple[int, float]]) -> None:
    """As NumPy fits a line to all calls at once, where both parts are above 0."""
    answered = [(units, 1.0 + units * 0.01 + noise) for units, noise in noisy]
    weights = [0.75**age for age in reversed(range(len(answered)))]
    units, took = zip((0, 0.0), *answered, strict=True)
    each, fixed = np.polyfit(units, took, 1, w=np.sqrt([0.25, *weights]))
    assume(fixed > 1e-6)
    assert learnt(*answered).takes(500) == pytest.approx(fixed + 500 * each, rel=1e-6)


def test_few_calls_say_nothing() -> None:
    """A first call that is slow, and two more: nothing is known yet but the quickest."""
    times = learnt((50, 9.0), (50, 0.1), (50, 0.1))
    assert (times.takes(50), times.within(0.0), times.rate, times.quickest) == (0.0, math.inf, math.inf, 0.1)


def test_a_time_that_does_not_depend_on_units_is_all_or_nothing() -> None:
    """A call fits with any number of units or not at all if larger calls are no slower."""
    times = learnt(*[(1, 1.0), (100, 0.1)] * 4, (1, 2.0))
    assert times.takes(1) == times.takes(100)
    assert times.within(times.takes(1)) == math.inf
    assert times.within(times.takes(1) / 2) == 0


def test_only_the_latest_calls_count() -> None:
    """A slow call of long ago is forgotten."""
    assert learnt((10, 50.0), *[(10, 1.0)] * 40).takes(10) == pytest.approx(1.0, rel=1e-3)
    assert learnt((1, 0.1), *[(1, 1.0)] * LATEST_CALLS).quickest == 1.0


def test_a_call_that_was_given_up_early_says_nothing() -> None:
    """One that was given up after more than it was expected to take does: the next is expected to take longer."""
    times = learnt(*[(50, 0.5)] * 4)
    times.note(50, 0.4, answered=False)
    assert times.takes(50) == pytest.approx(0.5)
    times.note(50, 0.6, answered=False)
    assert times.takes(50) > 0.7
    assert times.quickest == 0.5


def test_calls_that_become_slower_are_noticed_soon() -> None:
    """Four calls that take four times as long are most of what is expected."""
    assert learnt(*[(50, 0.5)] * 20, *[(50, 2.0)] * 4).takes(50) > 1.5


@given(calls, st.integers(1, 2000))
def test_what_takes_so_long_fits_into_so_long(answered: list[tuple[int, float]], units: int) -> None:
    """Whatever was learnt, as many units fit into a time as are expected to take it."""
    times = learnt(*answered)
    assert times.within(times.takes(units)) >= units


@given(calls, st.floats(0, 200), st.floats(0, 200))
def test_more_time_is_for_no_fewer_units(answered: list[tuple[int, float]], one: float, other: float) -> None:
    """And what fits is not expected to take longer than the time."""
    times = learnt(*answered)
    less, more = sorted((one, other))
    assert times.within(less) <= times.within(more)
    fitting = times.within(more)
    if 0 < fitting < math.inf:
        assert times.takes(int(fitting)) <= more * (1 + 1e-6)


@given(calls, st.integers(0, 1000), st.integers(0, 1000))
def test_more_units_never_take_less(answered: list[tuple[int, float]], one: int, other: int) -> None:
    """Nor anything less than no time."""
    times = learnt(*answered)
    fewer, more = sorted((one, other))
    assert 0 <= times.takes(fewer) <= times.takes(more)


@given(calls, st.integers(-10, 10), st.integers(1, 1000))
def test_the_unit_of_time_does_not_matter(answered: list[tuple[int, float]], power: int, units: int) -> None:
    """Calls that take twice as long are expected to take twice as long."""
    factor = 2.0**power
    scaled = learnt(*((size, took * factor) for size, took in answered))
    assert scaled.takes(units) == pytest.approx(factor * learnt(*answered).takes(units))
