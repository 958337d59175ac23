"""The exponent by which a cost grows with a size, and whether it grows faster than the size itself.

A cost that does not depend on the size hides growth: in 1 + x² / 10⁶ it is the square that matters, and on a log-log
plot the curve is flat for long. So two exponents are fitted, both by Theil and Sen: one of the cost, and one of its
increase above the cost at the smallest size, which is 1 for every straight line. The second one gives the verdict.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from bench.growth import Slope, theil_sen

MATERIAL: Final = 1.1
"""Sorting grows a little faster than its items: by 1.2 from 50 to 1,000. Below this is the noise of the fit."""

CRITERION: Final = (
    f"faster than linear if the exponent of the increase is above {MATERIAL} and its 95 % confidence interval above 1 "
    "(Theil-Sen over the logarithms of all rounds; sizes at which the cost is not above that of the smallest in every "
    "round are left out)"
)


@dataclass(frozen=True, slots=True)
class Exponent:
    """The exponents of a cost and of its increase; the second is None where fewer than two sizes increase it."""

    cost: Slope
    increase: Slope | None

    @classmethod
    def of(cls, rounds: Mapping[int, Sequence[float]]) -> "Exponent":
        """The exponents of positive costs by size, a cost for each round, and the rounds in one order.

        Raises ValueError for fewer than two sizes.
        """
        return cls(
            _slope((size, cost) for size, costs in rounds.items() for cost in costs),
            _increase(rounds),
        )

    @property
    def superlinear(self) -> bool:
        """The verdict by CRITERION."""
        return self.increase is not None and self.increase.estimate > MATERIAL and self.increase.low > 1

    def report(self) -> dict[str, Any]:
        """Both exponents, rounded, and the verdict."""
        return {
            "cost": self.cost.times(1),
            "increase": None if self.increase is None else self.increase.times(1),
            "superlinear": self.superlinear,
        }


def _increase(rounds: Mapping[int, Sequence[float]]) -> Slope | None:
    least = min(rounds)
    increases = {
        size - least: [cost - base for cost, base in zip(costs, rounds[least], strict=True)]
        for size, costs in rounds.items()
        if size != least
    }
    grown = {size: costs for size, costs in increases.items() if min(costs) > 0}
    if len(grown) < 2:
        return None
    return _slope((size, cost) for size, costs in grown.items() for cost in costs)


def _slope(points: Iterable[tuple[float, float]]) -> Slope:
    sizes, costs = zip(*points, strict=True)
    return theil_sen([math.log(size) for size in sizes], [math.log(cost) for cost in costs])
