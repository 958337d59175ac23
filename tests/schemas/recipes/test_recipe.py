"""The parts of a recipe, and its hash."""

import random
from collections.abc import Sequence
from datetime import date
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from schemas.recipes import SHIPPED, Recipe, RecipeError
from schemas.recipes.fusion import FUSION
from schemas.recipes.recipe import STAGES
from schemas.recipes.stages import DISTANCE
from tests.schemas.quoted import quoted
from tests.schemas.recipes.bounds import others, stages
from tests.tiers import sized


def of(*listed: Any, **more: Any) -> Recipe:
    """The recipe of these stages."""
    return Recipe.parse("test", {"stages": list(listed), **more})


def refusal(definition: object) -> str:
    """The error of a definition."""
    with pytest.raises(RecipeError) as caught:
        Recipe.parse("mine", definition)
    return str(caught.value)


def names(recipe: Recipe) -> list[str]:
    """The stages, in order."""
    return [stage.name for stage in recipe.stages]


def test_a_stage_is_its_name_or_its_name_with_parameters() -> None:
    """A name alone, with nothing behind it and with no parameters are the same recipe."""
    ways: list[Any] = ["score", {"score": {}}, {"score": None}]
    for item in ways:
        assert of(item, "dedupe").hash == of("score", "dedupe").hash
    assert names(of({"score": {"alpha": 0.3}}, "dedupe")) == ["score", "dedupe"]


@pytest.mark.parametrize(
    "item", [None, 1, "", "nope", [], ["score"], {}, {"rrf": {}, "dedupe": {}}, {"nope": {}}, {1: 2}]
)
def test_what_is_no_stage_is_refused(item: Any) -> None:
    """An entry that is neither a known name nor one name with its parameters is an error that quotes it."""
    said = refusal({"stages": ["score", item]})
    assert said.startswith("stages.1: ")
    wrong = next(iter(item)) if isinstance(item, dict) and len(item) == 1 else item
    assert quoted(wrong) in said


def test_what_json_cannot_write_is_quoted_all_the_same() -> None:
    """YAML has dates, as keys too: `{2024-01-01: 1, x: 2}` is refused like any other entry."""
    item = {date(2024, 1, 1): 1, "x": 2}
    assert refusal({"stages": ["score", item]}).endswith(f"({item})")


def test_an_unknown_stage_is_told_which_there_are() -> None:
    """The error for a name that is none lists all that are."""
    said = refusal({"stages": ["fusion"]})
    assert "'fusion'" in said
    assert all(name in said for name in STAGES)


def test_a_stage_that_is_nearly_one_is_told_which() -> None:
    """The error for a misspelt name says which one was likely meant."""
    assert refusal({"stages": ["rrff", {"dedup": {}}]}) == (
        "stages.0: no such stage; did you mean rrf? ('rrff'); stages.1: no such stage; did you mean dedupe? ('dedup')"
    )


def test_every_problem_is_named_at_once() -> None:
    """Keys, stages, parameters and the distance, each by its path."""
    said = refusal({"stages": [{"rrf": {"K": 5}}, "nope", "rrf", 7], "limit": 3, "max_distance": -1})
    paths = [each.split(":")[0] for each in said.split("); ")]
    assert paths == ["limit", "stages.1", "stages.2", "stages.3", "max_distance"]
    said = refusal({"stages": [{"rrf": {"K": 5, "k": "x"}}, "nope", {"dedupe": {"limit": "x"}}]})
    assert {each.split(":")[0] for each in said.split("); ")} == {"stages.1", "rrf.K", "rrf.k", "dedupe.limit"}


@pytest.mark.parametrize("parameters", [[], 1, "k", True, 0.5])
def test_parameters_are_a_mapping(parameters: Any) -> None:
    """Parameters that are no mapping are refused by the stage's name."""
    assert refusal({"stages": [{"rrf": parameters}]}).startswith("rrf: ")


@pytest.mark.parametrize("definition", [None, 1, "score", [], ["score"], [("stages", ["score"])]])
def test_a_definition_is_a_mapping(definition: object) -> None:
    """A value that is no mapping is refused by the recipe's name."""
    assert refusal(definition).startswith("mine: ")


@pytest.mark.parametrize("listed", [None, "score", {}, {"score": {}}, [], ["score"] * 33])
def test_the_stages_are_a_list(listed: Any) -> None:
    """No list, an empty one and one of more than 32 are refused."""
    assert refusal({"stages": listed}).startswith("stages: ")


def test_without_stages_there_is_no_recipe() -> None:
    """The one key that must be there is `stages`."""
    assert refusal({}).startswith("stages: ")


