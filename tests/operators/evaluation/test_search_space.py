"""The search space: what of a recipe is searched, over which values, all read from the schemas of its stages."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from operators.evaluation.search import ALL, FUSE, Wanted, dimensions, with_setting
from schemas.recipes import SHIPPED, Recipe, RecipeError
from schemas.recipes.recipe import STAGES

TWO_LEGS = Recipe.parse("two", {"stages": [{"score": {"weights": {"vector": 2.0, "mine": 0.5}}}, "rerank"]})


def paths(recipe: Recipe, *wanted: Wanted) -> list[str]:
    """The paths of what is searched."""
    return [dimension.path for each in wanted for dimension in dimensions(recipe, each)]


def test_a_stage_alone_is_its_numbers() -> None:
    """No choices, no whole numbers; a mapping of weights has one for each leg that the fusion asks."""
    assert paths(SHIPPED["composite"], Wanted("composite")) == [
        "composite.relevance",
        "composite.recency",
        "composite.importance",
        "composite.quality",
        "composite.confidence_k",
        "composite.confidence_lambda",
        "composite.confidence_floor",
    ]
    assert paths(SHIPPED["hybrid"], Wanted("score")) == [
        "score.fuzzy",
        "score.alpha",
        "score.weights.vector",
        "score.weights.keyword",
    ]
    assert paths(TWO_LEGS, Wanted("score")) == [
        "score.alpha",
        "score.weights.vector",
        "score.weights.keyword",
        "score.weights.mine",
    ]


def test_fuse_and_all_stand_for_stages() -> None:
    """`fuse` is the recipe's first stage, whatever it is; `all` is every stage that runs."""
    assert paths(SHIPPED["rrf"], Wanted(FUSE)) == ["rrf.k", "rrf.weights.vector", "rrf.weights.keyword"]
    assert paths(SHIPPED["distance"], Wanted(FUSE)) == ["linear.alpha"]
    assert paths(SHIPPED["distance"], Wanted(ALL)) == [
        "linear.alpha",
        "weibull_decay.k",
        "weibull_decay.lambda",
        "weibull_decay.floor",
        "keyword_boost.weight",
        "importance_boost.weight",
    ]
    off = Recipe.parse("off", {"stages": ["linear", "weibull_decay"]})
    assert paths(off, Wanted(ALL)) == ["linear.alpha"]


def test_the_own_value_is_the_recipes() -> None:
    """Written or default; a leg without a weight has 1."""
    assert [each.own for each in dimensions(TWO_LEGS, Wanted("score"))] == [None, 2.0, 1.0, 0.5]
    assert [each.own for each in dimensions(TWO_LEGS, Wanted("rerank"))] == [1.0, 0.0]


SHARES = [number / 20 for number in range(21)]


@pytest.mark.parametrize(
    ("parameter", "values"),
    [
        ("score.alpha", SHARES),
        ("score.weights.keyword", [0, 0.1, 0.15, 0.2, 0.3, 0.5, 0.7, 1, 1.5, 2, 3, 5, 7, 10, 15, 20, 30, 50, 70]),
        ("score.normaliser", ["min_max", "theoretical", "credited", "z_score", "l2"]),
        ("weibull_decay.enabled", [True, False]),
        ("weibull_decay.lambda", [1, 1.5, 2, 3, 5, 7, 10, 15, 20, 30, 50, 70, 100, 150, 200, 300, 500, 700]),
        ("weibull_decay.floor", [round(0.01 + 0.99 * share, 6) for share in SHARES]),
        ("llm_rerank.top_k", [1, 2, 3, 5, 7, 10, 15, 20, 30, 50, 70, 100, 150, 200]),
        ("composite.importance_scale", [1, 5]),
        ("decay.neutral", SHARES),
        ("decay.mode", ["exponential", "step"]),
    ],
)
def test_values_are_read_from_the_schema(parameter: str, values: list[Any]) -> None:
    """A range at most 1 wide has equal steps, a wider one has factors, choices are tried one by one."""
    stage, name, key = (*parameter.split("."), None)[:3]
    fusion: list[Any] = [] if stage in {"score", "decay"} else ["linear"]
    recipe = Recipe.parse("r", {"stages": [*fusion, stage]})
    (dimension,) = dimensions(recipe, Wanted(str(stage), name, key))
    assert (dimension.path, list(dimension.values), dimension.listed) == (parameter, values, False)


