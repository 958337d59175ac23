"""The parameters of a recipe that a query may change."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from schemas.recipes import SHIPPED, Recipe, RecipeError
from schemas.recipes.recipe import STAGES
from tests.schemas.quoted import quoted
from tests.schemas.recipes.bounds import others, stages
from tests.tiers import sized


def of(*listed: Any, **more: Any) -> Recipe:
    """The recipe of these stages."""
    return Recipe.parse("mine", {"stages": list(listed), **more})


def refusal(recipe: Recipe, overrides: Any) -> str:
    """The error of these overrides."""
    with pytest.raises(RecipeError) as caught:
        recipe.overridden(overrides)
    return str(caught.value)


@pytest.mark.parametrize(("stage", "parameter", "value"), others())
def test_any_parameter_can_be_changed(stage: str, parameter: str, value: Any) -> None:
    """A parameter changed by a query is the recipe in which it was written so."""
    changed = of(*stages(stage, {})).overridden({stage: {parameter: value}})
    assert changed.parameters[stage][parameter] == value
    assert changed.hash == of(*stages(stage, {parameter: value})).hash


def test_what_is_not_changed_stays() -> None:
    """Parameters beside the changed one keep what the recipe says, as do its name and its other stages."""
    recipe = of({"score": {"alpha": 0.3, "limit": 9}}, {"dedupe": {"limit": 5}}, max_distance=0.5)
    changed = recipe.overridden({"score": {"alpha": 0.9}})
    assert changed.name == "mine"
    assert changed.hash == of({"score": {"alpha": 0.9, "limit": 9}}, {"dedupe": {"limit": 5}}, max_distance=0.5).hash
    assert recipe.parameters["score"]["alpha"] == 0.3


def test_nothing_changed_is_the_same_recipe() -> None:
    """No overrides, none within a stage, and what the recipe says anyway leave its hash."""
    for recipe in SHIPPED.values():
        first = recipe.stages[0].name
        same: list[Any] = [{}, {first: {}}, {"max_distance": 0}, {first: recipe.parameters[first]}]
        for overrides in same:
            assert recipe.overridden(overrides).hash == recipe.hash


def test_overrides_add_up() -> None:
    """A recipe that was changed can be changed again, and the later word on a parameter counts."""
    twice = (
        of("score", "dedupe").overridden({"score": {"alpha": 0.1, "limit": 7}}).overridden({"score": {"alpha": 0.2}})
    )
    assert twice.hash == of({"score": {"alpha": 0.2, "limit": 7}}, "dedupe").hash


def test_max_distance_can_be_changed() -> None:
    """It stands beside the stages, not in one."""
    assert of("score").overridden({"max_distance": 0.25}).max_distance == 0.25
    assert of("score", max_distance=0.5).overridden({"max_distance": 0}).max_distance == 0.0
    assert of("score", max_distance=0.5).overridden({"score": {"alpha": 1}}).max_distance == 0.5


@pytest.mark.parametrize("value", [-0.1, 1e7, float("nan"), "0.5", True, None, {}])
def test_a_wrong_max_distance_is_named(value: Any) -> None:
    """The bounds of a recipe's own hold for a query's."""
    said = refusal(of("score"), {"max_distance": value})
    assert said.startswith("max_distance: ")
    assert "0 to 1000000" in said


@pytest.mark.parametrize("stage", ["temporal", "rrf", "nope", "", "stages", "name"])
def test_a_stage_that_the_recipe_lacks_is_an_error(stage: str) -> None:
    """A stage can't be added by a query: the error names it and the recipe."""
    said = refusal(of("score", "dedupe"), {stage: {}})
    assert said.startswith(f"{stage}: ")
    assert "mine" in said


@pytest.mark.parametrize("changes", [None, 1, "alpha", [], [["alpha", 0.5]], True])
def test_changes_are_an_object(changes: Any) -> None:
    """A value that is no object of parameters is refused by the stage's name and with the value."""
    said = refusal(of("score"), {"score": changes})
    assert said.startswith("score: ")
    assert quoted(changes) in said


@pytest.mark.parametrize(
    ("changes", "named", "bound"),
    [
        ({"alpha": 1.5}, "score.alpha: ", "Input should be less than or equal to 1 (1.5)"),
        ({"alpha": -1}, "score.alpha: ", "Input should be greater than or equal to 0 (-1)"),
        ({"alpha": "0.5"}, "score.alpha: ", "('0.5')"),
        ({"alpha": True}, "score.alpha: ", "(true)"),
        ({"beta": 0.5}, "score.beta: ", "(0.5)"),
        ({"normaliser": "none"}, "score.normaliser: ", "('none')"),
    ],
)
def test_a_wrong_parameter_is_named(changes: Any, named: str, bound: str) -> None:
    """Stage, parameter, bound and value are in the error, as in a recipe's own."""
    said = refusal(of("score"), {"score": changes})
    assert said.startswith(named)
    assert bound in said


