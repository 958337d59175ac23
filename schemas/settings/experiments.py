"""Section `experiments`: another recipe for some of the queries, compared with their own, or mixed with it."""

from collections.abc import Iterator, Mapping
from typing import Annotated, Literal

from pydantic import Field

from schemas.fields import NoEffect
from schemas.recipes import Recipe
from schemas.settings.ranking import RECIPES
from schemas.settings.section import Count, Section

_Names = Annotated[list[str], Field(min_length=1)]
"""Those that an experiment is for, at least one."""


class Until(Section):
    """The end of an experiment, by a test at which anybody may look at any time."""

    alpha: Annotated[float, Field(gt=0, le=0.5)] = 0.05
    """Probability of a false alarm at most, over all looks."""
    power: Annotated[float, Field(gt=0, lt=1)] = 0.8
    """Probability of finding a preference of .5 plus `effect`, by which the queries still needed are said."""
    effect: Annotated[float, Field(ge=0.005, lt=0.5)] = 0.05
    """Least preference that matters, as its distance from .5."""
    at_most: Count | None = Field(default=None, description="Queries after which it ends; null: no bound.")


class Experiment(Section):
    """Another recipe for some of the queries: those that their ids choose, and of which no other experiment has any."""

    recipe: Annotated[str, RECIPES] = Field(description="The other recipe: `b`. `a` is the query's own.")
    share: Annotated[float, Field(gt=0, le=1)] = 0.1
    """Share of the queries, chosen by a hash of experiment and query_id."""
    mode: Literal["shadow", "interleave"] = "shadow"
    """shadow: results are those of the own recipe; interleave: both recipes' results are mixed by team draft, with
    tokens, for which the search flow needs the secret that signs cursors."""
    namespaces: _Names | None = Field(default=None, description="Queries of these namespaces alone; null: of all.")
    sources: _Names | None = Field(default=None, description="Queries of these sources alone; null: of all.")
    until: NoEffect[Until | None] = Field(default=None, description="When it has its verdict; null: it goes on.")

    def contradictions(self) -> Iterator[str]:
        if self.until is not None and self.mode == "shadow":
            yield "until: no effect with mode shadow, which asks no user; remove, or set mode to interleave"


ExperimentName = Annotated[str, Field(pattern=r"^[A-Za-z0-9._-]{1,64}$")]
"""A name in tokens, records, metrics and the provenance of results."""


def find_misfits(
    experiments: Mapping[str, Experiment], recipes: Mapping[str, Recipe], topic: str | None
) -> Iterator[str]:
    """Problems of experiments with other sections."""
    if experiments and topic is None:
        yield "experiments: there is no topic for what they find; set kafka.topics.experiments"
    for name, each in experiments.items():
        recipe = recipes.get(each.recipe)
        if recipe is not None and (recipe.asks_chat or recipe.picking is not None):
            yield f"experiments.{name}.recipe: {each.recipe} asks a chat model, which no experiment does; name another"
