"""A recipe's facts of itself: where the model stands, where distances are measured, what is asked and read."""

from typing import Any

import pytest

from schemas.recipes import Recipe
from schemas.recipes.stages import Composite, Temporal


def of(*listed: Any, **more: Any) -> Recipe:
    """The recipe of these stages."""
    return Recipe.parse("test", {"stages": list(listed), **more})


@pytest.mark.parametrize(
    ("listed", "ahead", "behind"),
    [
        (["score"], [], []),
        (["score", "dedupe", "composite"], ["dedupe", "composite"], []),
        (["score", "rerank"], [], []),
        (["score", "dedupe", "rerank"], ["dedupe"], []),
        (["score", "rerank", "dedupe"], [], ["dedupe"]),
        (["score", "weibull_decay", "dedupe", "rerank", "temporal"], ["weibull_decay", "dedupe"], ["temporal"]),
    ],
)
def test_a_model_parts_the_stages(listed: list[Any], ahead: list[str], behind: list[str]) -> None:
    """A stage before `rerank` ranks what the model reads, one behind it takes its score; without it all of
    the stages stand before.
    """
    recipe = of(*listed)
    assert [stage.name for stage in recipe.ahead] == ahead
    assert [stage.name for stage in recipe.behind] == behind
    assert (recipe.reranking is not None) == ("rerank" in listed)


def test_the_weight_of_the_model_is_the_stages() -> None:
    """A recipe says how much the model's score counts, 1 where it says nothing, and a query may change it."""
    first = of("score", {"rerank": {"weight": 0.3}})
    assert [recipe.reranking.weight for recipe in (first, of("score", "rerank")) if recipe.reranking] == [0.3, 1.0]
    changed = first.overridden({"rerank": {"weight": 0.7}})
    assert changed.hash == of("score", {"rerank": {"weight": 0.7}}).hash


@pytest.mark.parametrize(
    ("listed", "measuring"),
    [
        (["linear"], "linear"),
        (["linear", "dedupe", "rerank"], "linear"),
        (["linear", "llm_rerank"], "linear"),
        (["linear", "dedupe", "keyword_boost", "weibull_decay"], "keyword_boost"),
        (["linear", "rerank", {"weibull_decay": {"enabled": True}}, "dedupe"], "weibull_decay"),
    ],
)
def test_distances_are_measured_at_the_first_distance_stage(listed: list[Any], measuring: str) -> None:
    """On or off, the first of the stages on distance is the place; a chat model's choice is none, and without one it is
    the fusion.
    """
    assert of(*listed).measuring.name == measuring


def test_the_chat_models_choice_is_no_stage_of_the_pipeline() -> None:
    """It is asked for apart from the stages that compute, and only where it is on."""
    on = of("linear", {"weibull_decay": {"enabled": True}}, {"llm_rerank": {"enabled": True, "top_k": 3}})
    assert [stage.name for stage in on.distance] == ["weibull_decay"]
    assert on.picking is not None
    assert on.picking.top_k == 3
    assert of("linear", "llm_rerank").picking is None


def test_a_stage_can_be_asked_for() -> None:
    """A recipe gives its stage of a kind, or none."""
    found = of("score", {"composite": {"quality": 0.5}}).stage(Composite)
    assert isinstance(found, Composite)
    assert found.quality == 0.5
    assert of("score").stage(Temporal) is None


def test_stages_that_are_off_ask_for_nothing() -> None:
    """A distance stage's payload fields are read only if it is on."""
    assert of("score", "weibull_decay", "keyword_boost").reads == frozenset()
    on = of("score", {"weibull_decay": {"enabled": True}}, "keyword_boost")
    assert on.reads == {"created_at"}
    assert [stage.name for stage in on.distance] == ["weibull_decay"]


def test_the_structured_leg_is_asked_if_it_weighs() -> None:
    """Fusions ask it only for a weight; the blend without any leg's weight asks it alone."""
    assert of({"rrf": {"weights": {"structured": 0.1}}}).fusion.legs == ("vector", "keyword", "structured")
    assert of({"score": {"weights": {"structured": 0.0}}}).fusion.legs == ("vector", "keyword")
    assert of({"weighted": {"vector_weight": 0}}).fusion.legs == ("keyword",)
    assert of({"weighted": {"vector_weight": 0, "keyword_weight": 0}}).fusion.legs == ("structured",)


def test_edges_are_read_only_if_they_weigh() -> None:
    """The blend fetches no edges at a graph weight of 0."""
    assert "edges" not in of("weighted").reads
    assert "edges" in of({"weighted": {"graph_weight": 0.1}}).reads


def test_nothing_to_search_by() -> None:
    """Recipes that score by age rank the newest documents then, whatever their weights; others find nothing."""
    for fusion in ("weighted", {"weighted": {"vector_weight": 0}}, "decay", {"decay": {"enabled": True}}):
        assert of(fusion).fusion.unasked == ("structured",)
    for fusion in ("score", "rrf", "dbsf", "linear", "vector", "keyword"):
        assert of(fusion, "composite").fusion.unasked == ()


def test_a_chat_model_cannot_be_missing_for_times() -> None:
    """A recipe needs one if its times are the chat model's to read; a choice is skipped where there is none."""
    assert of("score", {"temporal": {"extractor": "chat"}}).asks_chat
    assert not of("score", {"llm_rerank": {"enabled": True}}).asks_chat
    assert not of("score", "temporal", "llm_rerank").asks_chat
