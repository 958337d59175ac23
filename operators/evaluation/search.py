"""The search space of tuning, and the search in it for the setting with the greatest figure: all combinations, or one
parameter after the other. Pure.

Which parameters of a recipe are searched, and over which values, is read from the schemas of the recipe's stages, so
that a new stage or parameter needs no line here.
"""

import itertools
import math
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

import numpy as np

from schemas.recipes import Recipe
from schemas.recipes.recipe import STAGES, Problem, RecipeError
from schemas.result import FUZZY

ALL: Final = "all"
FUSE: Final = "fuse"
"""Names in place of a stage's: every stage that runs, and the fusion, whichever the recipe has."""

Setting = Mapping[str, Any]
"""Path of a parameter -> value. A path is `stage.parameter`, or `stage.parameter.key` in a mapping such as weights."""

Schema = Mapping[str, Any]


@dataclass(frozen=True)
class Choices:
    """The values to try, in their order."""

    values: tuple[Any, ...]

    def around(self, value: Any, level: int) -> list[Any]:
        """All of them at level 0."""
        return [] if level else [each for each in self.values if each != value]


@dataclass(frozen=True)
class Even:
    """A bounded range, in equal steps: a tenth of it, then halves of that."""

    low: float
    high: float

    def around(self, value: Any, level: int) -> list[float]:
        """Eleven values over the range; at further levels both neighbours of a number."""
        step = (self.high - self.low) / 10
        if level == 0:
            found = [self.low + step * count for count in range(11)]
        else:
            found = [value - step / 2**level, value + step / 2**level] if _is_number(value) else []
        rounded = dict.fromkeys(round(each, 6) for each in found if self.low - 1e-9 <= each <= self.high + 1e-9)
        return sorted((each for each in rounded if each != value), key=lambda each: round(_far(each, value), 9))


@dataclass(frozen=True)
class Factor:
    """A range of no natural width: values greater and smaller than the present one by factors, and 0 if it is in it."""

    low: float
    high: float
    whole: bool = False

    def around(self, value: Any, level: int) -> list[float]:
        """1, 2, 5, 10 ... between a thirtieth and the thirtyfold; at further levels both neighbours of a number."""
        known = float(value) if _is_number(value) and value > 0 else None
        if level == 0:
            centre = known if known is not None else 10.0 if self.whole else 0.1
            found = [0.0, *_round_numbers(centre / 30, centre * 30)]
        else:
            factor = 2 ** (0.5**level)
            found = [known / factor, known * factor] if known is not None else []
        rounded = dict.fromkeys(round(each) if self.whole else float(f"{each:.2g}") for each in found)
        within = (each for each in rounded if self.low <= each <= self.high and each != value)
        return sorted(within, key=lambda each: _far(_magnitude(each), _magnitude(known)))


ParameterScale = Choices | Even | Factor
"""The values to try: `around` a value, the nearest first, over the whole range at level 0, then nearer."""


@dataclass(frozen=True)
class Dimension:
    """One parameter of a recipe, its own value there, and the values that are tried. `listed`: by the caller."""

    path: str
    own: Any
    scale: ParameterScale
    listed: bool = False


@dataclass(frozen=True)
class Wanted:
    """A part of a recipe to tune: a stage, its parameter, a key of that; without `values` they are searched."""

    stage: str
    parameter: str | None = None
    key: str | None = None
    values: tuple[Any, ...] | None = None

    def names(self, recipe: Recipe) -> list[str]:
        """The recipe's stages that are meant; none if it lacks them."""
        if self.stage == ALL:
            return [stage.name for stage in recipe.running]
        if self.stage == FUSE:
            return [recipe.fusion.name]
        return [self.stage] if self.stage in recipe.written else []

    def __str__(self) -> str:
        return ".".join(part for part in (self.stage, self.parameter, self.key) if part is not None)


def dimensions(recipe: Recipe, wanted: Wanted) -> list[Dimension]:
    """The dimensions of the wanted part of this recipe, which has its stages.

    A stage alone stands for its numbers; choices and whole numbers are searched if they are named. Raises RecipeError
    for a parameter that the stage lacks, or that can't be searched.
    """
    found = [each for stage in wanted.names(recipe) for each in _of_stage(recipe, stage, wanted)]
    if not found and wanted.parameter is None:
        raise RecipeError(Problem(str(wanted), "no parameter of it is a number: name one, with values", recipe.name))
    return found