def test_listed_values_are_taken_as_they_are() -> None:
    """Whatever the parameter is, whole mappings too."""
    (dimension,) = dimensions(TWO_LEGS, Wanted("score", "weights", None, ({}, {"vector": 3})))
    assert dimension.values == ({}, {"vector": 3})
    assert dimension.listed


@pytest.mark.parametrize(
    ("wanted", "said"),
    [
        (Wanted("score", "beta"), "score.beta: the stage has no such parameter; it has limit, fuzzy, alpha"),
        (Wanted("dedupe"), "dedupe: no parameter of it is a number: name one, with values"),
        (Wanted("score", "alpha", "x"), "score.alpha.x: the parameter has no keys"),
        (Wanted("keyword_boost", "stop_words"), "keyword_boost.stop_words: no range to search"),
    ],
)
def test_what_cannot_be_searched_is_said(wanted: Wanted, said: str) -> None:
    """By its path, and what is to be done."""
    recipe = Recipe.parse("r", {"stages": ["score", "dedupe", "keyword_boost"]})
    with pytest.raises(RecipeError, match=said):
        dimensions(recipe, wanted)


def test_a_stage_that_the_recipe_lacks_has_no_names() -> None:
    """The recipe isn't meant."""
    assert Wanted("rrf").names(SHIPPED["hybrid"]) == []
    assert Wanted("score").names(SHIPPED["hybrid"]) == ["score"]


def test_a_setting_changes_the_recipe() -> None:
    """By paths; keys of a mapping are merged into it, and nothing else changes."""
    setting = {"score.weights.keyword": 3.0, "score.weights.vector": 1.0, "rerank.weight": 0.5}
    assert with_setting(TWO_LEGS, setting).definition["stages"] == [
        {"score": {"weights": {"vector": 1.0, "mine": 0.5, "keyword": 3.0}}},
        {"rerank": {"weight": 0.5}},
    ]
    whole = with_setting(TWO_LEGS, {"score.weights.keyword": 3.0, "score.weights": {}})
    assert whole.written["score"] == {"weights": {"keyword": 3.0}}
    assert with_setting(TWO_LEGS, {}) == TWO_LEGS
    with pytest.raises(RecipeError, match="alpha and weights are both given"):
        with_setting(TWO_LEGS, {"score.alpha": 0.5})


@given(st.floats(0, 1e6))
def test_values_are_within_the_range(own: float) -> None:
    """Whatever the present value is: none is out of bounds or twice."""
    recipe = Recipe.parse("r", {"stages": [{"score": {"weights": {"keyword": own}}}]})
    (dimension,) = dimensions(recipe, Wanted("score", "weights", "keyword"))
    assert all(0 <= each <= 1e6 for each in dimension.values)
    assert len(set(dimension.values)) == len(dimension.values)


def alone(name: str) -> Recipe:
    """A recipe with this stage, behind a fusion if it is none."""
    try:
        return Recipe.parse("r", {"stages": [name]})
    except RecipeError:
        return Recipe.parse("r", {"stages": ["linear", name]})


def refused(recipe: Recipe, setting: dict[str, Any]) -> str:
    """Why the recipe can't have this setting; empty if it can."""
    try:
        with_setting(recipe, setting)
    except RecipeError as error:
        return str(error)
    return ""


NUMBERLESS = {"vector", "keyword", "dedupe", "llm_rerank"}


@pytest.mark.parametrize("name", sorted(STAGES.keys() - NUMBERLESS))
def test_every_stage_can_be_searched(name: str) -> None:
    """A stage needs no line in the search: what is tried first of each number is what its schema accepts."""
    recipe = alone(name)
    found = dimensions(recipe, Wanted(name))
    assert found
    for dimension in found:
        wrong = {refused(recipe, {dimension.path: value}) for value in dimension.values}
        assert wrong == {""}


@pytest.mark.parametrize("name", sorted(NUMBERLESS))
def test_a_stage_without_numbers_says_so(name: str) -> None:
    """Its choices and whole numbers can be named."""
    with pytest.raises(RecipeError, match="no parameter of it is a number"):
        dimensions(alone(name), Wanted(name))
