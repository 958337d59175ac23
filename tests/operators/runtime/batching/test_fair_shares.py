"""Fair shares: what each tenant and each request gets of a backend that can't serve all in time."""

import math
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from operators.runtime.batching.backlog import Demands, fits, max_min, needed_rate, shares_in_time

needs = st.lists(st.floats(0, 1000), min_size=1, max_size=8)
rates = st.floats(0.1, 5000)
demands = st.lists(st.tuples(st.integers(1, 200), st.floats(0.01, 10)), min_size=1, max_size=12).map(
    lambda pairs: demanded(*sorted(pairs, key=lambda pair: pair[1]))
)


def demanded(*pairs: tuple[float, float]) -> Demands:
    """Demands of so many units, by so many seconds from now."""
    units, left = zip(*pairs, strict=True)
    return Demands(np.array(units, dtype=float), np.array(left))


def pooled(asked: Demands, rate: float) -> list[float]:
    """The parts by pool-adjacent-violators, demand by demand."""
    blocks: list[tuple[float, float, int]] = []
    before = 0.0
    for units, left in zip(*asked, strict=True):
        served, count = rate * (left - before), 1
        before = left
        while blocks and blocks[-1][1] * units >= served * blocks[-1][0]:
            earlier = blocks.pop()
            units, served, count = units + earlier[0], served + earlier[1], count + earlier[2]
        blocks.append((units, served, count))
    return [min(1.0, served / units) for units, served, count in blocks for _ in range(count)]


def test_who_needs_less_than_an_equal_part_gets_it() -> None:
    """By hand, of 90: 10 and 20 are less than an equal part of what is left for them; the other two share 60."""
    assert max_min([10, 50, 20, 1000], 90) == [10, 30, 20, 30]
    assert max_min([10, 20], 90) == [10, 20]


def test_the_smallest_rate_that_serves_all() -> None:
    """By hand: 10 by 1 s and 90 in all by 3 s need 30 a second; none are needed where time is endless."""
    assert needed_rate(demanded((10, 1.0), (80, 3.0))) == 30
    assert needed_rate(demanded((10, math.inf))) == 0


def test_equal_parts_as_far_as_time_allows() -> None:
    """By hand, at 100 a second: 50 of 100 by .5 s, then 75 more of 100 by 1.25 s; what comes at one time shares."""
    assert list(shares_in_time(demanded((100, 0.5), (100, 1.25)), 100)) == pytest.approx([0.5, 0.75])
    assert list(shares_in_time(demanded((100, 1.0), (300, 1.0)), 100)) == pytest.approx([0.25, 0.25])
    # The first would have time for all of it, and leaves some to those that come with it.
    assert list(shares_in_time(demanded((100, 1.0), (100, 1.2)), 100)) == pytest.approx([0.6, 0.6])


def test_endless_time_serves_all() -> None:
    """A request without a deadline is never cut, and takes nothing from one with a deadline."""
    assert list(shares_in_time(demanded((100, 0.5), (100, math.inf)), 100)) == pytest.approx([0.5, 1.0])


@given(needs, rates)
def test_max_min_is_fair(needs: list[float], rate: float) -> None:
    """Nobody gets more than it needs, nothing is left over while somebody needs more, and whoever is cut has no less
    than anyone else.
    """
    shares = max_min(needs, rate)
    assert all(share <= need for share, need in zip(shares, needs, strict=True))
    assert math.fsum(shares) == pytest.approx(min(rate, math.fsum(needs)))
    cut = [share for share, need in zip(shares, needs, strict=True) if share < need]
    assert all(share >= max(shares) * (1 - 1e-9) for share in cut)


@given(demands, rates)
def test_parts_can_be_served(asked: Demands, rate: float) -> None:
    """In the order of their times, each before its own; later ones get no smaller part than earlier ones."""
    found = list(shares_in_time(asked, rate))
    assert found == pytest.approx(pooled(asked, rate))
    assert all(0 <= part <= 1 for part in found)
    assert all(before <= after + 1e-9 for before, after in pairwise(found))
    assert np.all(np.cumsum(found * asked.units) <= rate * asked.left * (1 + 1e-9))


@given(demands, rates)
def test_what_fits_is_served_whole(asked: Demands, rate: float) -> None:
    """And what is cut could not be served: until some later time, all that can be is."""
    found = list(shares_in_time(asked, rate))
    whole = all(part > 1 - 1e-9 for part in found)
    assert fits(asked, rate * (1 + 1e-6)) or not whole
    assert whole or not fits(asked, rate * (1 - 1e-6))
    assert fits(asked, needed_rate(asked) * (1 + 1e-9))
    exhausted = np.cumsum(found * asked.units) >= rate * asked.left * (1 - 1e-6)
    assert all(exhausted[place:].any() for place, part in enumerate(found) if part < 1 - 1e-6)
