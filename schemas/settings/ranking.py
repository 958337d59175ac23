"""Sections `profiles`, `recipes`, `decay` and `experiments`: how queries are ranked, and what a query may change.

An experiment has some of the queries ranked by another recipe, too, which is compared with their own, or mixed with it.
"""

from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Final, Literal

from pydantic import AfterValidator, BeforeValidator, Field, PlainSerializer, PlainValidator, WithJsonSchema
from pydantic_core import InitErrorDetails, PydanticCustomError, ValidationError

from schemas.fields import Newer, NoEffect
from schemas.filters import FieldName
from schemas.query import GroupScore, GroupSize, Returned
from schemas.recipes import MAX_DISTANCE, SHIPPED, Recipe, RecipeError
from schemas.recipes.fusion import DecayTier, WeighingStage
from schemas.recipes.recipe import STAGES
from schemas.settings.section import DESTINATIONS, Count, Reference, Section

BALANCED: Final = "balanced"

GROUPING: Final = Reference(
    "nothing to group by; index it as keyword, integer or bool in qdrant.indexes",
    lambda root, name: root.qdrant.of_another_tool or name in root.qdrant.grouping_fields,
)
RECIPES: Final = Reference("not in recipes", lambda root, name: name in root.recipes)


class Profile(Section):
    """A trade of quality against time, chosen by a query by name."""

    recipe: Annotated[str | None, RECIPES] = Field(default=None, description="Recipe; null: defaults.recipe.")
    semantic: bool = Field(default=True, description="Embed query texts; false: only a query's own vector is searched.")
    over_sample: Annotated[int, Field(ge=0, le=1000)] = 100
    """Candidates that each leg is asked for, at least one page."""
    caches: list[Literal["exact", "semantic"]] = Field(default=["exact", "semantic"])
    """Caches that answer its queries."""
    rerank_top: Annotated[int, Field(ge=0, le=1000)] = 50
    """Candidates to rerank; 0: none."""
    min_relevance: Annotated[float, Field(ge=0, le=1, allow_inf_nan=False)] | None = None
    """Minimum relevance of a result; null: that of `defaults`."""
    group_by: Newer[Annotated[FieldName | None, GROUPING]] = None
    """Indexed field to group results by; null: none."""
    group_size: Newer[GroupSize] = 1
    """Maximum documents in a group; 0: no groups."""
    group_score: Newer[GroupScore] = "max"
    """Score of a group."""
    returned: Newer[Returned | None] = Field(default=None, alias="return")
    """Parts of documents in results, as in a query's `return`; null: all."""
    half_life_days: Annotated[float, Field(gt=0, le=1e6, allow_inf_nan=False)] | None = 7.0
    """Half-life in days where no decay tier gives one; null: scores never decay."""


_SHIPPED: Final[Mapping[str, Mapping[str, Any]]] = {
    "fast": {"semantic": False, "caches": ["exact"], "rerank_top": 0, "half_life_days": None},
    BALANCED: {},
    "deep": {"over_sample": 500, "caches": ["semantic"], "rerank_top": 200, "half_life_days": 30.0},
}


def _with_shipped(profiles: Any) -> Any:
    if not isinstance(profiles, Mapping) or not all(isinstance(each, Mapping) for each in profiles.values()):
        return profiles
    return {name: {**_SHIPPED.get(name, {}), **profiles.get(name, {})} for name in {**_SHIPPED, **profiles}}


PROFILES: Final[Mapping[str, Profile]] = {name: Profile(**each) for name, each in _SHIPPED.items()}
"""The shipped profiles, by name."""

Profiles = Annotated[dict[str, Profile], BeforeValidator(_with_shipped), Field(validate_default=True)]
"""Profiles by name; keys that a deployment sets override those of a shipped profile."""