def test_unknown_keys_are_named() -> None:
    """Each key that a recipe doesn't have is an error, never ignored."""
    said = refusal({"stages": ["score"], "limit": 3, "stagess": 1})
    assert (
        said == "limit: no such key; there are stages, max_distance (3); stagess: no such key; did you mean stages? (1)"
    )


@pytest.mark.parametrize("value", [-0.001, 1_000_000.5, float("nan"), float("inf"), 10**400, "1", True, None, [1]])
def test_max_distance_is_a_number(value: Any) -> None:
    """It goes from 0 to 1,000,000; anything else is refused with the bounds and the value."""
    said = refusal({"stages": ["score"], "max_distance": value})
    assert said.startswith("max_distance: ")
    assert "0 to 1000000" in said
    assert quoted(value) in said


def test_max_distance_may_be_its_bounds() -> None:
    """0, which is off and the default, and 1,000,000 are allowed."""
    assert of("score").max_distance == of("score", max_distance=0).max_distance == 0.0
    assert of("score", max_distance=1e6).max_distance == 1e6


@pytest.mark.parametrize(
    "first", ["dedupe", "rerank", "reflections", "composite", "temporal", *(stage.name for stage in DISTANCE)]
)
def test_the_first_stage_is_a_fusion(first: str) -> None:
    """A recipe that begins with anything else is refused, and told what it may begin with."""
    said = refusal({"stages": [first]})
    assert said.startswith("stages.0: ")
    assert repr(first) in said
    assert "rrf, score, linear, dbsf, weighted, decay, vector, keyword" in said


def test_only_the_first_stage_is_a_fusion() -> None:
    """A second fusion is refused wherever it stands."""
    assert "'rrf'" in refusal({"stages": ["score", "rrf"]})
    assert "'weighted'" in refusal({"stages": ["score", "dedupe", "weighted", "temporal"]})


@pytest.mark.parametrize("twice", ["score", "dedupe", "llm_rerank"])
def test_no_stage_is_named_twice(twice: str) -> None:
    """A stage stands at most once, whatever its parameters."""
    assert repr(twice) in refusal({"stages": ["score", "dedupe", "llm_rerank", {twice: {"limit": 3}}]})


def test_distance_stages_stand_together() -> None:
    """Another stage between two of them is an error that names it; before and behind them it is not."""
    said = refusal({"stages": ["score", "weibull_decay", "dedupe", "keyword_boost"]})
    assert said == "stages.3: the distance stages must stand together, and dedupe is no such ('keyword_boost')"
    together = ["score", "dedupe", "importance_boost", "keyword_boost", "weibull_decay", "composite"]
    assert names(of(*together)) == together


def test_the_chat_model_comes_last() -> None:
    """`llm_rerank` picks from what all others made: a stage behind it is an error."""
    assert "'llm_rerank'" in refusal({"stages": ["score", "llm_rerank", "weibull_decay"]})
    assert names(of("score", "weibull_decay", "llm_rerank"))[-1] == "llm_rerank"


def test_one_model_ranks() -> None:
    """`rerank` and `llm_rerank` in one recipe are an error that names both, though the second be off."""
    for chat in ("llm_rerank", {"llm_rerank": {"enabled": True}}):
        said = refusal({"stages": ["score", "rerank", chat]})
        assert said == "stages.2: one model at most may rank, and rerank does ('llm_rerank')"
    assert of("score", "rerank").reranking is not None
    assert of("score", "llm_rerank").reranking is None


@pytest.mark.parametrize("stage", ["feedback", "smoothing"])
def test_the_model_comes_before_what_compares(stage: str) -> None:
    """Candidates that a stage has moved are not those that the model has read."""
    assert names(of("score", "rerank", stage)) == ["score", "rerank", stage]
    assert refusal({"stages": ["score", stage, "rerank"]}) == f"stages.2: must stand before {stage} ('rerank')"


def test_equal_content_has_an_equal_hash() -> None:
    """Neither the name, nor the order of keys, nor a default written out, nor an integer for a float matters."""
    definition = {"stages": [{"score": {"weights": {"keyword": 1.0, "vector": 2.0}}}, "dedupe"], "max_distance": 0.5}
    again = {
        "max_distance": 0.5,
        "stages": [
            {"score": {"normaliser": "min_max", "weights": {"vector": 2, "keyword": 1}}},
            {"dedupe": {"limit": 0}},
        ],
    }
    assert Recipe.parse("one", definition).hash == Recipe.parse("another", again).hash
    assert len(Recipe.parse("one", definition).hash) == 64


