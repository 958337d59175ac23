"""Two systems compared on the same judged queries. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

from operators.evaluation.bootstrap import Interval, interval
from operators.evaluation.metrics import mean
from operators.evaluation.sign_test import SignTest, sign_test

ByQuery = Mapping[str, Mapping[str, float]]
"""Metric -> query -> value."""


class Verdict(StrEnum):
    """What the interval of the difference says of the second system."""

    BETTER = "better"
    WORSE = "worse"
    UNDECIDED = "undecided"


class Means(NamedTuple):
    """The means of one metric over the queries, and the mean of second - first with its interval."""

    first: float
    second: float
    difference: float
    interval: Interval


class Move(NamedTuple):
    """One query's values of the metric that decides."""

    query: str
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
    def verdict(self) -> Verdict:
        """Better or worse if the interval of the difference doesn't contain 0. Source: own."""
        low, high = self.means[self.metric].interval
        if low > 0:
            return Verdict.BETTER
        return Verdict.WORSE if high < 0 else Verdict.UNDECIDED


def compare(first: ByQuery, second: ByQuery, metric: str, seed: int) -> Comparison:
    """Compare two systems by their values of the same metrics and queries, at least one; `metric` decides.

    Source: own; `interval` and `sign_test` name theirs.
    """
    means = {}
    for name, values in first.items():
        differences = [second[name][query] - value for query, value in values.items()]
        before, after = mean(values.values()), mean(second[name].values())
        means[name] = Means(before, after, mean(differences), interval(differences, seed))
    moves = [Move(query, value, second[metric][query]) for query, value in first[metric].items()]
    moves.sort(key=lambda move: (-abs(move.second - move.first), move.query))
    return Comparison(metric, means, sign_test(move.second - move.first for move in moves), tuple(moves))