def with_setting(recipe: Recipe, setting: Setting) -> Recipe:
    """The recipe with this setting. Raises RecipeError if that is no valid one."""
    overrides: dict[str, dict[str, Any]] = {}
    # A mapping as a whole goes before its keys.
    for path in sorted(setting, key=lambda path: path.count(".")):
        stage, parameter, *key = path.split(".", 2)
        parameters = overrides.setdefault(stage, {})
        if not key:
            parameters[parameter] = setting[path]
        else:
            before = parameters.get(parameter, recipe.parameters.get(stage, {}).get(parameter))
            parameters[parameter] = {**(before or {}), key[0]: setting[path]}
    return recipe.overridden(overrides)


def _of_stage(recipe: Recipe, stage: str, wanted: Wanted) -> Iterator[Dimension]:
    schemas: Mapping[str, Schema] = STAGES[stage].model_json_schema(by_alias=True)["properties"]
    own = recipe.parameters[stage]
    if wanted.parameter is None:
        for name, schema in schemas.items():
            # Without a weight this leg is not asked.
            if name != FUZZY or own[name]:
                yield from _numbers(recipe, f"{stage}.{name}", own[name], schema)
        return
    path = f"{stage}.{wanted.parameter}"
    if wanted.parameter not in schemas:
        raise RecipeError(Problem(path, f"the stage has no such parameter; it has {', '.join(schemas)}", wanted.values))
    schema, value = schemas[wanted.parameter], own[wanted.parameter]
    if wanted.key is not None:
        entry = _entries(schema)
        if entry is None:
            raise RecipeError(Problem(f"{path}.{wanted.key}", "the parameter has no keys", value))
        path, schema, value = f"{path}.{wanted.key}", entry, _entry(recipe, stage, value, wanted.key)
    if wanted.values is not None:
        yield Dimension(path, value, Choices(wanted.values), listed=True)
    elif (scale := _scale(schema)) is not None:
        yield Dimension(path, value, scale)
    elif numbers := list(_numbers(recipe, path, value, schema)):
        yield from numbers
    else:
        raise RecipeError(Problem(path, "no range to search: list values, as in PARAMETER=VALUE,VALUE", value))


def _numbers(recipe: Recipe, path: str, value: Any, schema: Schema) -> Iterator[Dimension]:
    """The parameter if it is a number, or each of its entries if it is a mapping to numbers."""
    if (scale := _number(schema)) is not None:
        yield Dimension(path, value, scale)
    entry = _entries(schema)
    if entry is not None and (of_entry := _number(entry)) is not None:
        stage = path.split(".", 1)[0]
        # The leg fuzzy has a parameter of its own.
        legs = (leg for leg in recipe.fusion.legs if leg != FUZZY) if stage == recipe.fusion.name else ()
        for key in dict.fromkeys((*legs, *(value or {}))):
            yield Dimension(f"{path}.{key}", _entry(recipe, stage, value, key), of_entry)


def _entry(recipe: Recipe, stage: str, value: Mapping[str, Any] | None, key: str) -> Any:
    """A leg that a fusion asks and gives no weight has 1."""
    of_leg = 1.0 if stage == recipe.fusion.name and key in recipe.fusion.legs else None
    return (value or {}).get(key, of_leg)


def _branches(schema: Schema) -> list[Schema]:
    return list(schema.get("anyOf", [schema]))


def _entries(schema: Schema) -> Schema | None:
    """The schema of a mapping's values."""
    found = (branch.get("additionalProperties") for branch in _branches(schema))
    return next((each for each in found if isinstance(each, Mapping)), None)


def _number(schema: Schema, kind: str = "number") -> Even | Factor | None:
    """The range of a number, unless some numbers are listed."""
    for branch in _branches(schema):
        if branch.get("type") == kind and "enum" not in branch:
            low = branch.get("minimum", branch.get("exclusiveMinimum", -math.inf))
            high = branch.get("maximum", branch.get("exclusiveMaximum", math.inf))
            whole = kind == "integer"
            return Even(low, high) if high - low <= 1 and not whole else Factor(low, high, whole)
    return None


def _scale(schema: Schema) -> ParameterScale | None:
    if (number := _number(schema)) is not None:
        return number
    for branch in _branches(schema):
        if "enum" in branch:
            return Choices(tuple(branch["enum"]))
        if branch.get("type") == "boolean":
            return Choices((True, False))
    return _number(schema, "integer")


