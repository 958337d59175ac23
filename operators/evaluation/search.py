"""The search for the setting with the greatest figure: all combinations, or one parameter after the other. Pure."""

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np

from operators.evaluation.search_space import Dimension, Listed, Setting

LEVELS: Final = 3
"""The number of times that the steps are made finer."""

_DRAWN: Final = 10
"""Settings that are drawn for each parameter."""

Figure = Callable[[Setting], float | None]
"""The figure of a setting; None for an impossible setting."""


@dataclass(frozen=True)
class Found:
    """The best setting, without values that are the recipe's own, and its figure; how many settings were tried.

    `complete`: the search ended before the number of trials did.
    """

    setting: Setting
    figure: float
    tried: int
    complete: bool = True


def exhaustive(dimensions: Sequence[Dimension], figure: Figure) -> Found | None:
    """The best of all combinations of listed values; of equals the first. None if none is possible.

    Source: own; a grid search.
    """
    best: Found | None = None
    scales = [dimension.scale for dimension in dimensions]
    every = itertools.product(*(scale.values if isinstance(scale, Listed) else () for scale in scales))
    tried = 0
    for values in every:
        setting = {dimension.path: value for dimension, value in zip(dimensions, values, strict=True)}
        reached = figure(setting)
        tried += 1
        if reached is not None and (best is None or reached > best.figure):
            best = Found(setting, reached, tried)
    return None if best is None else replace(best, tried=tried)


def coordinate_search(dimensions: Sequence[Dimension], figure: Figure, most: int, seed: int) -> Found | None:
    """The best setting that is found by changing one parameter at a time, by at most `most` trials.

    It begins with the recipe's own values, and with the first of those that are listed. Each parameter in turn moves to
    the value of its range with the greatest figure, until none moves; then to neighbours, in ever smaller steps. Then
    the same from the best of ten settings for each parameter that are drawn at random: parameters that only pay
    together are found so. A value moves only for a greater figure, and at last each change that brings nothing is taken
    back. Equal seeds and figures give equal settings; None if no setting is possible. Source: Hooke and Jeeves 1961,
    over a grid and from several starts.
    """
    search = _Search(dimensions, figure, most)
    complete = True
    try:
        search.run(seed)
    except _SpentError:
        complete = False
    if search.best.figure == -math.inf:
        return None
    return replace(search.best, tried=search.tried, complete=complete)


class _SpentError(Exception):
    """There are no trials left."""


class _Search:
    def __init__(self, dimensions: Sequence[Dimension], figure: Figure, most: int) -> None:
        self._dimensions = dimensions
        self._figure = figure
        self._most = most
        self._known: dict[tuple[str, ...], float] = {}
        self.best = Found({}, -math.inf, 0)
        self.tried = 0

    def run(self, seed: int) -> None:
        listed = (each for each in self._dimensions if each.listed)
        start = {each.path: each.scale.values[0] for each in listed if isinstance(each.scale, Listed)}
        self._refine(self._try(start))
        draw = np.random.default_rng(seed)
        drawn = [self._try(self._draw(draw)) for _ in range(_DRAWN * len(self._dimensions))]
        self._refine(max(drawn, key=lambda found: found.figure))

    def _draw(self, draw: np.random.Generator) -> dict[str, Any]:
        """Half of the parameters keep their own value: where two exclude each other, most draws are possible."""
        setting = {}
        for each in self._dimensions:
            values = each.scale.values if isinstance(each.scale, Listed) else each.scale.around(each.own, 0)
            drawn = values[int(draw.integers(len(values)))]
            setting[each.path] = drawn if each.listed or draw.random() < 0.5 else each.own
        return setting

    def _refine(self, found: Found) -> None:
        """Go from a setting to the best around it, and take back what that doesn't need."""
        for level in range(LEVELS):
            before = -math.inf
            while found.figure > before:
                before = found.figure
                for dimension in self._dimensions:
                    found = self._move(found, dimension, level)
        for dimension in self._dimensions:
            if dimension.path in found.setting and not dimension.listed:
                without = {path: value for path, value in found.setting.items() if path != dimension.path}
                simpler = self._try(without)
                found = simpler if simpler.figure >= found.figure else found
        if found.figure > self.best.figure or (
            found.figure == self.best.figure and len(found.setting) < len(self.best.setting)
        ):
            self.best = found

    def _move(self, found: Found, dimension: Dimension, level: int) -> Found:
        present = found.setting.get(dimension.path, dimension.own)
        around = [{**found.setting, dimension.path: value} for value in dimension.scale.around(present, level)]
        # The first of equals, which is the nearest, and the present one before all.
        return max([found, *map(self._try, around)], key=lambda each: each.figure)

    def _try(self, setting: dict[str, Any]) -> Found:
        own = {each.path: each.own for each in self._dimensions if not each.listed}
        setting = {path: value for path, value in setting.items() if path not in own or value != own[path]}
        key = tuple(repr(setting.get(dimension.path, dimension.own)) for dimension in self._dimensions)
        if key not in self._known:
            if self.tried >= self._most:
                raise _SpentError
            reached = self._figure(setting)
            self._known[key] = -math.inf if reached is None else reached
            self.tried += reached is not None
        found = Found(setting, self._known[key], self.tried)
        if found.figure > self.best.figure:
            self.best = found
        return found
