"""The search space of tuning, and the search in it: one parameter of a recipe after the other. Pure.

Which parameters of a recipe are searched, and over which values, is read from the schemas of the recipe's stages, so
that a new stage or parameter needs no line here.
"""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from schemas.recipes import Recipe
from schemas.recipes.recipe import STAGES, Problem, RecipeError
from schemas.result import FUZZY

ALL: Final = "all"
FUSE: Final = "fuse"
"""Names in place of a stage's: every stage that runs, and the fusion, whichever the recipe has."""

_STEPS: Final = 20
"""Steps of a range that is bounded; others are searched by factors, a power of ten in each direction."""
_DIGITS: Final = (1, 1.5, 2, 3, 5, 7)

Setting = Mapping[str, Any]
"""Path of a parameter -> value. A path is `stage.parameter`, or `stage.parameter.key` in a mapping such as weights."""

Schema = Mapping[str, Any]


@dataclass(frozen=True)
class Dimension:
    """One parameter of a recipe, its own value there, and the values that are tried. `listed`: by the caller."""

    path: str
    own: Any
    values: Sequence[Any]
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
        yield Dimension(path, value, wanted.values, listed=True)
    elif numbers := list(_numbers(recipe, path, value, schema)):
        yield from numbers
    elif choices := _choices(schema) or _spread(schema, value, "integer"):
        yield Dimension(path, value, choices)
    else:
        raise RecipeError(Problem(path, "no range to search: list values, as in PARAMETER=VALUE,VALUE", value))


def _numbers(recipe: Recipe, path: str, value: Any, schema: Schema) -> Iterator[Dimension]:
    """The parameter if it is a number, or each of its entries if it is a mapping to numbers."""
    if values := _spread(schema, value):
        yield Dimension(path, value, values)
    if (entry := _entries(schema)) is not None and _spread(entry, None):
        stage = path.split(".", 1)[0]
        # The leg fuzzy has a parameter of its own.
        legs = (leg for leg in recipe.fusion.legs if leg != FUZZY) if stage == recipe.fusion.name else ()
        for key in dict.fromkeys((*legs, *(value or {}))):
            own = _entry(recipe, stage, value, key)
            yield Dimension(f"{path}.{key}", own, _spread(entry, own))


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


def _choices(schema: Schema) -> Sequence[Any]:
    of_each = (each.get("enum", [True, False] if each.get("type") == "boolean" else []) for each in _branches(schema))
    return next(filter(None, of_each), [])


def _spread(schema: Schema, own: Any, kind: str = "number") -> Sequence[float]:
    """Values over the range of a number: equal steps, or around the own value, and 0 if it is in the range."""
    branch = next((each for each in _branches(schema) if each.get("type") == kind and "enum" not in each), None)
    if branch is None:
        return []
    low = branch.get("minimum", branch.get("exclusiveMinimum", -math.inf))
    high = branch.get("maximum", branch.get("exclusiveMaximum", math.inf))
    whole = kind == "integer"
    if high - low <= 1 and not whole:
        return [round(low + (high - low) * step / _STEPS, 6) for step in range(_STEPS + 1)]
    centre = own if _is_number(own) and own > 0 else 10 if whole else 0.1
    power = math.floor(math.log10(centre))
    found = (float(f"{digit}e{place}") for place in range(power - 1, power + 2) for digit in _DIGITS)
    values = dict.fromkeys(round(each) if whole else each for each in (0.0, *found))
    return [each for each in values if low <= each <= high]


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


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


class _SpentError(Exception):
    """There are no trials left."""


def coordinate_search(dimensions: Sequence[Dimension], figure: Figure, most: int) -> BestSetting | None:
    """The best setting that is found by changing one parameter at a time, by at most `most` trials.

    It begins with the recipe's own values, and with the first of those that are listed. Each parameter in turn moves to
    its value with the greatest figure, of equals the nearest, until none moves. None if no setting is possible.
    Source: own, coordinate ascent over a grid.
    """
    known = dict[tuple[str, ...], float]()
    own = {each.path: each.own for each in dimensions if not each.listed}
    tried = 0

    def reach(setting: Setting) -> float:
        nonlocal tried
        key = tuple(repr(setting.get(each.path, each.own)) for each in dimensions)
        if key not in known:
            if tried >= most:
                raise _SpentError
            reached = figure(setting)
            known[key] = -math.inf if reached is None else reached
            tried += reached is not None
        return known[key]

    best: Setting = {each.path: each.values[0] for each in dimensions if each.listed}
    greatest, before, complete = -math.inf, None, True
    try:
        greatest = reach(best)
        while best != before:
            before = best
            for each in dimensions:
                for value in _by_distance(each.values, best.get(each.path, each.own)):
                    changed = {
                        path: one for path, one in {**best, each.path: value}.items() if own.get(path, ()) != one
                    }
                    if (reached := reach(changed)) > greatest:
                        best, greatest = changed, reached
    except _SpentError:
        complete = False
    return BestSetting(best, greatest, tried, complete) if greatest > -math.inf else None


def _by_distance(values: Sequence[Any], present: Any) -> list[Any]:
    def distance(value: Any) -> float:
        return abs(value - present) if _is_number(value) and _is_number(present) else 0.0

    return sorted(values, key=distance)
