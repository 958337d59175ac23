"""Plans: which recipe and profile a query gets, what it may change of them, and what its ranking may know."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from flows.assembly import query as assembly
from operators.query.plan import Planner, RankingPlan
from schemas.errors import DeadLetterClass, InputError
from schemas.query import QueryEvent
from schemas.recipes import SHIPPED, Recipe
from schemas.recipes.fusion import DecayTier
from schemas.settings import Between, Profile, SourcePolicy, load
from schemas.settings.ranking import PROFILES

LEAST: dict[str, Any] = {"qdrant": {"url": "http://q"}}
CHAT: dict[str, Any] = {"chat": {"kind": "openai", "url": "http://c/v1", "model": "m"}}
PICKING = Recipe.parse("picking", {"stages": ["keyword", {"llm_rerank": {"enabled": True, "top_k": 7}}]})
UNREFLECTED = Recipe.parse("unreflected", {"stages": ["rrf", {"reflections": {"include_reflections": False}}]})
OWN = {**SHIPPED, "picking": PICKING, "unreflected": UNREFLECTED}
TERSE = {**PROFILES, "terse": Profile(recipe="rrf", rerank_top=3)}
PLANNER = Planner(TERSE, OWN)
UNSAID: Any = {"source": None, "destination": "d", "namespace": "n", "now": 0.0}


def planner_of(**changes: Any) -> Planner:
    """A planner of the same profiles and recipes, with changes."""
    return Planner(TERSE, OWN, **changes)


def event(**fields: Any) -> QueryEvent:
    """A query with these fields."""
    return QueryEvent.model_validate({"query_id": "q", "text": "find me", **fields})


def planned(planner: Planner = PLANNER, **fields: Any) -> RankingPlan:
    """The plan of a query that nothing is doubtful about."""
    warnings: list[str] = []
    plan = planner.plan(event(**fields), "default", warnings)
    assert warnings == []
    return plan


def refusal(planner: Planner = PLANNER, **fields: Any) -> str:
    """The message to a query that can't be planned."""
    with pytest.raises(InputError) as caught:
        planner.plan(event(**fields), "default", [])
    assert caught.value.kind is DeadLetterClass.INVALID
    return str(caught.value)


def bounded(**allowed: Mapping[str, float]) -> Planner:
    """A planner that lets a query change these alone; `a__b` for `a.b`."""
    return planner_of(allowed={name.replace("__", "."): Between(**each) for name, each in allowed.items()})


@pytest.mark.parametrize(
    ("asked", "profile", "recipe"),
    [
        ({}, "balanced", "hybrid"),
        ({"profile": "fast"}, "fast", "hybrid"),
        ({"profile": "terse"}, "terse", "rrf"),
        ({"recipe": "signals"}, "balanced", "signals"),
        ({"profile": "terse", "recipe": "picking"}, "terse", "picking"),
    ],
)
def test_the_querys_recipe_goes_before_its_profiles(asked: dict[str, Any], profile: str, recipe: str) -> None:
    """A query that names no recipe gets its profile's, one that names no profile is `balanced`."""
    plan = planned(**asked)
    assert (plan.name, plan.recipe) == (profile, OWN[recipe])
    assert plan.profile == PLANNER.profiles[profile]


def test_a_given_recipe_goes_before_both() -> None:
    """A query ranked again by a recipe gets that one, whatever it and its profile say; its other wishes stay."""
    asked = event(profile="terse", recipe="signals", include_reflections=False)
    plan = PLANNER.plan(asked, "default", [], recipe=SHIPPED["decay"])
    assert (plan.name, plan.recipe, plan.include_reflections) == ("terse", SHIPPED["decay"], False)


def test_an_unknown_profile_is_balanced_and_said() -> None:
    """A profile that isn't configured is answered as `balanced`, with a warning that quotes a bounded part of it."""
    warnings: list[str] = []
    plan = PLANNER.plan(event(profile="z" * 200), "default", warnings)
    assert (plan.name, plan.profile) == ("balanced", PROFILES["balanced"])
    (warning,) = warnings
    assert warning.startswith("profile: not configured, balanced is used")
    assert "z" * 80 in warning
    assert "z" * 81 not in warning


