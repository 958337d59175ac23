"""Debug: the steps of a query's way in their order, with what each found and how long it took."""

from typing import Any

import pytest

from operators.query.in_flight import InFlight, Step
from operators.query.outcome import Answer
from operators.query.plan import Planner
from operators.query.result import debug
from schemas.recipes.fusion import DecayTier
from schemas.result import Debug, RetrievalStage
from schemas.settings import DecaySettings, PolicySettings, SourcePolicy
from schemas.settings.ranking import PROFILES
from tests.operators.samples import decoder, message, query


def told(asked: InFlight) -> dict[str, Any]:
    """The debug field of a query, which must keep the contract."""
    said = debug(asked)
    Debug.model_validate_json(Debug.model_validate(said).model_dump_json())
    return said


def test_the_steps_are_told_in_their_order() -> None:
    """By hand: each step once, its time, and its candidates where it counts any."""
    asked = query(debug=True)
    asked.steps = [Step("policy", 0.25, None), Step("vector", 2.0, 7), Step("keyword", 1.5, 0), Step("pick", 9.0, 5)]
    said = told(asked)
    assert said["total_latency_ms"] >= 0
    del said["total_latency_ms"], said["decay"]
    assert said == {
        "stages_hit": ["policy", "vector", "keyword", "pick"],
        "candidates_per_stage": {"vector": 7, "keyword": 0, "pick": 5},
        "per_stage_latency_ms": {"policy": 0.25, "vector": 2.0, "keyword": 1.5, "pick": 9.0},
        "cache_hit": False,
        "cache_type": None,
    }


def test_steps_are_noted_only_to_be_told() -> None:
    """A query that isn't debugged notes nothing; one that is notes how long each step took."""
    for wanted in (False, True):
        asked = query(debug=wanted)
        asked.passed("policy")
        asked.passed("vector", 3)
        assert [(step.name, step.candidates) for step in asked.steps] == [("policy", None), ("vector", 3)] * wanted
        assert all(step.latency_ms >= 0 for step in asked.steps)


@pytest.mark.parametrize(
    ("stage", "cache"), [(RetrievalStage.EXACT_CACHE, "exact"), (RetrievalStage.SEMANTIC_CACHE, "semantic")]
)
def test_a_kept_answer_names_its_cache(stage: RetrievalStage, cache: str) -> None:
    """Whoever is answered from a cache is told from which."""
    asked = query(debug=True)
    asked.cache.cached = Answer({"retrieval_stage": stage}, 0.0)
    said = told(asked)
    assert (said["cache_hit"], said["cache_type"]) == (True, cache)


@pytest.mark.parametrize(
    ("event", "decay"),
    [
        ({}, ("none", None, 5.0)),
        ({"recipe": "decay"}, ("exponential", 7.0, 5.0)),
        ({"recipe": "decay", "profile": "deep"}, ("exponential", 30.0, 25.0)),
        ({"recipe": "decay", "profile": "fast"}, ("none", None, 5.0)),
        ({"recipe": "decay", "limit": 50}, ("exponential", 7.0, 2.0)),
        ({"recipe": "decay", "source": "archive"}, ("step", 365.0, 5.0)),
        ({"recipe": "decay", "overrides": {"decay": {"half_life_days": 2.0}}}, ("exponential", 2.0, 5.0)),
    ],
)
def test_the_decay_in_force_is_told(event: dict[str, Any], decay: tuple[str, float | None, float]) -> None:
    """That of the profile, the recipe and the source's tier together; none where the recipe has none."""
    tier = DecayTier(mode="step", half_life_days=365.0)
    policies = PolicySettings(sources={"archive": SourcePolicy(decay=tier)})
    planner = Planner(PROFILES, decay=DecaySettings(destinations={"default": DecayTier(enabled=True)}))
    asked = decoder(policies=policies, planner=planner)(message({"query_id": "q", "text": "t", "debug": True, **event}))
    assert tuple(told(asked)["decay"].values()) == decay
