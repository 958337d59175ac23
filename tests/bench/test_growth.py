"""Growth is told from noise, outliers and warming up, by criteria that a report can state."""

import math
import random
from itertools import combinations
from statistics import median

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.figures import BenchError
from bench.growth import BLOCKS, FEWEST, Growth, blocks, theil_sen

numbers = st.integers(-(10**6), 10**6).map(float)


def series(count: int, *, base: float = 200.0, slope: float = 0.0, noise: float = 1.0) -> list[float]:
    """The resources of a process of `base`, second by second, give or take `noise`."""
    rng = random.Random(7)
    return [base + slope * second + rng.gauss(0, noise) for second in range(count)]


def growth(values: list[float]) -> Growth:
    """The growth of a value a second."""
    return Growth.of(range(len(values)), values)


@given(st.lists(numbers, min_size=2, max_size=30), numbers, st.integers(-1000, 1000))
def test_a_line_has_its_own_slope(xs: list[float], intercept: float, slope: int) -> None:
    """Points on a line give its slope, exactly and with no doubt, in any order; without two `x` there is none."""
    ys = [intercept + slope * x for x in xs]
    if len(set(xs)) < 2:
        with pytest.raises(ValueError, match="no two points"):
            theil_sen(xs, ys)
        return
    found = theil_sen(xs, ys)
    assert (found.estimate, found.low, found.high) == (slope, slope, slope)


@given(st.lists(st.tuples(numbers, numbers), min_size=2, max_size=15, unique_by=lambda point: point[0]))
def test_the_slope_is_the_median_of_all_and_within_its_interval(points: list[tuple[float, float]]) -> None:
    """Theil's definition, and Sen's interval around it."""
    xs, ys = zip(*points, strict=True)
    found = theil_sen(xs, ys)
    slopes = [(y2 - y1) / (x2 - x1) for (x1, y1), (x2, y2) in combinations(points, 2)]
    assert math.isclose(found.estimate, median(slopes))
    assert min(slopes) <= found.low <= found.estimate <= found.high <= max(slopes)


def test_the_interval_is_sens() -> None:
    """The ranks of a known example: 10 points, 45 slopes, variance 125: those of rank 11 or 12, and 34 or 35."""
    rng = random.Random(1)
    xs, ys = list(range(10)), [rng.random() for _ in range(10)]
    slopes = sorted((ys[b] - ys[a]) / (b - a) for a, b in combinations(xs, 2))
    found = theil_sen(xs, ys)
    assert slopes[10] <= found.low <= slopes[11]
    assert slopes[33] <= found.high <= slopes[34]


def test_the_interval_holds_the_truth_as_often_as_it_says() -> None:
    """Of many noisy lines about 95 % have their slope in the interval."""
    rng = random.Random(3)
    held = 0
    for _ in range(300):
        found = theil_sen(range(BLOCKS), [2.0 * x + rng.gauss(0, 5) for x in range(BLOCKS)])
        held += found.low <= 2.0 <= found.high
    assert 0.92 <= held / 300 <= 0.99


@given(st.lists(numbers, min_size=1, max_size=100), st.integers(1, 30))
def test_blocks_are_medians_of_all_values_in_order(values: list[float], count: int) -> None:
    """No value is left out, and no block is empty."""
    found = blocks(values, count)
    assert len(found) == min(count, len(values))
    assert blocks(sorted(values), count) == sorted(blocks(sorted(values), count))
    assert min(values) <= min(found) <= max(found) <= max(values)


def test_noise_is_flat() -> None:
    """A process that breathes is flat."""
    assert growth(series(500)).flat_memory()


def test_a_leak_is_not_flat() -> None:
    """20 MB more over a run at 200 MB is seen through the noise, and its slope is about right."""
    found = growth(series(500, slope=20 / 500))
    assert not found.flat_memory()
    assert found.slope.low <= 20 / 500 <= found.slope.high
    assert found.report(200)["slope_per_million_queries"]["estimate"] == pytest.approx(200, rel=0.1)


def test_a_leak_that_is_small_beside_the_process_is_flat() -> None:
    """1 MB at 200 is within what allocators do, however steady; the slope says it all the same."""
    found = growth(series(500, slope=1 / 500, noise=0.01))
    assert found.flat_memory()
    assert found.slope.low > 0


def test_warming_up_is_no_growth() -> None:
    """The memory that a process takes in its first quarter and keeps is no growth."""
    values = series(400)
    assert growth([*(100 + each / 2 for each in values[:100]), *values[100:]]).flat_memory()


def test_a_peak_is_no_growth() -> None:
    """A few samples far off move neither verdict nor slope, and are reported as the maximum."""
    values = series(400)
    values[350:360] = [900.0] * 10
    found = growth(values)
    assert found.flat_memory()
    assert found.maximum == 900.0


@pytest.mark.parametrize(
    ("values", "flat"),
    [
        ([5.0] * 40, True),
        ([5.0] * 9 + [6.0] * 31, True),
        ([5.0] * 20 + [6.0] * 20, True),
        ([5.0 + number // 4 for number in range(40)], False),
        ([5.0, 6.0] * 20, True),
        ([5.0] * 39 + [9.0], True),
        ([6.0] * 20 + [5.0] * 20, True),
    ],
)
def test_counts_must_not_rise(values: list[float], flat: bool) -> None:
    """Descriptors that keep coming are growth; one more, for a moment or for good, isn't."""
    assert growth(values).flat_count() is flat


def test_too_few_samples_are_no_verdict() -> None:
    """A run that is too short says so."""
    assert growth(series(FEWEST)).flat_count() is not None
    with pytest.raises(BenchError, match="too few"):
        growth(series(FEWEST - 1))


def test_a_hump_is_no_growth() -> None:
    """A series that rises and falls again has no slope that is surely above zero, even if it isn't all the way back."""
    values = [*series(200, noise=0.1), *series(100, base=260, slope=-0.4, noise=0.1), *series(100, base=206, noise=0.1)]
    found = growth(values)
    assert found.last_quarter > 1.02 * found.second_quarter
    assert found.slope.low <= 0
    assert found.flat_memory()
