"""Debug, through the running flow: what a result says of its way, for each kind of answer."""

import math

import pytest

from tests.integration.cascade import Json, System

pytest_plugins = ["tests.integration.cascade_running"]
pytestmark = pytest.mark.slow

FIELDS = {
    "stages_hit",
    "candidates_per_stage",
    "per_stage_latency_ms",
    "cache_hit",
    "cache_type",
    "decay",
    "total_latency_ms",
}

LEGS = ("vector", "keyword", "structured")

BY_BOTH_LEGS = ("policy", "exact_cache", "embed", "semantic_cache", "vector", "keyword", "hybrid_merge")

WAYS: dict[str, tuple[Json, list[str]]] = {
    "search": (
        {"namespace": "log", "text": "a harbor to debug"},
        [*BY_BOTH_LEGS, "fetch", "rerank", "rank"],
    ),
    "unranked": (
        {"namespace": "log", "text": "a lantern to debug", "rerank": False},
        [*BY_BOTH_LEGS, "rank", "fetch"],
    ),
    "decay": (
        {"namespace": "log", "text": "a violin to debug", "recipe": "decay"},
        [*BY_BOTH_LEGS, "fetch"],
    ),
    "fast": (
        {"namespace": "log", "text": "harbor", "profile": "fast"},
        ["policy", "exact_cache", "keyword", "hybrid_merge", "rank", "fetch"],
    ),
    "lookup": ({"namespace": "log", "actor_type": "user"}, ["policy", "exact_cache", "structured", "fetch"]),
    "fast path": ({"namespace": "crew", "subject": "ada"}, ["policy", "structured", "fetch"]),
    "nothing": ({"namespace": "crew", "subject": "nobody"}, ["policy", "structured"]),
    "denied": ({"text": "oven", "source": "read only"}, ["policy"]),
}


@pytest.mark.parametrize("way", WAYS)
def test_every_field_of_debug(kitchen: System, way: str) -> None:
    """All fields are there, of their types and in agreement with each other and with the result."""
    event, passed = WAYS[way]
    answer = kitchen.ask({**event, "debug": True})
    debug = answer["debug"]
    assert debug.keys() == FIELDS
    assert debug["stages_hit"] == passed
    assert set(debug["per_stage_latency_ms"]) == set(passed)
    assert set(debug["candidates_per_stage"]) <= set(passed)
    assert all(type(count) is int for count in debug["candidates_per_stage"].values())
    assert {each["name"]: each["candidates"] for each in answer["legs"] if each["status"] == "ok"} == {
        name: count
        for name, count in debug["candidates_per_stage"].items()
        if name in ("vector", "keyword", "structured")
    }
    if "hybrid_merge" in passed:
        assert debug["candidates_per_stage"]["hybrid_merge"] >= answer["total"]
    assert (debug["cache_hit"], debug["cache_type"]) == (False, None)
    latencies = [*debug["per_stage_latency_ms"].values(), debug["total_latency_ms"]]
    assert all(type(each) is float and math.isfinite(each) and each >= 0 for each in latencies)
    assert debug["total_latency_ms"] >= max(latencies[:-1])
    assert debug["decay"].keys() == {"mode", "half_life_days", "over_sample_factor"}


def test_debug_of_cached_answers(kitchen: System) -> None:
    """A hit says which cache it came from, and its own way: no leg was asked."""
    event = {"namespace": "log", "debug": True, "limit": 5}
    texts = ("what is in the harbor shed", "what is in the harbor shed", "what's in the harbor shed")
    computed, exact, semantic = (kitchen.ask({**event, "text": text})["debug"] for text in texts)
    told = [(each["cache_hit"], each["cache_type"]) for each in (computed, exact, semantic)]
    assert told == [(False, None), (True, "exact"), (True, "semantic")]
    assert exact["stages_hit"] == ["policy", "exact_cache"]
    assert semantic["stages_hit"] == ["policy", "exact_cache", "embed", "semantic_cache"]
    assert exact["candidates_per_stage"] == semantic["candidates_per_stage"] == {}


def test_without_debug_there_is_none(kitchen: System) -> None:
    """A query that doesn't ask for it gets none, and `false` is none, also from the cache."""
    events = [{"namespace": "log", "text": "granite", "debug": debug} for debug in (None, False, False)]
    assert not any("debug" in kitchen.ask(event) for event in events)
