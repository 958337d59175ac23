"""A test for growth: a slope that outliers don't move, its confidence, and a verdict with the amount.

A process warms up: the first quarter of a series decides nothing. Samples that follow each other are alike, so the
slope is over the medians of blocks of them, which are nearly independent: else its interval would be too narrow.
"""

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations, pairwise
from typing import Any, Final

from bench.figures import BenchError

BLOCKS: Final = 30
MATERIAL: Final = 0.02
"""The part of itself by which memory may differ between two quarters: allocators breathe."""

FEWEST: Final = 8
"""Samples without which there is no verdict."""

MEMORY_CRITERION: Final = (
    f"not flat if the median of the last quarter is more than {MATERIAL:.0%} above that of the second, "
    f"and the 95 % confidence interval of the slope is above 0 (Theil-Sen over {BLOCKS} block medians "
    "after the first quarter)"
)
COUNT_CRITERION: Final = (
    "not flat if the median of the last quarter is above that of the second, and the 95 % confidence interval of the "
    "slope is above 0: a pool of connections opens one more when as many calls as never before are under way"
)

_Z_95: Final = 1.96


@dataclass(frozen=True, slots=True)
class Slope:
    """A slope and its 95 % confidence interval."""

    estimate: float
    low: float
    high: float

    def times(self, factor: float) -> dict[str, float]:
        """The slope by a unit `factor` times as large, rounded."""
        return {
            "estimate": round(self.estimate * factor, 3),
            "low": round(self.low * factor, 3),
            "high": round(self.high * factor, 3),
        }


def theil_sen(xs: Sequence[float], ys: Sequence[float]) -> Slope:
    """The median of the slopes between all pairs, with Sen's interval. Raises ValueError unless two `xs` differ."""
    slopes = sorted(
        (y2 - y1) / (x2 - x1) for (x1, y1), (x2, y2) in combinations(zip(xs, ys, strict=True), 2) if x1 != x2
    )
    if not slopes:
        raise ValueError("no two points to draw a line through")
    count = len(xs)
    # The variance of Kendall's S, where nothing depends on x.
    spread = _Z_95 * math.sqrt(count * (count - 1) * (2 * count + 5) / 18)
    low = max(math.floor((len(slopes) - spread) / 2), 0)
    high = min(math.ceil((len(slopes) + spread) / 2), len(slopes) - 1)
    return Slope(statistics.median(slopes), slopes[low], slopes[high])


def blocks(values: Sequence[float], count: int) -> list[float]:
    """The medians of `count` runs of values of nearly equal length, or the values where there are no more."""
    count = min(count, len(values))
    edges = [len(values) * number // count for number in range(count + 1)]
    return [statistics.median(values[begin:end]) for begin, end in pairwise(edges)]


@dataclass(frozen=True, slots=True)
class Growth:
    """The trend of a series of samples after its first quarter; the slope is a second's."""

    first: float
    last: float
    maximum: float
    second_quarter: float
    last_quarter: float
    slope: Slope

    @classmethod
    def of(cls, seconds: Sequence[float], values: Sequence[float]) -> "Growth":
        """The growth of the series. Raises BenchError if there are fewer than FEWEST samples."""
        if len(values) < FEWEST:
            raise BenchError(f"{len(values)} samples are too few to tell whether anything grows")
        quarter = len(values) // 4
        return cls(
            first=values[0],
            last=values[-1],
            maximum=max(values),
            second_quarter=statistics.median(values[quarter : 2 * quarter]),
            last_quarter=statistics.median(values[-quarter:]),
            slope=theil_sen(blocks(seconds[quarter:], BLOCKS), blocks(values[quarter:], BLOCKS)),
        )

    def flat_memory(self) -> bool:
        """The verdict by MEMORY_CRITERION."""
        return self.last_quarter <= (1 + MATERIAL) * self.second_quarter or self.slope.low <= 0

    def flat_count(self) -> bool:
        """The verdict by COUNT_CRITERION."""
        return self.last_quarter <= self.second_quarter or self.slope.low <= 0

    def report(self, queries_per_second: float) -> dict[str, Any]:
        """The figures, the slope by a million queries."""
        return {
            "first": round(self.first, 2),
            "last": round(self.last, 2),
            "max": round(self.maximum, 2),
            "second_quarter": round(self.second_quarter, 2),
            "last_quarter": round(self.last_quarter, 2),
            "slope_per_million_queries": self.slope.times(1e6 / queries_per_second),
        }