def _round_numbers(low: float, high: float) -> list[float]:
    """The numbers 1, 2 and 5 times a power of ten from `low` to `high`."""
    # A thirtieth of the smallest number is 0.
    powers = range(math.floor(math.log10(max(low, sys.float_info.min))), math.ceil(math.log10(high)) + 1)
    found = (float(f"{digit}e{power}") for power in powers for digit in (1, 2, 5))
    return [each for each in found if low <= each <= high]


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _magnitude(value: float | None) -> float | None:
    return math.log(value) if value else None


def _far(value: float | None, other: Any) -> float:
    if value is None:
        return math.inf
    return abs(value - other) if _is_number(other) else value


LEVELS: Final = 3
"""The number of times that the steps are made finer."""

_DRAWN: Final = 10
"""Settings that are drawn for each parameter."""

Figure = Callable[[Setting], float | None]
"""The figure of a setting; None for an impossible setting."""


@dataclass(frozen=True)
class BestSetting:
    """The best setting, without values that are the recipe's own, and its figure; how many settings were tried.

    `complete`: the search ended before the number of trials did.
    """

    setting: Setting
    figure: float
    tried: int
    complete: bool = True


def exhaustive(dimensions: Sequence[Dimension], figure: Figure) -> BestSetting | None:
    """The best of all combinations of listed values; of equals the first. None if none is possible.

    Source: own; a grid search.
    """
    paths = [dimension.path for dimension in dimensions]
    scales = [dimension.scale for dimension in dimensions]
    every = list(itertools.product(*(scale.values if isinstance(scale, Choices) else () for scale in scales)))
    settings = (dict(zip(paths, values, strict=True)) for values in every)
    found = (BestSetting(each, reached, len(every)) for each in settings if (reached := figure(each)) is not None)
    return max(found, key=lambda each: each.figure, default=None)


def coordinate_search(dimensions: Sequence[Dimension], figure: Figure, most: int, seed: int) -> BestSetting | None:
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


@dataclass
class _Search:
    dimensions: Sequence[Dimension]
    figure: Figure
    most: int
    best: BestSetting = BestSetting({}, -math.inf, 0)
    tried: int = 0
    _known: dict[tuple[str, ...], float] = field(default_factory=dict)

    def run(self, seed: int) -> None:
        listed = (each for each in self.dimensions if each.listed)
        start = {each.path: each.scale.values[0] for each in listed if isinstance(each.scale, Choices)}
        self._refine(self._try(start))
        draw = np.random.default_rng(seed)
        drawn = [self._try(self._draw(draw)) for _ in range(_DRAWN * len(self.dimensions))]
        self._refine(max(drawn, key=lambda found: found.figure))

    def _draw(self, draw: np.random.Generator) -> dict[str, Any]:
        """Half of the parameters keep their own value: where two exclude each other, most draws are possible."""
        setting = {}
        for each in self.dimensions:
            values = each.scale.values if isinstance(each.scale, Choices) else each.scale.around(each.own, 0)
            drawn = values[int(draw.integers(len(values)))]
            setting[each.path] = drawn if each.listed or draw.random() < 0.5 else each.own
        return setting

    def _refine(self, found: BestSetting) -> None:
        """Go from a setting to the best around it, and take back what that doesn't need."""
        for level in range(LEVELS):
            before = -math.inf
            while found.figure > before:
                before = found.figure
                for dimension in self.dimensions:
                    found = self._move(found, dimension, level)
        for dimension in self.dimensions:
            if dimension.path in found.setting and not dimension.listed:
                without = {path: value for path, value in found.setting.items() if path != dimension.path}
                simpler = self._try(without)
                found = simpler if simpler.figure >= found.figure else found
        if found.figure == self.best.figure and len(found.setting) < len(self.best.setting):
            self.best = found

    def _move(self, found: BestSetting, dimension: Dimension, level: int) -> BestSetting:
        present = found.setting.get(dimension.path, dimension.own)
        around = [{**found.setting, dimension.path: value} for value in dimension.scale.around(present, level)]
        # The first of equals, which is the nearest, and the present one before all.
        return max([found, *map(self._try, around)], key=lambda each: each.figure)

    def _try(self, setting: dict[str, Any]) -> BestSetting:
        own = {each.path: each.own for each in self.dimensions if not each.listed}
        setting = {path: value for path, value in setting.items() if path not in own or value != own[path]}
        key = tuple(repr(setting.get(dimension.path, dimension.own)) for dimension in self.dimensions)
        if key not in self._known:
            if self.tried >= self.most:
                raise _SpentError
            reached = self.figure(setting)
            self._known[key] = -math.inf if reached is None else reached
            self.tried += reached is not None
        found = BestSetting(setting, self._known[key], self.tried)
        if found.figure > self.best.figure:
            self.best = found
        return found
