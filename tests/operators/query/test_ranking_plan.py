"""Ranking plans: what a query's model reads, and what its stages know."""

from dataclasses import replace
from typing import Any

import pytest

from operators.query.canonical import canonicalise
from operators.text.dates import TemporalExpression
from schemas.recipes.fusion import DecayTier
from schemas.settings import DecaySettings, SourcePolicy
from tests.operators.query.test_plan import UNSAID, event, planned, planner_of


@pytest.mark.parametrize(
    ("asked", "count"),
    [
        ({}, 50),
        ({"profile": "deep"}, 200),
        ({"profile": "fast"}, 0),
        ({"profile": "terse"}, 3),
        ({"recipe": "composite"}, 50),
        ({"recipe": "distance"}, 0),
        ({"recipe": "vector"}, 0),
        ({"recipe": "picking"}, 0),
        ({"rerank": False}, 0),
        ({"reflections_only": True}, 0),
        ({"text": None, "vector": [0.5]}, 0),
        ({"text": None, "subject": "s"}, 0),
    ],
)
def test_how_many_are_reranked(asked: dict[str, Any], count: int) -> None:
    """The profile's top where the recipe asks a model; none without a text, and of reflections alone."""
    assert canonicalise(event(**asked), planned(**asked), **UNSAID).reranks == count


@pytest.mark.parametrize(
    ("asked", "count"),
    [
        ({"recipe": "picking"}, 7),
        ({"recipe": "picking", "profile": "deep"}, 7),
        ({"recipe": "hybrid"}, 0),
        ({"recipe": "picking", "rerank": False}, 0),
        ({"recipe": "picking", "reflections_only": True}, 0),
    ],
)
def test_from_how_many_one_is_selected(asked: dict[str, Any], count: int) -> None:
    """The stage's `top_k`, whichever the profile is."""
    assert canonicalise(event(**asked), planned(**asked), **UNSAID).picks == count


def test_a_selection_without_a_chat_model_is_skipped() -> None:
    """The stage does nothing then, and the result says why."""
    warnings: list[str] = []
    asked = event(recipe="picking")
    plan = replace(planner_of(), chat=False).plan(asked, "diary", warnings)
    assert canonicalise(asked, plan, **UNSAID).picks == 0
    assert warnings == ["llm_rerank: no chat model is configured, the stage is skipped"]


@pytest.mark.parametrize(
    ("recipe", "asked", "included"),
    [
        ("hybrid", None, True),
        ("hybrid", False, False),
        ("unreflected", None, False),
        ("unreflected", True, True),
        ("signals", None, True),
    ],
)
def test_the_query_decides_on_reflections(recipe: str, asked: bool | None, included: bool) -> None:
    """Reflections take part unless the recipe leaves them out; a query that says so decides."""
    assert planned(recipe=recipe, include_reflections=asked).include_reflections is included


def test_the_decay_of_a_place_is_its_own() -> None:
    """Planned with the tiers of the destination and the collection that are asked; over them goes the source's."""
    tier, notes, own = (DecayTier(half_life_days=days) for days in (2.0, 9.0, 1.0))
    plan = planner_of(decay=DecaySettings(destinations={"d": tier}, collections={"d": {"notes": notes}})).plan
    for part, there in ((event(), (tier,)), (event(collection="notes"), (tier, notes))):
        assert (plan(part, "d", []).decay, plan(part, "default", []).decay) == (there, ())
        assert plan(part, "d", [], SourcePolicy(decay=own)).decay == (*there, own)


def test_the_facts_are_the_querys() -> None:
    """Stages know the query's clocks, text, anchor and wishes, the destination's tier and the profile's half-life."""
    tier, yesterday = DecayTier(half_life_days=2.0), TemporalExpression(1, 1)
    asked = event(current_cycle=9, include_reflections=False, explain=True, rerank=False, profile="deep")
    plan = planner_of(decay=DecaySettings(destinations={"diary": tier})).plan(asked, "diary", [])
    facts = canonicalise(asked, plan, **UNSAID).facts(5.0, yesterday)
    assert (facts.now, facts.cycle, facts.text, facts.temporal_expression) == (5.0, 9, "find me", yesterday)
    assert (facts.include_reflections, facts.reflections_only) == (False, False)
    assert (facts.decay, facts.decay_half_life) == ((tier,), 30.0)
    assert facts.explain
    facts = canonicalise(event(reflections_only=True), planned(profile="fast"), **UNSAID).facts(None, None)
    assert (facts.now, facts.cycle, facts.text, facts.temporal_expression) == (None, None, "find me", None)
    assert (facts.include_reflections, facts.reflections_only) == (True, True)
    assert (facts.decay, facts.decay_half_life, facts.explain) == ((), None, False)
