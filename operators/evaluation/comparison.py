"""Two systems compared on the same queries, by paired bootstrap and sign test, and two lists by their overlap. Pure."""

import math
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, NamedTuple

import numpy as np

from operators.evaluation.metrics import mean

RESAMPLES: Final = 10_000
CONFIDENCE: Final = 0.95

LEAST_CHANGED: Final = math.ceil(1 - math.log2(1 - CONFIDENCE))
"""Queries that must differ for a verdict: with fewer, not even wins alone are significant by the sign test."""

_AT_A_TIME: Final = 1 << 21
"""Values that are drawn at a time: it bounds the memory, whatever the number of queries."""


def interval(
    differences: Iterable[float], seed: int, resamples: int = RESAMPLES, confidence: float = CONFIDENCE
) -> tuple[float, float]:
    """The percentile interval of the mean of paired differences, one a query, at least one; both ends included.

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
    return float(low), float(high)


class SignTest(NamedTuple):
    """On how many queries the second system is better, worse and equal, and how likely chance does that or more."""

    wins: int
    losses: int
    ties: int
    p: float


def sign_test(differences: Iterable[float]) -> SignTest:
    """The exact, two-sided sign test of differences second - first; ties are left out.

    p = min(1, 2 * P(X <= min(wins, losses))) with X binomial of wins + losses trials at 1/2; 1 without any trial.
    Source: Dixon and Mood 1946, as in Conover, Practical Nonparametric Statistics, 3.4.
    """
    signs = Counter((difference > 0) - (difference < 0) for difference in differences)
    wins, losses, ties = signs[1], signs[-1], signs[0]
    trials = wins + losses
    # Whole numbers: a sum of binomial coefficients is exact at any size.
    coefficient = below = 1
    for successes in range(min(wins, losses)):
        coefficient = coefficient * (trials - successes) // (successes + 1)
        below += coefficient
    return SignTest(wins, losses, ties, min(1.0, 2 * below / 2**trials))


ByQuery = Mapping[str, Mapping[str, float]]
"""Metric -> query -> value."""


class Verdict(StrEnum):
    """The judgement of the second system by the interval of the difference, if enough queries differ."""

    BETTER = "better"
    WORSE = "worse"
    UNDECIDED = "undecided"


class Means(NamedTuple):
    """The means of one metric over the queries, and the mean of second - first with the ends of its interval."""

    first: float
    second: float
    difference: float
    low: float
    high: float


class Move(NamedTuple):
    """One query's values of the metric that decides."""

    query_id: str
    first: float
    second: float


@dataclass(frozen=True)
class Comparison:
    """Every metric's means, and of `metric`, which decides, the sign test and every query, the greatest change first.

    Queries that changed equally are in the order of their ids.
    """

    metric: str
    means: Mapping[str, Means]
    signs: SignTest
    moves: tuple[Move, ...]

    @property
    def changed(self) -> int:
        """The number of queries on which the systems differ."""
        return self.signs.wins + self.signs.losses

    @property
    def verdict(self) -> Verdict:
        """Better or worse if the interval of the difference doesn't contain 0, and `LEAST_CHANGED` queries differ.

        The percentile interval of few queries is too narrow: that of one query has no width. Source: own.
        """
        if self.changed < LEAST_CHANGED:
            return Verdict.UNDECIDED
        decisive = self.means[self.metric]
        if decisive.low > 0:
            return Verdict.BETTER
        return Verdict.WORSE if decisive.high < 0 else Verdict.UNDECIDED


def compare_systems(first: ByQuery, second: ByQuery, metric: str, seed: int) -> Comparison:
    """Compare two systems by their values of the same metrics and queries, at least one; `metric` decides.

    Source: own; `interval` and `sign_test` name theirs.
    """
    means = {}
    for name, values in first.items():
        differences = [second[name][query] - value for query, value in values.items()]
        before, after = mean(values.values()), mean(second[name].values())
        means[name] = Means(before, after, mean(differences), *interval(differences, seed))
    moves = [Move(query, value, second[metric][query]) for query, value in first[metric].items()]
    moves.sort(key=lambda move: (-abs(move.second - move.first), move.query_id))
    return Comparison(metric, means, sign_test(move.second - move.first for move in moves), tuple(moves))


def jaccard(first: Collection[str], second: Collection[str]) -> float:
    """The share of all documents of two lists that both have; 1 of two empty lists. Source: Jaccard 1901."""
    every = {*first, *second}
    return len({*first}.intersection(second)) / len(every) if every else 1.0


def rank_biased_overlap(first: Sequence[str], second: Sequence[str], p: float = 0.9) -> float:
    """The similarity of two rankings in which the first ranks count most: 1 of equal ones, 0 of lists without a common
    document; of lists of different lengths the shorter's depth counts.

    Source: Webber, Moffat and Zobel, A similarity measure for indefinite rankings, TOIS 2010: equation 30, RBO_ext.
    """
    depth = min(len(first), len(second))
    if not depth:
        return float(len(first) == len(second))
    seen: set[str] = set()
    common, summed = 0, 0.0
    for rank, (one, other) in enumerate(zip(first, second, strict=False), 1):
        # A document counts once both lists have shown it.
        common += (one == other) + (one != other and one in seen) + (one != other and other in seen)
        seen |= {one, other}
        summed += common / rank * p**rank
    return common / depth * p**depth + (1 - p) / p * summed
