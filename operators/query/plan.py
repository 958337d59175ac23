"""Plans: the recipe of each query, with the query's overrides."""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import reduce
from typing import Any, Final

from operators.caching.bounded import BoundedCache
from operators.query.field_map import SAME, FieldMap
from operators.query.returned import is_hidden
from operators.ranking.grouping import Grouping
from operators.ranking.run import INDEX_WORDING, Wording
from schemas.errors import DeadLetterClass, InputError, invalid, join_first, problem
from schemas.query import DEFAULT_LIMIT, QueryEvent, QueryShape, Returned
from schemas.recipes import MAX_DISTANCE, SHIPPED, Recipe, RecipeError
from schemas.recipes.fusion import DecayTier
from schemas.recipes.stages import LlmRerank, Reflections, Wishes
from schemas.settings import Between, DecaySettings, Defaults, Profile, SourcePolicy
from schemas.settings.ranking import BALANCED

_ANYBODY: Final = SourcePolicy()

_BOOST: Final = "reflection_boost"

_Change = tuple[str, str, Any]
"""The field of an event that changes a parameter of its recipe, the parameter's path, and the value."""

_KEPT: Final = 1024
_KEPT_BYTES: Final = 1024
"""Bounds of the cache of overridden recipes: recipes, and bytes of the overrides of one."""


@dataclass(frozen=True, slots=True)
class RankingPlan:
    """The plan of one query's ranking. `picking`: the recipe's stage `llm_rerank`, if there is a chat model.

    `returned` are the parts of documents that its results have, None is all; `hidden` are fields that they never have.
    """

    name: str
    profile: Profile
    recipe: Recipe
    picking: LlmRerank | None
    decay: tuple[DecayTier, ...]
    include_reflections: bool
    min_relevance: float = 0.0
    grouping: Grouping | None = None
    returned: Returned | None = None
    hidden: tuple[str, ...] = ()
    wording: Wording = INDEX_WORDING


@dataclass(frozen=True)
class Planner:
    """Plans queries. `allowed` is what they may change unless their policies say otherwise, None: everything.

    `rules`: there are rules, and so queries may try some.
    """

    profiles: Mapping[str, Profile]
    recipes: Mapping[str, Recipe] = field(default_factory=lambda: SHIPPED)
    allowed: Mapping[str, Between] | None = None
    decay: DecaySettings = field(default_factory=DecaySettings)
    chat: bool = True
    defaults: Defaults = field(default_factory=Defaults)
    fields: FieldMap = SAME
    rules: bool = True
    wording: Wording = INDEX_WORDING
    _overridden: BoundedCache[tuple[str, str], Recipe] = field(
        default_factory=lambda: BoundedCache(_KEPT), init=False, repr=False
    )

    def grouping_field(self, event: QueryEvent) -> str | None:
        """The field by which the query's results are grouped, if they are."""
        grouping = _grouping(event, self.profiles[self.profile(event)])
        return grouping.field if grouping is not None and event.shape is QueryShape.SEARCH else None

    def plan(
        self,
        event: QueryEvent,
        destination: str,
        warnings: list[str],
        policy: SourcePolicy = _ANYBODY,
        recipe: Recipe | None = None,
    ) -> RankingPlan:
        """The query's plan, by `recipe` if one is given; doubts go into the warnings.

        Raises InputError `invalid` for a recipe that isn't configured, and an override that isn't allowed or possible.
        """
        name = self.profile(event)
        if event.profile not in {None, name}:
            warnings.append(f"profile: not configured, {BALANCED} is used ({event.profile[:80]!r})")
        if event.limit < 0:
            warnings.append(f"limit: below 0, {DEFAULT_LIMIT} is used ({event.limit})")
        profile = self.profiles[name]
        hidden = self.fields.every_name(policy.hidden_fields) if policy.hidden_fields else ()
        chosen = recipe if recipe is not None else self._find(event.recipe or profile.recipe or self.defaults.recipe)
        overrides: Mapping[str, Any] = event.overrides or {}
        # They were said of the query's own recipe.
        overrides = overrides if recipe is None else recipe.select_own(overrides)
        if overrides or event.reflection_boost is not None:
            allowed = policy.overrides if policy.overrides is not None else self.allowed
            changes = list(_changes(overrides, event.reflection_boost))
            for change in changes:
                _check(*change, allowed)
            own, chosen = chosen, self._override(chosen, overrides, event.reflection_boost)
            if hidden:
                _check_seen(changes, (own, chosen), hidden)
        if event.rules is not None:
            self._check_rules(event.rules, policy, hidden)
        if not event.post:
            chosen = chosen.fusing()
        if event.understood and chosen.stage(Wishes) is None:
            warnings.append(f"understood: recipe {chosen.name} has no stage {Wishes.name}, nothing is done with it")
        picking = chosen.picking
        if picking is not None and not self.chat:
            warnings.append(f"{picking.name}: no chat model is configured, the stage is skipped")
            picking = None
        reflections = chosen.stage(Reflections)
        included = reflections.include_reflections if reflections is not None else True
        # What the first leaves open, the later ones say.
        parts = [each for each in (event.returned, policy.returned, profile.returned) if each is not None]
        least = event.min_relevance, profile.min_relevance, self.defaults.min_relevance
        tiers = self.decay.tiers_for(destination, event.collection)
        return RankingPlan(
            name,
            profile,
            chosen,
            picking,
            (*tiers, policy.decay) if policy.decay is not None else tiers,
            event.include_reflections if event.include_reflections is not None else included,
            next(each for each in least if each is not None),
            _grouping(event, profile),
            reduce(Returned.over, parts) if parts else None,
            hidden,
            self.wording,
        )

    def _check_rules(self, rules: Mapping[str, Any], policy: SourcePolicy, hidden: Sequence[str]) -> None:
        """Raise InputError unless the query may try rules: where they read hidden fields, their effects would tell."""
        if not self.rules:
            raise invalid("rules", "there are no rules: kafka.topics.rules is not set", rules)
        _check("rules", "rules", rules, policy.overrides if policy.overrides is not None else self.allowed)
        if hidden:
            raise invalid("rules", "the policy of the query's source hides fields, which rules could read", rules)

    def profile(self, event: QueryEvent) -> str:
        """The name of the profile that the query gets."""
        return event.profile if event.profile is not None and event.profile in self.profiles else BALANCED

    def _find(self, name: str) -> Recipe:
        recipe = self.recipes.get(name)
        if recipe is None:
            raise invalid("recipe", f"not configured; there are {', '.join(sorted(self.recipes))}", name)
        return recipe

    def _override(self, recipe: Recipe, overrides: Mapping[str, Any], boost: float | None) -> Recipe:
        key = (f"{recipe.name} {recipe.hash}", json.dumps((overrides, boost), sort_keys=True, separators=(",", ":")))
        known = self._overridden.get(key)
        if known is not None:
            return known
        try:
            changed = recipe.overridden(overrides)
        except RecipeError as error:
            named = (problem(f"overrides.{each.path}", each.what, each.value) for each in error.problems)
            wrong = join_first(named, error.more)
            raise InputError(DeadLetterClass.INVALID, wrong, f"overrides.{error.problems[0].path}") from error
        if boost is not None:
            try:
                changed = changed.boosting(boost)
            except RecipeError as error:
                raise invalid(_BOOST, error.problems[0].what, boost) from error
        if changed.asks_chat and not self.chat:
            raise invalid("overrides", "no chat model is configured", overrides)
        if len(key[1]) <= _KEPT_BYTES:
            self._overridden.put(key, changed)
        return changed


