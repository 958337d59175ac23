"""Recipes: which one a query is ranked by, with what it may change of it."""

import json
from collections import OrderedDict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from operators.query.canonical import Canonical
from operators.ranking.run import Facts
from operators.ranking.temporal_expressions import TemporalExpression
from schemas.errors import DeadLetterClass, InputError, invalid, problem
from schemas.query import QueryEvent
from schemas.recipes import MAX_DISTANCE, SHIPPED, Recipe, RecipeError
from schemas.recipes.fusion import DecayTier
from schemas.recipes.stages import Reflections, Temporal
from schemas.settings import Between, DecaySettings, Profile, SourcePolicy
from schemas.settings.ranking import BALANCED

_ANYBODY: Final = SourcePolicy()

_KEPT: Final = 1024
_KEPT_BYTES: Final = 1024
"""Overridden recipes that are kept for the next query: so many, of overrides of at most so many bytes."""


@dataclass(frozen=True, slots=True)
class RankingPlan:
    """How one query is ranked."""

    name: str
    profile: Profile
    recipe: Recipe
    decay: tuple[DecayTier, ...]
    include_reflections: bool

    def extractor(self, asked: Canonical) -> str | None:
        """Which extractor reads the time in the query (`rules` or `chat`); None if no stage that runs uses it."""
        temporal = self.recipe.stage(Temporal)
        wanted = isinstance(temporal, Temporal) and temporal.boost > 0 and not asked.reflections_only
        return temporal.extractor if isinstance(temporal, Temporal) and wanted else None

    def reranks(self, asked: Canonical) -> int:
        """How many candidates are reranked. Reflections alone are ranked by cosine, and a chat model's pick is one."""
        if not asked.rerank or asked.reflections_only:
            return 0
        picking = self.recipe.picking
        return picking.top_k if picking is not None else self.profile.rerank_top

    def facts(self, asked: Canonical, now: float | None, temporal_expression: TemporalExpression | None) -> Facts:
        """What the stages of the recipe may know of the query; `now` in Unix seconds, None if it has no clock."""
        return Facts(
            now=now,
            cycle=asked.current_cycle,
            text=asked.text,
            temporal_expression=temporal_expression,
            include_reflections=self.include_reflections,
            reflections_only=asked.reflections_only,
            distance=asked.rerank,
            decay=self.decay,
            decay_half_life=self.profile.half_life_days,
            explain=asked.explain,
        )


@dataclass(frozen=True)
class Planner:
    """Plans queries under one configuration.

    `allowed` is what queries may change unless their source's policy says otherwise, None: everything.
    """

    profiles: Mapping[str, Profile]
    recipes: Mapping[str, Recipe] = field(default_factory=lambda: SHIPPED)
    allowed: Mapping[str, Between] | None = None
    decay: DecaySettings = field(default_factory=DecaySettings)
    chat: bool = True
    _overridden: OrderedDict[tuple[str, str], Recipe] = field(default_factory=OrderedDict, init=False, repr=False)

    def plan(
        self,
        event: QueryEvent,
        destination: str,
        warnings: list[str],
        policy: SourcePolicy = _ANYBODY,
        recipe: Recipe | None = None,
    ) -> RankingPlan:
        """The query's plan, by `recipe` if one is given; what is doubtful goes into the warnings.

        Raises InputError `invalid` for a recipe that isn't configured, and an override that isn't allowed or possible.
        """
        name = self.profile(event)
        if event.profile not in {None, name}:
            warnings.append(f"profile: not configured, {BALANCED} is used ({event.profile[:80]!r})")
        profile = self.profiles[name]
        chosen = recipe if recipe is not None else self._named(event.recipe or profile.recipe)
        overrides = _overrides(event)
        if recipe is not None:
            # They were said of the query's own recipe.
            overrides = {stage: each for stage, each in overrides.items() if stage in {*recipe.written, MAX_DISTANCE}}
        if overrides:
            allowed = policy.overrides if policy.overrides is not None else self.allowed
            chosen = self._changed(chosen, overrides, allowed)
        reflections = chosen.stage(Reflections)
        included = reflections.include_reflections if isinstance(reflections, Reflections) else True
        tiers = self.decay.of(destination, event.collection)
        return RankingPlan(
            name,
            profile,
            chosen,
            (*tiers, policy.decay) if policy.decay is not None else tiers,
            event.include_reflections if event.include_reflections is not None else included,
        )

    def profile(self, event: QueryEvent) -> str:
        """The name of the profile that the query gets."""
        return event.profile if event.profile is not None and event.profile in self.profiles else BALANCED

    def _named(self, name: str) -> Recipe:
        recipe = self.recipes.get(name)
        if recipe is None:
            raise invalid("recipe", f"not configured; there are {', '.join(sorted(self.recipes))}", name)
        return recipe

    def _changed(self, recipe: Recipe, overrides: Mapping[str, Any], allowed: Mapping[str, Between] | None) -> Recipe:
        _check(overrides, allowed)
        key = (f"{recipe.name} {recipe.hash}", json.dumps(overrides, sort_keys=True, separators=(",", ":")))
        known = self._overridden.get(key)
        if known is not None:
            self._overridden.move_to_end(key)
            return known
        try:
            changed = recipe.overridden(overrides)
        except RecipeError as error:
            wrong = "; ".join(problem(f"overrides.{each.path}", each.what, each.value) for each in error.problems)
            raise InputError(DeadLetterClass.INVALID, wrong, f"overrides.{error.problems[0].path}") from error
        if changed.asks_chat and not self.chat:
            raise invalid("overrides", "no chat model is configured", overrides)
        if len(key[1]) <= _KEPT_BYTES:
            self._overridden[key] = changed
        if len(self._overridden) > _KEPT:
            self._overridden.popitem(last=False)
        return changed


def _check(overrides: Mapping[str, Any], allowed: Mapping[str, Between] | None) -> None:
    if allowed is None:
        return
    for path, value in _flat(overrides):
        if path not in allowed:
            raise invalid(f"overrides.{path}", "a query may not change this", value)
        between = allowed[path]
        number = value if type(value) in {int, float} else None
        below = between.min is not None and (number is None or number < between.min)
        above = between.max is not None and (number is None or number > between.max)
        if below or above:
            raise invalid(f"overrides.{path}", f"must be {between}", value)


def _overrides(event: QueryEvent) -> dict[str, Any]:
    overrides: dict[str, Any] = dict(event.overrides or {})
    if event.reflection_boost is not None:
        # The event's own field is the plainer way to say the same.
        given = overrides.get(Reflections.name)
        boost = {"reflection_boost": event.reflection_boost}
        overrides[Reflections.name] = {**given, **boost} if isinstance(given, dict) else boost
    return overrides


def _flat(overrides: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    for stage, changes in overrides.items():
        if stage != MAX_DISTANCE and isinstance(changes, dict):
            yield from ((f"{stage}.{name}", value) for name, value in changes.items())
        else:
            yield stage, changes
