"""The search space: what of a recipe is searched, over which values, all read from the schemas of its stages."""

from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from operators.evaluation.search import ALL, FUSE, Choices, Even, Factor, Wanted, dimensions, with_setting
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


@pytest.mark.parametrize(
    ("parameter", "scale"),
    [
        ("score.alpha", Even(0, 1)),
        ("score.weights.keyword", Factor(0, 1e6)),
        ("score.normaliser", Choices(("min_max", "theoretical", "z_score", "l2"))),
        ("weibull_decay.enabled", Choices((True, False))),
        ("weibull_decay.lambda", Factor(0.001, 1e6)),
        ("weibull_decay.floor", Even(0.01, 1)),
        ("llm_rerank.top_k", Factor(1, 200, whole=True)),
        ("composite.importance_scale", Choices((1, 5))),
        ("decay.neutral", Even(0, 1)),
        ("decay.mode", Choices(("exponential", "step"))),
    ],
)
def test_a_scale_is_read_from_the_schema(parameter: str, scale: Any) -> None:
    """A range at most 1 wide has equal steps, a wider one has factors, choices are tried one by one."""
    stage, name, key = (*parameter.split("."), None)[:3]
    fusion: list[Any] = [] if stage in {"score", "decay"} else ["linear"]
    recipe = Recipe.parse("r", {"stages": [*fusion, stage]})
    (dimension,) = dimensions(recipe, Wanted(str(stage), name, key))
    assert (dimension.path, dimension.scale, dimension.listed) == (parameter, scale, False)


def test_listed_values_are_taken_as_they_are() -> None:
    """Whatever the parameter is, whole mappings too."""
    (dimension,) = dimensions(TWO_LEGS, Wanted("score", "weights", None, ({}, {"vector": 3})))
    assert dimension.scale == Choices(({}, {"vector": 3}))
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


@pytest.mark.parametrize(
    ("scale", "value", "level", "tried"),
    [
        (Even(0, 1), 0.5, 0, [0.4, 0.6, 0.3, 0.7, 0.2, 0.8, 0.1, 0.9, 0.0, 1.0]),
        (Even(0, 1), None, 0, [0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0]),
        (Even(0, 1), "bound", 1, []),
        (Even(0, 1), 0.3, 1, [0.25, 0.35]),
        (Even(0, 1), 1.0, 2, [0.975]),
        (Factor(0, 1e6), 1.0, 0, [0.5, 2.0, 0.2, 5.0, 0.1, 10.0, 0.05, 20.0, 0.0]),
        (Factor(0, 1e6), 0.0, 0, [0.1, 0.05, 0.2, 0.02, 0.5, 0.01, 1.0, 0.005, 2.0]),
        (Factor(0.001, 1e6), 7.0, 0, [5.0, 10.0, 20.0, 2.0, 50.0, 1.0, 100.0, 0.5, 200.0]),
        (Factor(0, 1e6), 1.0, 1, [0.71, 1.4]),
        (Factor(0, 1e6), 0.0, 1, []),
        (Factor(1, 200, whole=True), 10, 0, [5, 20, 2, 50, 1, 100, 200]),
        (Choices(("a", "b", "c")), "b", 0, ["a", "c"]),
        (Choices(("a", "b")), "a", 1, []),
    ],
)
def test_values_around_one(scale: Any, value: Any, level: int, tried: list[Any]) -> None:
    """By hand, the nearest first, and never the value itself."""
    found = scale.around(value, level)
    assert sorted(found, key=str) == sorted(tried, key=str)
    if value is not None and not isinstance(scale, Factor):
        assert found == tried


@given(
    st.sampled_from([Even(0, 1), Even(0.01, 1), Factor(0, 1e6), Factor(-1e6, 1e6), Factor(1, 200, whole=True)]),
    st.one_of(st.none(), st.floats(0, 1e6)),
    st.integers(0, 2),
)
@example(Factor(0, 1e6), 5e-324, 0)
def test_values_are_within_the_range(scale: Any, value: float | None, level: int) -> None:
    """Whatever the present value is: none is out of bounds, twice, or the present one."""
    found = scale.around(value, level)
    assert all(scale.low <= each <= scale.high for each in found)
    assert len(set(found)) == len(found)
    assert value not in found


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
        wrong = {refused(recipe, {dimension.path: value}) for value in dimension.scale.around(dimension.own, 0)}
        assert wrong == {""}


@pytest.mark.parametrize("name", sorted(NUMBERLESS))
def test_a_stage_without_numbers_says_so(name: str) -> None:
    """Its choices and whole numbers can be named."""
    with pytest.raises(RecipeError, match="no parameter of it is a number"):
        dimensions(alone(name), Wanted(name))
