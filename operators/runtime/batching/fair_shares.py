"""Shares of a backend that can't serve all requests in time. Pure.

Each demand is some units by some time, of one tenant. The backend serves `rate` units a second. Promises:

- If all demands can be served in time, each is served whole.
- Otherwise the rate is divided among the tenants by max-min fairness: a tenant that needs less than an equal part gets
  all it needs, and the others share the rest equally. So no tenant's load reduces the share that another needs.
- Among the demands of one tenant the part that is served is as equal as their times allow.

Sources: max-min fairness as in Bertsekas and Gallager, *Data Networks*, 1992; the parts are the slopes of the greatest
convex minorant of served over demanded units, by pool-adjacent-violators (Barlow et al. 1972).
"""

import math
from collections.abc import Sequence
from typing import NamedTuple


class Demand(NamedTuple):
    """So many units within `left` seconds, both above 0."""

    units: float
    left: float


def fits(demands: Sequence[Demand], rate: float) -> bool:
    """True if a backend of that rate serves all demands in time; they are in the order of their times."""
    units = 0.0
    for demand in demands:
        units += demand.units
        if units > rate * demand.left:
            return False
    return True


def needed_rate(demands: Sequence[Demand]) -> float:
    """The smallest rate at which all demands are served in time; they are in the order of their times."""
    units, rate = 0.0, 0.0
    for demand in demands:
        units += demand.units
        rate = max(rate, units / demand.left)
    return rate


def max_min(needs: Sequence[float], rate: float) -> list[float]:
    """Each tenant's share of the rate, by the tenants' needs."""
    shares = [0.0] * len(needs)
    left = rate
    for served, index in enumerate(sorted(range(len(needs)), key=needs.__getitem__)):
        shares[index] = min(needs[index], left / (len(needs) - served))
        left -= shares[index]
    return shares


def shares_in_time(demands: Sequence[Demand], rate: float) -> list[float]:
    """Which part of each demand, from 0 to 1, a backend of that rate serves in time, in the order of their times.

    The parts never fall from one demand to the next.
    """
    blocks: list[tuple[float, float, int]] = []
    before = 0.0
    for demand in demands:
        units, served, count = demand.units, rate * (demand.left - before), 1
        if math.isinf(demand.left):
            served = math.inf
        before = demand.left
        while blocks and blocks[-1][1] * units >= served * blocks[-1][0]:
            earlier = blocks.pop()
            units, served, count = units + earlier[0], served + earlier[1], count + earlier[2]
        blocks.append((units, served, count))
    return [min(1.0, served / units) for units, served, count in blocks for _ in range(count)]
