"""Ranking offline at the edges of the sources' formulas: what lies outside a range, in the future, or is named late."""

import math
from typing import Any

import pytest

from tests.flows.cli.test_pool_ranking import hit, pool, ranked, scores

NOW = "2024-03-01T12:00:00Z"


def alone(*hits: dict[str, Any]) -> list[dict[str, Any]]:
    """The legs of a pool with these hits of the vector leg."""
    return [{"name": "vector", "hits": list(hits)}, {"name": "keyword", "hits": []}]


def test_a_document_of_tomorrow_is_not_one_of_yesterday() -> None:
    """A date after now gains by its distance to the time named, and nothing is warned of, for no age is clamped."""
    legs = alone(hit("before", 0.5, "2024-02-29"), hit("after", 0.5, "2024-06-01"), hit("undated", 0.5, "2020-01-01"))
    weights = {"composite": {"quality": 0}}
    asked = pool(legs, NOW, text="what did we say yesterday?", recipe="composite", overrides=weights)
    result = ranked({**asked, "words": {}})
    found = scores(result)
    assert found["before"] - found["undated"] == pytest.approx(0.4)
    assert found["after"] == found["undated"]
    assert result["warnings"] == []


def test_the_first_time_of_a_text_counts() -> None:
    """Of two phrases the one that stands first, with hyphens or in capitals, decides what gains."""
    legs = alone(hit("fortnight", 0.5, "2024-02-16"), hit("week", 0.5, "2024-02-23"))
    for text, best in (("A-FORTNIGHT-AGO, not last week", "fortnight"), ("last week or a  fortnight ago", "week")):
        result = ranked(pool(legs, NOW, text=text, recipe="composite"))
        assert result["results"][0]["id"] == best


@pytest.mark.parametrize(
    ("recipe", "overrides", "worth"),
    [
        # score' = importance, from 0 to 1.
        ("composite", {"composite": {"relevance": 0, "quality": 0, "importance": 1}}, {"a": 0.5, "b": 0.5, "c": 1}),
        # Distance .5 * (1 - importance), from 0 to 5.
        ("distance", {"importance_boost": {"weight": 1}}, {"a": 0.55, "b": 0.55, "c": 0.9}),
    ],
)
def test_importance_has_its_sources_scale(recipe: str, overrides: Any, worth: dict[str, float]) -> None:
    """0 to 1 in `composite`, 0 to 5 in `distance`; without it the emotional weight counts, and too much is the most."""
    values: dict[str, dict[str, float]] = {
        "a": {"importance": 0.5},
        "b": {"emotional_weight": 0.5},
        "c": {"importance": 4, "emotional_weight": 0},
    }
    hits = [hit(name, 0.5, "2024-03-01", **value, text=name) for name, value in values.items()]
    result = ranked(pool([{"name": "vector", "hits": hits}], NOW, recipe=recipe, overrides=overrides))
    assert scores(result) == pytest.approx(worth)


def test_the_curve_of_confidence_is_the_recipes() -> None:
    """Half a year unconfirmed: of .5 + .5 * exp(-1) by default; of .2 + .8 * exp(-(180/90)^2) where it says so."""
    durable: dict[str, Any] = {"memory_tier": "semantic", "salience": 1, "confidence": 1}
    hits = [
        hit("old", 0.5, "2020-01-01", **durable, confirmed_at="2023-09-03T12:00:00Z"),
        hit("new", 0.5, "2020-01-01", **durable, confirmed_at=NOW),
    ]
    only = {"relevance": 0, "quality": 1, "confidence_decay": "weibull"}
    curve = {"confidence_k": 2, "confidence_lambda": 90, "confidence_floor": 0.2}
    cases: list[tuple[dict[str, Any], float]] = [({}, 0.5 + 0.5 * math.exp(-1)), (curve, 0.2 + 0.8 * math.exp(-4))]
    for more, old in cases:
        result = ranked(pool(alone(*hits), NOW, recipe="composite", overrides={"composite": only | more}))
        assert scores(result) == pytest.approx({"new": 1.0, "old": old})


@pytest.mark.parametrize("recipe", ["hybrid", "composite", "signals", "distance", "documents", "conversation"])
def test_without_post_the_fused_list_is_the_answer(recipe: str) -> None:
    """No stage behind the fusion runs, whatever the recipe and the query have of them, and no model."""
    copies = [
        hit(name, score, "2014-03-01", text="a text", type="reflection") for name, score in (("a", 0.9), ("b", 0.6))
    ]
    asked = pool(alone(*copies), NOW, {"a": 0.0, "b": 1.0}, text="a text of a week ago", recipe=recipe, post=False)
    more = {"reflection_boost": 3.0, "explain": True, "overrides": {"max_distance": 0.2}}
    result = ranked({**asked, "query": {**asked["query"], **more}})
    assert [each["id"] for each in result["results"]] == ["a", "b"]
    assert [len(each["explanation"]["stages"]) for each in result["results"]] == [1, 1]
    assert "reranked" not in result


def test_a_limit_below_0_is_the_default_with_a_warning() -> None:
    """It gives what 0 and a missing limit give: 20 results."""
    legs = alone(*(hit(f"{number:02}", 1 - number / 100, "2024-03-01") for number in range(30)))
    for limit in (-1, -(2**63)):
        result = ranked(pool(legs, NOW, limit=limit, recipe="vector"))
        assert len(result["results"]) == 20
        assert result["warnings"] == [f"limit: below 0, 20 is used ({limit})"]
    assert ranked(pool(legs, NOW, limit=0, recipe="vector"))["warnings"] == []


def test_only_legs_that_gave_candidates_are_used() -> None:
    """A leg that was asked and found nothing is listed among the legs, and not among the backends used."""
    result = ranked(pool(alone(hit("a", 0.5, "2024-03-01")), NOW, recipe="rrf"))
    assert result["backends_used"] == ["vector"]
    assert [each["status"] for each in result["legs"]] == ["ok", "ok"]


def test_a_lost_vector_leg_is_explained() -> None:
    """A sentence says why the search by meaning is missing, and there is none where it is not."""
    lost = ranked(pool([{"name": "keyword", "hits": [hit("a", 3.0, "2024-03-01")]}], NOW))
    assert lost["semantic_unavailable"]
    said = "The vector leg gave no candidates: the server cannot be reached, or is overloaded."
    assert lost["semantic_unavailable_reason"] == said
    assert "semantic_unavailable_reason" not in ranked(pool(alone(hit("a", 0.5, "2024-03-01")), NOW))
