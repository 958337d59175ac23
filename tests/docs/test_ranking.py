"""The page about ranking: every stage and parameter that there is, with its default."""

import re
from pathlib import Path

import pytest

from schemas.recipes import SHIPPED
from schemas.recipes.recipe import STAGES

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "ranking.md"


def written(default: object) -> str:
    """A default as the page writes it."""
    if default is None:
        return "null"
    if isinstance(default, bool):
        return str(default).lower()
    return f"{default:g}" if isinstance(default, float) else str(default)


def table(stage: str) -> dict[str, str]:
    """The parameters and defaults in the stage's section."""
    section = PAGE.read_text().partition(f"### `{stage}`\n")[2].partition("\n##")[0]
    rows = section.rpartition("|---|---|---|\n")[2]
    return dict(re.findall(r"(?m)^\| `(\w+)` \| (\S+) \|", rows))


@pytest.mark.parametrize("stage", STAGES)
def test_every_stage_has_its_parameters_and_defaults(stage: str) -> None:
    """A stage's section lists exactly the parameters that it takes, with the defaults that they have."""
    fields = STAGES[stage].model_fields
    defaults = {
        field.alias or name: written(field.get_default(call_default_factory=True)) for name, field in fields.items()
    }
    assert table(stage) == defaults


def test_every_recipe_is_listed_with_its_stages() -> None:
    """The page's table has each shipped recipe, and the stages of it that are on in their order."""
    rows = dict(re.findall(r"(?m)^\| (`.*?) \| ([^|]*?) \|", PAGE.read_text().partition("## Recipes")[2]))
    listed = {name: stages for names, stages in rows.items() for name in re.findall(r"`(\w+)`", names)}
    for name, recipe in SHIPPED.items():
        running = [stage.name for stage in recipe.running]
        assert name in listed
        if name not in {"keyword", "vector"}:
            assert listed[name].split(", ") == running