def test_an_unknown_recipe_is_refused_by_name() -> None:
    """There is no default for a recipe that isn't configured: the error has the name, and those that there are."""
    said = refusal(recipe="hybird")
    assert said.startswith("recipe: not configured")
    assert "'hybird'" in said
    assert all(name in said for name in OWN)


def test_an_override_changes_the_querys_recipe_alone() -> None:
    """A changed recipe keeps its name and has another hash; the configured one stays as it is."""
    plan = planned(overrides={"score": {"alpha": 0.9}, "max_distance": 0.5})
    assert plan.recipe.parameters["score"]["alpha"] == 0.9
    assert (plan.recipe.name, plan.recipe.max_distance) == ("hybrid", 0.5)
    assert plan.recipe.hash != SHIPPED["hybrid"].hash == planned().recipe.hash


@pytest.mark.parametrize("value", [0.2, 0.5, 0.8])
def test_an_override_within_its_bounds_is_taken(value: float) -> None:
    """The bounds are part of what is allowed."""
    planner = bounded(score__alpha={"min": 0.2, "max": 0.8})
    assert planned(planner, overrides={"score": {"alpha": value}}).recipe.parameters["score"]["alpha"] == value


@pytest.mark.parametrize(
    ("overrides", "named", "value"),
    [
        ({"score": {"alpha": 0.1}}, "overrides.score.alpha: must be at least 0.2 and at most 0.8", "(0.1)"),
        ({"score": {"alpha": 0.9}}, "overrides.score.alpha: must be at least 0.2 and at most 0.8", "(0.9)"),
        ({"score": {"alpha": "0.5"}}, "overrides.score.alpha: must be at least 0.2 and at most 0.8", "('0.5')"),
        ({"score": {"alpha": True}}, "overrides.score.alpha: must be at least 0.2 and at most 0.8", "(true)"),
        ({"score": {"alpha": None}}, "overrides.score.alpha: must be at least 0.2 and at most 0.8", "(null)"),
        ({"score": {"alpha": 0.5, "limit": 3}}, "overrides.score.limit: a query may not change this", "(3)"),
        ({"dedupe": {"limit": 3}}, "overrides.dedupe.limit: a query may not change this", "(3)"),
        ({"max_distance": 0.9}, "overrides.max_distance: a query may not change this", "(0.9)"),
        ({"dedupe": 7}, "overrides.dedupe: a query may not change this", "(7)"),
    ],
)
def test_what_may_not_be_changed_is_refused_by_field_and_value(
    overrides: dict[str, Any], named: str, value: str
) -> None:
    """A parameter that isn't listed, or is beyond its bounds, is an error that names the field and the value."""
    said = refusal(bounded(score__alpha={"min": 0.2, "max": 0.8}), overrides=overrides)
    assert said.startswith(named)
    assert said.endswith(value)


def test_one_bound_alone_bounds_one_side() -> None:
    """A parameter without a lower or an upper bound has the recipe's own; one without either takes what fits there."""
    planner = bounded(rrf__k={"min": 1}, rrf__weights={}, max_distance={"max": 0.5})
    taken: dict[str, Any] = {"rrf": {"k": 1e5, "weights": {"vector": 2.0}}, "max_distance": 0}
    assert planned(planner, recipe="rrf", overrides=taken).recipe.parameters["rrf"]["k"] == 1e5
    for wrong in ({"rrf": {"k": 0.5}}, {"max_distance": 0.6}, {"rrf": {"k": 1e9}}, {"rrf": {"weights": 3}}):
        assert "overrides" in refusal(planner, recipe="rrf", overrides=wrong)


def test_nothing_allowed_is_nothing_allowed() -> None:
    """An empty list lets a query change nothing, no list everything within the recipe's own bounds."""
    nothing = planner_of(allowed={})
    assert "a query may not change this" in refusal(nothing, overrides={"score": {"alpha": 0.5}})
    assert planned(nothing).recipe is SHIPPED["hybrid"]
    assert "score.alpha" in refusal(overrides={"score": {"alpha": 1.5}})