def _grouping(event: QueryEvent, profile: Profile) -> Grouping | None:
    field = event.group_by if event.group_by is not None else profile.group_by
    size = event.group_size if event.group_size is not None else profile.group_size
    score = event.group_score if event.group_score is not None else profile.group_score
    return Grouping(field, size, score) if field is not None and size else None


def _check(field: str, path: str, value: Any, allowed: Mapping[str, Between] | None) -> None:
    """Raise InputError unless the recipe's parameter at `path` may have this value; `field` names it in the event."""
    if allowed is None:
        return
    if path not in allowed:
        raise invalid(field, "a query may not change this", value)
    between = allowed[path]
    number = value if type(value) in {int, float} else None
    below = between.min is not None and (number is None or number < between.min)
    above = between.max is not None and (number is None or number > between.max)
    if below or above:
        raise invalid(field, f"must be {between}", value)


def _check_seen(changes: Iterable[_Change], recipes: Sequence[Recipe], hidden: Sequence[str]) -> None:
    """Raise InputError for a change of a stage that reads a hidden field, with either recipe: scores would tell it."""
    for field_, path, value in changes:
        stages = (each for recipe in recipes for each in recipe.stages if each.name == path.partition(".")[0])
        read = sorted(name for name in frozenset().union(*(each.reads for each in stages)) if is_hidden(name, hidden))
        if read:
            why = f"the policy of the query's source hides {', '.join(read)}, which this stage reads"
            raise invalid(field_, why, value)


def _changes(overrides: Mapping[str, Any], boost: float | None) -> Iterator[_Change]:
    for stage, changes in overrides.items():
        if stage != MAX_DISTANCE and isinstance(changes, dict):
            yield from ((f"overrides.{stage}.{name}", f"{stage}.{name}", value) for name, value in changes.items())
        else:
            yield f"overrides.{stage}", stage, changes
    if boost is not None:
        yield _BOOST, f"{Reflections.name}.{_BOOST}", boost
