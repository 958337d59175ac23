"""A file of recipes: the section `recipes` of a configuration, which `run` takes as it is."""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import yaml

from schemas.recipes import MAX_DISTANCE, Recipe


def write(path: Path, recipes: Mapping[str, Recipe], comments: Iterable[str]) -> None:
    """Write the recipes under their names, below the comments, a line each. Raises OSError if the file exists."""
    section = {"recipes": {name: _definition(recipe) for name, recipe in recipes.items()}}
    with path.open("x", encoding="utf-8") as out:
        out.writelines(f"# {line}\n" for line in comments)
        yaml.safe_dump(section, out, sort_keys=False, allow_unicode=True)


def _definition(recipe: Recipe) -> dict[str, Any]:
    """As one would write it: a stage without parameters is its name, and a bound that is off is left out."""
    stages = [{name: dict(parameters)} if parameters else name for name, parameters in recipe.written.items()]
    return {"stages": stages, **({MAX_DISTANCE: recipe.max_distance} if recipe.max_distance else {})}