def test_rules_are_tried_where_there_are_rules_and_changes_are_allowed() -> None:
    """Without a topic of rules, or where what a query may change is listed without them, they are refused."""
    tried: dict[str, Any] = {"rules": {"x": {}}}
    assert planned(**tried) == planned()
    assert "kafka.topics.rules is not set" in refusal(planner_of(rules=False), **tried)
    assert "a query may not change this" in refusal(bounded(score__alpha={}), **tried)


def test_an_override_of_a_stage_that_is_not_there_is_refused() -> None:
    """Nothing that a query says of its ranking is left undone without a word."""
    assert "recipe hybrid has no such stage" in refusal(overrides={"temporal": {"boost": 1.0}})


def test_reflection_boost_is_an_override() -> None:
    """The event's own field is the same as the override, goes over it, and is bounded as it; an error names it."""
    plan = planned(recipe="signals", reflection_boost=2.0)
    assert plan.recipe.parameters["reflections"]["reflection_boost"] == 2.0
    both: dict[str, Any] = {"reflections": {"reflection_boost": 9.0, "recency_weight": 0.5}}
    over = planned(recipe="signals", reflection_boost=2.0, overrides=both).recipe.parameters["reflections"]
    assert (over["reflection_boost"], over["recency_weight"]) == (2.0, 0.5)
    planner = bounded(reflections__reflection_boost={"max": 1.5})
    said = refusal(planner, recipe="signals", reflection_boost=2.0)
    assert "reflection_boost" in said
    assert "(2.0)" in said
    assert planned(planner, recipe="signals", reflection_boost=0.0).recipe.hash != SHIPPED["signals"].hash


def test_a_chat_model_that_is_not_there_cannot_be_asked_for() -> None:
    """A query can't turn on what needs a chat model where none is configured."""
    asked: dict[str, Any] = {"recipe": "composite", "overrides": {"temporal": {"extractor": "chat"}}}
    assert "no chat model is configured" in refusal(assembly.planner(load(None, LEAST)), **asked)
    assert planned(assembly.planner(load(None, {**LEAST, **CHAT})), **asked).recipe.asks_chat


def test_the_settings_are_the_planners() -> None:
    """Profiles, recipes, what may be changed and tiers of decay are those that the configuration has."""
    sections: dict[str, Any] = {
        "profiles": {"balanced": {"recipe": "mine"}},
        "recipes": {"mine": {"stages": ["dbsf"]}},
        "limits": {"overrides": {"dbsf.limit": {"max": 5}}},
        "decay": {"destinations": {"default": {"half_life_days": 3.0}}},
    }
    planner = assembly.planner(load(None, {**LEAST, **sections}))
    plan = planned(planner, overrides={"dbsf": {"limit": 5}})
    assert (plan.recipe.name, plan.recipe.parameters["dbsf"]["limit"]) == ("mine", 5)
    assert plan.decay == (DecayTier(half_life_days=3.0),)
    assert "must be at most 5" in refusal(planner, overrides={"dbsf": {"limit": 6}})


def test_the_same_overrides_are_read_once() -> None:
    """A recipe that was changed so before is taken as it is; the order of keys is nothing."""
    planner = planner_of()
    first = planned(planner, overrides={"score": {"alpha": 0.1, "limit": 3}}).recipe
    assert planned(planner, overrides={"score": {"limit": 3, "alpha": 0.1}}).recipe is first
    assert planned(planner, overrides={"score": {"alpha": 0.1, "limit": 4}}).recipe is not first


def test_what_is_kept_of_overrides_is_bounded() -> None:
    """Of many different overrides those of late are kept, the longest unused goes; large ones aren't kept at all."""
    planner = planner_of()

    def limited(limit: int) -> Recipe:
        return planned(planner, overrides={"score": {"limit": limit}}).recipe

    first, second = limited(1), limited(2)
    for limit in range(3, 1_026):
        limited(limit)
        assert limited(1) is first
    assert limited(2) is not second
    large = {"score": {"weights": {f"leg{number}": 1.0 for number in range(500)}}}
    assert planned(planner, overrides=large).recipe is not planned(planner, overrides=large).recipe


