"""The paired bootstrap: how far a mean difference between two systems may be off, by the queries at hand. Pure."""

from collections.abc import Iterable
from typing import Final, NamedTuple

import numpy as np

RESAMPLES: Final = 10_000
CONFIDENCE: Final = 0.95

_AT_A_TIME: Final = 1 << 21
"""Values that are drawn at a time: it bounds the memory, whatever the number of queries."""


class Interval(NamedTuple):
    """A confidence interval, both ends included."""

    low: float
    high: float


def interval(
    differences: Iterable[float], seed: int, resamples: int = RESAMPLES, confidence: float = CONFIDENCE
) -> Interval:
    """The percentile interval of the mean of paired differences, one a query, at least one.

    Queries are drawn with replacement, as many as there are, `resamples` times; the interval ends at the quantiles
    (1 - confidence)/2 and (1 + confidence)/2 of the means. Equal seeds give equal intervals, whatever the order of the
    queries. Source: Efron and Tibshirani, An Introduction to the Bootstrap, 1993, 13.3; paired by query as in Sakai,
    Evaluating evaluation metrics based on the bootstrap, SIGIR 2006.
    """
    # Sorted: which query has which difference must not matter.
    values = np.sort(np.fromiter(differences, float))
    draw = np.random.default_rng(seed)
    chunk = max(1, _AT_A_TIME // len(values))
    means = [
        values[draw.integers(0, len(values), (min(chunk, resamples - done), len(values)))].mean(axis=1)
        for done in range(0, resamples, chunk)
    ]
    low, high = np.quantile(np.concatenate(means), [(1 - confidence) / 2, (1 + confidence) / 2])
    return Interval(float(low), float(high))
