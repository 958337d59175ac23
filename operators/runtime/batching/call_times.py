"""Durations of calls to a backend, learnt from the latest calls. Pure: durations come from the caller, in seconds.

A call of n units takes about a + b * n: a fixed part, and a time for each unit. Both are fitted by least squares to the
calls, each of which counts three quarters of the next one, together with a call of nothing that takes no time: so calls
that are all of one size say that time is in proportion to units. Neither part is below 0. Source: own; the fit is
weighted least squares, whose means and moments are kept up call by call (West 1979).
"""

import math
from collections import deque
from typing import Final

LATEST_CALLS: Final = 8
"""Among how many of the latest calls the quickest is looked for."""

_LARGEST_OF: Final = 16
"""Among how many of the latest calls the largest is looked for."""

_FEWEST: Final = 4
"""After how many calls something is known: the first ones also open connections and fill caches."""

_FADING: Final = 0.75
_NOTHING: Final = 0.25
"""The weight of the call of nothing, where the latest call weighs 1."""

_LONGER: Final = 2.0
"""A call that was given up is taken to need this many times the time that it was given."""


class CallTimes:
    """The latest calls of one backend, by the units that they carried and the time that they took.

    After less than four calls nothing is known of how long others take.
    """

    def __init__(self) -> None:
        self._quick: deque[float] = deque(maxlen=LATEST_CALLS)
        self._sizes: deque[int] = deque(maxlen=_LARGEST_OF)
        self._moments = _Moments()
        self._fit = 0.0, 0.0
        self.rate = math.inf
        """Units a second of one call after another, each as large as the largest of the latest; infinity if unknown."""

    def note(self, units: int, took: float, *, answered: bool = True) -> None:
        """A call ended after `took` seconds. One that was given up only counts if an answer was expected by then."""
        if answered:
            self._quick.append(took)
        elif took > self.takes(units):
            took *= _LONGER
        else:
            return
        self._moments.note(units, took)
        self._sizes.append(units)
        if len(self._sizes) >= _FEWEST:
            self._fit = self._moments.fit()
            most = max(self._sizes)
            takes = self.takes(most)
            self.rate = most / takes if takes else math.inf

    @property
    def quickest(self) -> float:
        """The time of the quickest of the latest calls that were answered; 0 without any."""
        return min(self._quick, default=0.0)

    def takes(self, units: int) -> float:
        """The time that a call of `units` units is expected to take; 0 where nothing is known."""
        fixed, each = self._fit
        return fixed + each * units

    def within(self, seconds: float) -> float:
        """The number of units that a call may carry to be answered within `seconds`: a whole number, or infinity."""
        fixed, each = self._fit
        if seconds < fixed:
            return 0
        left = (seconds - fixed) / each if each else math.inf
        # A hair more, so that what takes exactly as long fits.
        return math.inf if math.isinf(left) else math.floor(left * (1 + 1e-9))


class _Moments:
    """Weighted means of sizes and times, and their sums of squares and products about these."""

    __slots__ = ("_size", "_spread", "_time", "_together", "_weight")

    def __init__(self) -> None:
        self._weight = self._size = self._time = self._spread = self._together = 0.0

    def note(self, units: int, took: float) -> None:
        """A call, which weighs 1; those before it fade."""
        self._weight = _FADING * self._weight + 1
        larger = units - self._size
        self._size += larger / self._weight
        self._time += (took - self._time) / self._weight
        self._spread = _FADING * self._spread + larger * (units - self._size)
        self._together = _FADING * self._together + larger * (took - self._time)

    def fit(self) -> tuple[float, float]:
        """The fixed part and the time for a unit."""
        weight, size, time = self._weight, self._size, self._time
        apart = weight * _NOTHING / (weight + _NOTHING)
        slope = (self._together + apart * size * time) / (self._spread + apart * size**2)
        if slope <= 0:
            return time, 0.0
        fixed = weight / (weight + _NOTHING) * (time - slope * size)
        if fixed >= 0:
            return fixed, slope
        # Through the origin.
        return 0.0, (self._together + weight * size * time) / (self._spread + weight * size**2)
