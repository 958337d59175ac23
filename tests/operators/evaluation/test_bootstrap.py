"""The paired bootstrap: exact where it can be, and as wide as it says where it is simulated."""

from random import Random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from operators.evaluation.comparison import interval

differences = st.lists(st.floats(-1, 1), min_size=1, max_size=30)


@given(st.integers(1, 50), st.integers(0, 5))
def test_identical_runs_have_no_width(queries: int, seed: int) -> None:
    """Without a difference the interval is 0, exactly."""
    assert interval([0.0] * queries, seed) == (0.0, 0.0)


def test_by_hand() -> None:
    """Of two queries, one won by 1 and one equal, the resampled mean is 0, .5 or 1 in a quarter, half and quarter of
    all samples: the 95 % interval goes from 0 to 1, and that of 40 % has one value.
    """
    assert interval([0.0, 1.0], 0) == (0.0, 1.0)
    assert interval([0.0, 1.0], 0, confidence=0.4) == (0.5, 0.5)


@given(differences, st.randoms(), st.integers(0, 3))
def test_the_order_of_the_queries_does_not_matter(values: list[float], random: Random, seed: int) -> None:
    """Shuffled queries have the same interval, to the bit; equal seeds too."""
    shuffled = list(values)
    random.shuffle(shuffled)
    assert interval(shuffled, seed, 200) == interval(values, seed, 200)


@given(differences)
def test_the_interval_is_within_what_was_measured(values: list[float]) -> None:
    """No resampled mean is outside the least and the greatest difference, and the ends are in order."""
    low, high = interval(values, 0, 200)
    assert min(values) - 1e-12 <= low <= high <= max(values) + 1e-12


def test_many_queries_are_resampled_in_parts() -> None:
    """The number of resamples is what was asked for, however few fit at a time: the interval is that of the normal
    approximation, which holds for many queries.
    """
    values = np.random.default_rng(1).normal(0.1, 1, 30_000)
    low, high = interval(values, 0, 100)
    error = values.std() / np.sqrt(len(values))
    assert low == pytest.approx(values.mean() - 1.96 * error, abs=0.8 * error)
    assert high == pytest.approx(values.mean() + 1.96 * error, abs=0.8 * error)


def test_the_interval_covers() -> None:
    """Of 300 simulated experiments whose true difference is .05, the 95 % interval contains it in 92 to 98 %."""
    draw = np.random.default_rng(1)
    # Most queries don't move, some much: as differences in metrics are.
    experiments = np.where(draw.random((300, 100)) < 0.6, 0.0, draw.normal(0.125, 0.3, (300, 100)))
    found = [interval(each, seed, 1000) for seed, each in enumerate(experiments)]
    assert 0.92 <= np.mean([low <= 0.05 <= high for low, high in found]) <= 0.98
