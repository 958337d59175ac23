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
    result = ranked(asked)
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
    values = {"a": {"importance": 0.5}, "b": {"emotional_weight": 0.5}, "c": {"importance": 4, "emotional_weight": 0}}
    hits = [hit(name, 0.5, "2024-03-01", **value, text=name) for name, value in values.items()]
    result = ranked(pool([{"name": "vector", "hits": hits}], NOW, recipe=recipe, overrides=overrides))
    assert scores(result) == pytest.approx(worth)


def test_the_curve_of_confidence_is_the_recipes() -> None:
    """Half a year unconfirmed: of .5 + .5 * exp(-1) by default; of .2 + .8 * exp(-(180/90)^2) where it says so."""
    durable = {"memory_tier": "semantic", "salience": 1, "confidence": 1}
    hits = [
        hit("old", 0.5, "2020-01-01", **durable, confirmed_at="2023-09-03T12:00:00Z"),
        hit("new", 0.5, "2020-01-01", **durable, confirmed_at=NOW),
    ]
    only = {"relevance": 0, "quality": 1, "confidence_decay": "weibull"}
    curve = {"confidence_k": 2, "confidence_lambda": 90, "confidence_floor": 0.2}
    for more, old in (({}, 0.5 + 0.5 * math.exp(-1)), (curve, 0.2 + 0.8 * math.exp(-4))):
        result = ranked(pool(alone(*hits), NOW, recipe="composite", overrides={"composite": only | more}))
        assert scores(result) == pytest.approx({"new": 1.0, "old": old})
