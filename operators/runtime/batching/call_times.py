"""How long calls to a backend take, learnt from the latest of them. Pure: durations come from the caller, in seconds.

A call of n units takes about a + b * n: a fixed part, and a time for each unit. Both are fitted by least squares to the
latest calls, each of which counts three quarters of the next one, together with a call of nothing that takes no time:
so calls that are all of one size say that time is in proportion to units. Neither part is below 0. Source: own; the fit
is weighted least squares.
"""

import math
from collections import deque
from collections.abc import Sequence
from typing import Final

LATEST_CALLS: Final = 8
"""Among how many of the latest calls the quickest is looked for."""

FITTED_CALLS: Final = 16
"""How many of the latest calls the fit is made of."""

_FEWEST: Final = 4
"""After how many calls something is known: the first ones also open connections and fill caches."""

_FADING: Final = 0.75
_NOTHING: Final = 0.25
"""The weight of the call of nothing, where the latest call weighs 1."""

_LONGER: Final = 2.0
"""How many times as long as it was given a call is taken to need that was given up."""


class CallTimes:
    """The latest calls of one backend, by the units that they carried and the time that they took.

    After less than four calls nothing is known of how long others take.
    """

    def __init__(self) -> None:
        self._quick: deque[float] = deque(maxlen=LATEST_CALLS)
        self._calls: deque[tuple[int, float]] = deque(maxlen=FITTED_CALLS)
        self._fit: tuple[float, float] | None = None

    def answered(self, units: int, took: float) -> None:
        """A call brought an answer after `took` seconds."""
        self._quick.append(took)
        self._note(units, took)

    def unanswered(self, units: int, after: float) -> None:
        """A call was given up after so long; it only counts if it was expected to be answered by then."""
        if after > self.takes(units):
            self._note(units, _LONGER * after)

    @property
    def quickest(self) -> float:
        """The time of the quickest of the latest calls that were answered; 0 without any."""
        return min(self._quick, default=0.0)

    def takes(self, units: int) -> float:
        """The time that a call of so many units is expected to take; 0 where nothing is known."""
        fixed, each = self._fitted()
        return fixed + each * units

    def within(self, seconds: float) -> float:
        """How many units a call may carry to be answered within `seconds`: a whole number, or infinity."""
        fixed, each = self._fitted()
        if seconds < fixed:
            return 0
        left = (seconds - fixed) / each if each else math.inf
        # A hair more, so that what takes exactly as long fits.
        return math.inf if math.isinf(left) else math.floor(left * (1 + 1e-9))

    @property
    def rate(self) -> float:
        """Units a second of one call after another, each as large as the largest of the latest; infinity if unknown."""
        most = max((units for units, _ in self._calls), default=0)
        takes = self.takes(most)
        return most / takes if takes else math.inf

    def _note(self, units: int, took: float) -> None:
        self._calls.append((units, took))
        self._fit = None

    def _fitted(self) -> tuple[float, float]:
        if self._fit is None:
            self._fit = _fit(self._calls) if len(self._calls) >= _FEWEST else (0.0, 0.0)
        return self._fit


def _fit(calls: Sequence[tuple[int, float]]) -> tuple[float, float]:
    """The fixed part and the time for a unit."""
    weighed = [(_FADING**age, units, took) for age, (units, took) in enumerate(reversed(calls))]
    weight = _NOTHING + sum(each for each, _, _ in weighed)
    size = sum(each * units for each, units, _ in weighed) / weight
    time = sum(each * took for each, _, took in weighed) / weight
    spread = _NOTHING * size**2 + sum(each * (units - size) ** 2 for each, units, _ in weighed)
    together = _NOTHING * size * time
    together += sum(each * (units - size) * (took - time) for each, units, took in weighed)
    slope = together / spread
    if slope <= 0:
        return time * weight / (weight - _NOTHING), 0.0
    fixed = time - slope * size
    if fixed >= 0:
        return fixed, slope
    # Through the origin.
    return 0.0, sum(each * units * took for each, units, took in weighed) / sum(
        each * units**2 for each, units, _ in weighed
    )
