"""Shares of a backend that can't serve all requests in time. Pure.

Each demand is some units by some time, of one tenant. The backend serves `rate` units a second. Promises:

- If all demands can be served in time, each is served whole.
- Otherwise the rate is divided among the tenants by max-min fairness: a tenant that needs less than an equal part gets
  all it needs, and the others share the rest equally. So no tenant's load reduces the share that another needs.
- Among the demands of one tenant the part that is served is as equal as their times allow.

Sources: max-min fairness as in Bertsekas and Gallager, *Data Networks*, 1992; the parts are the slopes of the greatest
convex minorant of served over demanded units (Barlow et al. 1972), the lowest first.
"""

from collections.abc import Iterator, Sequence
from itertools import repeat
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray


class Demands(NamedTuple):
    """Demands in the order of their times: the units of each, and the seconds `left` for it, both above 0."""

    units: NDArray[np.float64]
    left: NDArray[np.float64]


def fits(demands: Demands, rate: float) -> bool:
    """True if a backend of that rate serves all demands in time."""
    return bool(np.all(np.cumsum(demands.units) <= rate * demands.left))


def needed_rate(demands: Demands) -> float:
    """The smallest rate at which all demands are served in time."""
    return float(np.max(np.cumsum(demands.units) / demands.left))


def max_min(needs: Sequence[float], rate: float) -> list[float]:
    """Each tenant's share of the rate, by the tenants' needs."""
    shares = [0.0] * len(needs)
    left = rate
    for served, index in enumerate(sorted(range(len(needs)), key=needs.__getitem__)):
        shares[index] = min(needs[index], left / (len(needs) - served))
        left -= shares[index]
    return shares


def shares_in_time(demands: Demands, rate: float) -> Iterator[float]:
    """Which part of each demand, from 0 to 1, a backend of that rate serves in time.

    The parts never fall from one demand to the next. Each is worked out when it is taken: a call needs only the first.
    """
    units, served = np.cumsum(demands.units), rate * demands.left
    begin, before, served_before = 0, 0.0, 0.0
    while begin < len(units):
        slopes = (served[begin:] - served_before) / (units[begin:] - before)
        lowest = int(np.argmin(slopes))
        part, count = float(slopes[lowest]), lowest + 1
        if part >= 1:
            part, count = 1.0, len(slopes)
        yield from repeat(part, count)
        begin += count
        before, served_before = units[begin - 1], served[begin - 1]