@pytest.mark.parametrize(("stage", "parameter", "value"), others())
def test_every_parameter_is_in_the_hash(stage: str, parameter: str, value: Any) -> None:
    """A recipe with any one parameter changed has another hash."""
    assert of(*stages(stage, {parameter: value})).hash != of(*stages(stage, {})).hash


def test_stages_their_order_and_max_distance_are_in_the_hash() -> None:
    """A stage more, another order and another bound are other recipes."""
    recipes = [
        of("score"),
        of("rrf"),
        of("score", "dedupe"),
        of("score", "dedupe", "composite"),
        of("score", "composite", "dedupe"),
        of("score", max_distance=0.5),
        of("score", max_distance=0.25),
    ]
    assert len({recipe.hash for recipe in recipes}) == len(recipes)


@pytest.mark.parametrize("name", SHIPPED)
def test_a_definition_is_the_recipe(name: str) -> None:
    """A recipe's description of itself makes the same recipe, also after a query changed it."""
    for recipe in (SHIPPED[name], SHIPPED[name].overridden({"max_distance": 0.5})):
        assert Recipe.parse(name, recipe.definition).hash == recipe.hash


def test_what_can_be_read_can_be_hashed() -> None:
    """A recipe with a lone surrogate in it is an error where it is read, not where it is first used."""
    assert refusal({"stages": ["score", {"keyword_boost": {"stop_words": ["\ud800"]}}]}).startswith("keyword_boost.")


def test_a_deep_definition_is_an_error() -> None:
    """Lists within lists beyond what the interpreter can follow are refused as anything else."""
    deep: list[Any] = []
    for _ in range(5000):
        deep = [deep]
    for definition in (
        deep,
        {"stages": deep},
        {"stages": [{"rrf": {"k": deep}}]},
        {"stages": ["rrf"], "max_distance": deep},
    ):
        assert refusal(definition)


json = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)
parameter = st.sampled_from(sorted({name for _, name, _ in others()}))
stage = st.sampled_from(list(STAGES)) | json
listed = st.lists(
    stage
    | st.dictionaries(st.sampled_from(list(STAGES)), json | st.dictionaries(parameter, json, max_size=2), max_size=2),
    max_size=5,
)
definitions = json | st.fixed_dictionaries({}, optional={"stages": json | listed, "max_distance": json})


@pytest.mark.slow
@settings(max_examples=sized(300, nightly=1500))
@given(definitions)
def test_any_definition_is_a_recipe_or_an_error(definition: Any) -> None:
    """Whatever JSON value is given, there is a recipe that can be hashed and asked, or a RecipeError."""
    try:
        recipe = Recipe.parse("any", definition)
    except RecipeError:
        return
    assert_usable(recipe, definition["stages"])


def assert_usable(recipe: Recipe, given_stages: Sequence[Any]) -> None:
    """All that a recipe promises can be asked of it."""
    assert len(recipe.hash) == 64
    assert recipe.fusion is recipe.stages[0]
    model = () if recipe.reranking is None else (recipe.reranking,)
    again = tuple(stage for stage in recipe.ahead if stage.name == "coverage" and model)
    assert recipe.behind[: len(again)] == again
    assert recipe.stages == (recipe.fusion, *recipe.ahead, *model, *recipe.behind[len(again) :])
    assert recipe.measuring in recipe.stages
    assert recipe.boosting(2.0).reads == recipe.reads | {"type"}
    assert len(recipe.stages) == len(given_stages) == len(recipe.parameters)
    assert recipe.reads <= {name for stage in recipe.stages for name in stage.reads}


def test_right_recipes_at_random() -> None:
    """Recipes of any stages and parameters within their bounds are read, and read again from what they say they are."""
    draw = random.Random(7)
    fusions = [stage.name for stage in FUSION]
    later = [name for name in STAGES if name not in fusions]
    for _ in range(300):
        chosen = [draw.choice(fusions), *(name for name in later if draw.random() < 0.5)]
        if {"rerank", "llm_rerank"} <= set(chosen):
            chosen.remove(draw.choice(["rerank", "llm_rerank"]))
        changed = {
            name: draw.choice([(parameter, value) for stage, parameter, value in others() if stage == name])
            for name in chosen
        }
        recipe = of(*({name: dict([pair])} for name, pair in changed.items()))
        assert names(recipe) == chosen
        assert all(recipe.parameters[name][parameter] == value for name, (parameter, value) in changed.items())
        assert of(*({name: parameters} for name, parameters in recipe.parameters.items())).hash == recipe.hash