def _parse(recipes: Any) -> Mapping[str, Recipe]:
    if not isinstance(recipes, Mapping):
        raise ValueError("a mapping of recipes by name is expected")
    parsed = dict(SHIPPED)
    wrong: list[InitErrorDetails] = []

    def refuse(name: object, path: str, what: str) -> None:
        # No error of the configuration repeats a value.
        error = PydanticCustomError("recipe", "{what}", {"what": what})
        below = [int(part) if part.isdigit() else part for part in path.split(".")] if path and path != name else []
        wrong.append({"type": error, "loc": (str(name), *below), "input": None})

    for name, definition in recipes.items():
        if not isinstance(name, str):
            refuse(name, "", "a text is expected as name")
            continue
        try:
            recipe = parsed[name] = Recipe.parse(name, definition)
        except RecipeError as error:
            for each in error.problems:
                refuse(name, each.path, each.what)
            if error.more:
                refuse(name, "", f"and {error.more} more problems")
        else:
            if isinstance(recipe.fusion, WeighingStage):
                for path, what in recipe.fusion.find_slips():
                    refuse(name, f"{recipe.fusion.name}.{path}", what)
    if wrong:
        raise ValidationError.from_exception_data("recipes", wrong)
    return parsed


Recipes = Annotated[
    Mapping[str, Recipe],
    PlainValidator(_parse),
    PlainSerializer(lambda recipes: {name: recipe.hash for name, recipe in recipes.items()}),
    WithJsonSchema({"type": "object", "additionalProperties": {"type": "object"}}),
    Field(validate_default=True),
]
"""Recipes by name: the shipped ones and the deployment's."""


class Between(Section):
    """Bounds of an override."""

    min: float | None = Field(default=None, description="Minimum; null: the parameter's own bound.")
    max: float | None = Field(default=None, description="Greatest value; null: the parameter's own bound.")

    def contradictions(self) -> Iterator[str]:
        if self.min is not None and self.max is not None and self.min > self.max:
            yield "min is above max"

    def __str__(self) -> str:
        bounds = {"at least": self.min, "at most": self.max}
        return " and ".join(f"{name} {bound:g}" for name, bound in bounds.items() if bound is not None)


def _parameter(path: str) -> str:
    stage, _, parameter = path.partition(".")
    fields = STAGES[stage].model_fields if stage in STAGES else {}
    if path != MAX_DISTANCE and parameter not in {field.alias or name for name, field in fields.items()}:
        raise ValueError("not STAGE.PARAMETER of a recipe")
    return path


Allowed = dict[Annotated[str, AfterValidator(_parameter)], Between]
"""Recipe parameters as `stage.parameter`, or `max_distance`, with the bounds of their overrides."""


class DecaySettings(Section):
    """Decay tiers that override the parameters of a recipe's stage `decay`, field by field."""

    destinations: Annotated[dict[str, DecayTier], DESTINATIONS] = Field(default={})
    """Destination -> its tier."""
    collections: dict[str, dict[str, DecayTier]] = Field(default={})
    """Destination -> collection -> its tier, which overrides the destination's."""

    def tiers_for(self, destination: str, collection: str | None) -> tuple[DecayTier, ...]:
        """The tiers of a destination and a collection of it, the least specific first."""
        of_collections = self.collections.get(destination, {})
        tiers = (self.destinations.get(destination), None if collection is None else of_collections.get(collection))
        return tuple(tier for tier in tiers if tier is not None)


_Names = Annotated[list[str], Field(min_length=1)]
"""Those that an experiment is for, at least one."""


class Until(Section):
    """The end of an experiment, by a test at which anybody may look at any time."""

    alpha: Annotated[float, Field(gt=0, le=0.5)] = 0.05
    """Probability of a false alarm at most, over all looks."""
    power: Annotated[float, Field(gt=0, lt=1)] = 0.8
    """Probability of finding a preference of .5 plus `effect`, by which the queries still needed are said."""
    effect: Annotated[float, Field(ge=0.005, lt=0.5)] = 0.05
    """Smallest preference that matters, as its distance from .5."""
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


Experiments = dict[Annotated[str, Field(pattern=r"^[A-Za-z0-9._-]{1,64}$")], Experiment]
"""Experiments by name, which is in tokens, records, metrics and the provenance of results."""