def test_every_wrong_override_is_named_at_once() -> None:
    """All that is wrong with a query's overrides is said in one error."""
    said = refusal(of("score", "temporal"), {"score": {"alpha": 2}, "temporal": {"boost": "a"}, "max_distance": -1})
    assert all(f"{name}: " in said for name in ("score.alpha", "temporal.boost", "max_distance"))


def test_what_goes_not_together_goes_not_together_by_halves() -> None:
    """Weights for a recipe with an alpha are an error, unless the query takes the alpha back."""
    recipe = of({"score": {"alpha": 0.3}})
    assert "alpha and weights" in refusal(recipe, {"score": {"weights": {"vector": 2.0}}})
    changed = recipe.overridden({"score": {"weights": {"vector": 2.0}, "alpha": None}})
    assert changed.hash == of({"score": {"weights": {"vector": 2.0}}}).hash


def test_a_distance_stage_can_be_turned_on_and_off() -> None:
    """A query turns the recipe's stages on distance on and off; what is off keeps its parameters."""
    recipe = of("score", {"weibull_decay": {"lambda": 30}}, {"keyword_boost": {"enabled": True}})
    changed = recipe.overridden({"weibull_decay": {"enabled": True}, "keyword_boost": {"enabled": False}})
    assert [stage.name for stage in changed.distance] == ["weibull_decay"]
    assert changed.parameters["weibull_decay"]["lambda"] == 30.0
    assert changed.reads == {"created_at"}


def test_the_preset_can_be_chosen_and_refined() -> None:
    """A query's preset gives what neither it nor the recipe says; a query's own number goes before it."""
    assert of("score", "weibull_decay").overridden({"weibull_decay": {"preset": "identity"}}).parameters[
        "weibull_decay"
    ] == {"enabled": False, "preset": "identity", "k": 1.2, "lambda": 365.0, "floor": 0.6}
    recipe = of("score", {"weibull_decay": {"preset": "identity"}})
    refined = recipe.overridden({"weibull_decay": {"lambda": 10}}).parameters["weibull_decay"]
    assert (refined["k"], refined["lambda"], refined["floor"]) == (1.2, 10.0, 0.6)


def test_a_boost_of_reflections_needs_no_stage() -> None:
    """The factor of a recipe's stage changes and all else stays; where it has none one is added behind."""
    placed = of("weighted", {"reflections": {"recency_weight": 0.3}}, "dedupe")
    boosted = placed.boosting(2.0)
    assert boosted.hash == placed.overridden({"reflections": {"reflection_boost": 2.0}}).hash
    assert [stage.name for stage in of("score", "rerank", "composite").boosting(2.0).behind] == [
        "composite",
        "reflections",
    ]
    for name, recipe in SHIPPED.items():
        changed = recipe.boosting(1.5)
        assert changed.name == name
        assert changed.parameters["reflections"]["reflection_boost"] == 1.5
        assert [stage for stage in changed.stages if stage.name != "reflections"] == [
            stage for stage in recipe.stages if stage.name != "reflections"
        ]


def test_the_chat_models_choice_stays_the_last() -> None:
    """A boost is added before `llm_rerank`, which keeps its parameters."""
    boosted = of("score", {"llm_rerank": {"enabled": True, "top_k": 3}}).boosting(2.0)
    assert [stage.name for stage in boosted.stages] == ["score", "reflections", "llm_rerank"]
    assert boosted.picking is not None
    assert boosted.picking.top_k == 3


@pytest.mark.parametrize("boost", [-0.1, 1e7, float("nan"), float("inf")])
def test_a_boost_has_its_bounds(boost: float) -> None:
    """A wrong value of the stage's parameter is refused by its name, in every recipe."""
    for recipe in SHIPPED.values():
        with pytest.raises(RecipeError, match=r"^reflections\.reflection_boost: "):
            recipe.boosting(boost)


json = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)
known = st.sampled_from([*STAGES, "max_distance"])
parameter = st.sampled_from(sorted({name for _, name, _ in others()}))
overrides = st.dictionaries(
    known | st.text(max_size=5), json | st.dictionaries(parameter, json | st.floats(0, 1), max_size=3), max_size=3
)


@pytest.mark.slow
@settings(max_examples=sized(200, nightly=800))
@given(st.sampled_from(list(SHIPPED)), overrides)
def test_any_overrides_are_a_recipe_or_an_error(name: str, overrides: Any) -> None:
    """Whatever a query says, there is a recipe of the same stages, or a RecipeError."""
    recipe = SHIPPED[name]
    try:
        changed = recipe.overridden(overrides)
    except RecipeError:
        return
    assert [stage.name for stage in changed.stages] == [stage.name for stage in recipe.stages]
    assert len(changed.hash) == 64