def test_recipes_that_do_the_same_keep_their_names() -> None:
    """Two recipes that differ in nothing but their names are overridden each under its own."""
    twin = Recipe.parse("twin", SHIPPED["hybrid"].definition)
    planner = Planner(PROFILES, {**SHIPPED, "twin": twin})
    for name in ("hybrid", "twin", "hybrid"):
        assert planned(planner, recipe=name, overrides={"score": {"alpha": 0.3}}).recipe.name == name


def test_a_planner_made_of_another_keeps_its_own_bounds() -> None:
    """A planner with other bounds doesn't take on trust what one planner let a query change."""
    asked: dict[str, Any] = {"overrides": {"score": {"alpha": 0.3}}}
    first = planner_of()
    planned(first, **asked)
    assert "a query may not change this" in refusal(replace(first, allowed={}), **asked)


@pytest.mark.parametrize(
    ("asked", "expected"),
    [
        ({}, None),
        ({"profile": "grouped"}, ("type", 2, "max")),
        ({"profile": "grouped", "group_by": "page"}, ("page", 2, "max")),
        ({"profile": "grouped", "group_size": 5, "group_score": "avg"}, ("type", 5, "avg")),
        ({"profile": "grouped", "group_size": 0}, None),
        ({"profile": "alone"}, None),
        ({"profile": "alone", "group_size": 1}, ("subject", 1, "sum")),
    ],
)
def test_the_query_then_its_profile_say_the_grouping(
    asked: dict[str, Any], expected: tuple[str, int, str] | None
) -> None:
    """Each of the three fields by itself; a size of 0 is no grouping."""
    alone = Profile(group_by="subject", group_size=0, group_score="sum")
    profiles = {**TERSE, "grouped": Profile(group_by="type", group_size=2), "alone": alone}
    assert planned(Planner(profiles, OWN), **asked).grouping == expected


@pytest.mark.parametrize(
    ("hidden", "event", "path"),
    [
        ("importance", {"composite": {"importance": 1, "relevance": 0}}, "overrides.composite.importance"),
        ("importance", {"composite": {"relevance": 0}}, "overrides.composite.relevance"),
        ("created_at", {"composite": {"recency": 1}}, "overrides.composite.recency"),
        ("confidence", {"composite": {"quality": 1}}, "overrides.composite.quality"),
        ("edges", {"weighted": {"graph_weight": 1}}, "overrides.weighted.graph_weight"),
    ],
)
def test_what_a_source_may_not_see_it_may_not_weigh(hidden: str, event: dict[str, Any], path: str) -> None:
    """A score would tell the value of a hidden field; the operator's own weights, and other sources, are as before."""
    recipe = "signals" if "weighted" in event else "composite"
    policy = SourcePolicy(hidden_fields=[hidden])
    planner = Planner(PROFILES, SHIPPED)
    asked = QueryEvent.model_validate({"query_id": "q", "text": "t", "recipe": recipe, "overrides": event})
    planner.plan(asked, "default", [])
    with pytest.raises(InputError, match=f"{path}: the policy of the query's source hides") as caught:
        planner.plan(asked, "default", [], policy)
    assert caught.value.field == path
    planner.plan(asked.model_copy(update={"overrides": None}), "default", [], policy)
    others = {"coverage": {"weight": 0.1}} if recipe == "composite" else {"weighted": {"limit": 50}}
    planner.plan(asked.model_copy(update={"overrides": others}), "default", [], policy)


def test_a_hidden_type_cannot_be_boosted() -> None:
    """The boost of reflections is a change like any other, and is named as the event has it."""
    asked = event(recipe="composite", reflection_boost=1.5)
    PLANNER.plan(asked, "default", [])
    with pytest.raises(InputError, match=r"^reflection_boost: the policy of the query's source hides type") as caught:
        PLANNER.plan(asked, "default", [], SourcePolicy(hidden_fields=["type"]))
    assert caught.value.field == "reflection_boost"
