"""The recipes that every installation has are those of the specification's table."""

from collections.abc import Mapping
from typing import Final

import pytest

from schemas.recipes import DEFAULT, SHIPPED
from schemas.recipes.stages import DistanceStage

TABLE: Final[Mapping[str, list[str]]] = {
    "hybrid": ["score", "coverage", "dedupe", "rerank", "versions", "wishes"],
    "composite": ["score", "coverage", "rerank", "composite", "temporal", "dedupe", "versions"],
    "signals": ["weighted", "reflections"],
    "distance": ["linear", "weibull_decay", "keyword_boost", "importance_boost"],
    "decay": ["decay", "coverage"],
    "rrf": ["rrf", "coverage", "dedupe", "rerank"],
    "keyword": ["keyword", "dedupe"],
    "vector": ["vector", "dedupe"],
    "documents": ["score", "coverage", "dedupe", "rerank", "feedback", "smoothing", "versions", "wishes"],
    "conversation": ["score", "coverage", "dedupe", "rerank", "answers", "speakers", "temporal", "versions"],
}
"""The stages that run, in order."""

PARAMETERS: Final[Mapping[str, Mapping[str, object]]] = {
    "rrf": {"k": 5.0, "weights": {}, "fuzzy": 0.0, "limit": 0},
    "score": {
        "alpha": None,
        "weights": None,
        "normaliser": "min_max",
        "combination": "sum",
        "fuzzy": 0.0,
        "limit": 0,
    },
    "wishes": {"limits": True, "exclusions": True, "order": True, "strict": False, "weight": 1.0},
    "linear": {"alpha": 0.6, "limit": 0},
    "weighted": {
        "keyword_weight": 0.30,
        "vector_weight": 0.55,
        "recency_weight": 0.10,
        "priority_weight": 0.05,
        "graph_weight": 0.0,
        "half_life_days": 7.0,
        "half_life_cycles": 50.0,
        "graph_edge_decay": 0.5,
        "max_neighbors_per_candidate": 5,
        "limit": 0,
    },
    "decay": {
        "enabled": True,
        "mode": None,
        "half_life_days": 0.0,
        "step_threshold_days": 0.0,
        "neutral": "bound",
        "limit": 0,
    },
    "vector": {"limit": 0},
    "keyword": {"limit": 0},
    "coverage": {"weight": 0.5, "rarity": 3.0},
    "versions": {"similarity": 0.57, "margin": 0.06, "candidates": 10},
    "dedupe": {"limit": 0},
    "rerank": {"weight": 1.0, "context": 0.0, "words": 1},
    "feedback": {"candidates": 50, "weight": 0.4, "top": 3},
    "smoothing": {"candidates": 50, "weight": 0.4, "neighbours": 10, "temperature": 0.05},
    "reflections": {
        "include_reflections": True,
        "reflection_boost": 1.0,
        "recency_weight": None,
        "half_life_days": 7.0,
        "half_life_cycles": 50.0,
    },
    "composite": {
        "relevance": 0.80,
        "recency": 0.0,
        "importance": 0.0,
        "quality": 0.20,
        "importance_scale": 1,
        "confidence_decay": "linear",
        "confidence_k": 1.2,
        "confidence_lambda": 180.0,
        "confidence_floor": 0.5,
    },
    "answers": {"weight": 0.7, "passed": 0.3},
    "speakers": {"weight": 0.3},
    "temporal": {"boost": 0.40, "extractor": "rules"},
    "weibull_decay": {"enabled": True, "preset": None, "k": 1.5, "lambda": 90.0, "floor": 0.3},
    "keyword_boost": {"enabled": True, "weight": 0.30, "stop_words": None},
    "importance_boost": {"enabled": True, "weight": 0.15, "importance_scale": 5},
    "llm_rerank": {"enabled": False, "top_k": 10},
}
"""Each stage's parameters in the shipped recipes: the specification's defaults."""

OWN: Final[Mapping[str, Mapping[str, Mapping[str, object]]]] = {
    "hybrid": {"score": {"fuzzy": 1.5, "normaliser": "theoretical"}, "rerank": {"weight": 0.6, "words": 7}},
    "composite": {"score": {"normaliser": "theoretical"}, "rerank": {"weight": 0.8, "words": 7}},
    "rrf": {"rerank": {"weight": 0.8, "words": 7}},
    "documents": {"score": {"fuzzy": 1.5, "normaliser": "credited"}, "rerank": {"weight": 0.6, "words": 7}},
    "conversation": {
        "score": {
            "weights": {"vector": 0.1, "keyword": 0.3, "keyword_context": 0.4, "vector_context": 0.2},
            "normaliser": "credited",
        },
        "coverage": {"weight": 0.25},
        "rerank": {"weight": 0.7, "context": 0.5, "words": 5},
    },
}
"""The fields that a recipe has of its own."""


def test_the_names() -> None:
    """There are ten, and `hybrid` is the one for who asks for none."""
    assert set(SHIPPED) == set(TABLE)
    assert DEFAULT == "hybrid"
    assert all(recipe.name == name for name, recipe in SHIPPED.items())


@pytest.mark.parametrize("name", TABLE)
def test_the_stages(name: str) -> None:
    """The stages that are on are the table's, in its order."""
    on = [stage for stage in SHIPPED[name].stages if not isinstance(stage, DistanceStage) or stage.enabled]
    assert [stage.name for stage in on] == TABLE[name]


@pytest.mark.parametrize("name", TABLE)
def test_the_parameters(name: str) -> None:
    """Every stage has the specification's defaults, and no distance bounds what is found."""
    own = OWN.get(name, {})
    expected = {stage.name: {**PARAMETERS[stage.name], **own.get(stage.name, {})} for stage in SHIPPED[name].stages}
    assert SHIPPED[name].parameters == expected
    assert SHIPPED[name].max_distance == 0.0


def test_which_ask_a_model() -> None:
    """The model ranks these five; no shipped recipe asks a chat model to pick or to read times."""
    asking = {name for name, recipe in SHIPPED.items() if recipe.reranking}
    assert asking == {"hybrid", "composite", "rrf", "documents", "conversation"}
    assert all(recipe.picking is None for recipe in SHIPPED.values())
    assert not any(recipe.asks_chat for recipe in SHIPPED.values())


@pytest.mark.parametrize(
    ("name", "ahead", "behind"),
    [
        ("hybrid", ["coverage", "dedupe"], ["coverage", "versions", "wishes"]),
        ("composite", ["coverage"], ["coverage", "composite", "temporal", "dedupe", "versions"]),
        ("rrf", ["coverage", "dedupe"], ["coverage"]),
        ("documents", ["coverage", "dedupe"], ["coverage", "feedback", "smoothing", "versions", "wishes"]),
        ("conversation", ["coverage", "dedupe"], ["coverage", "answers", "speakers", "temporal", "versions"]),
        ("signals", ["reflections"], []),
        ("distance", ["weibull_decay", "keyword_boost", "importance_boost"], []),
        ("decay", ["coverage"], []),
    ],
)
def test_where_the_model_stands(name: str, ahead: list[str], behind: list[str]) -> None:
    """Copies take no place among what it reads, and quality and time act on its score; then copies go, too. Exact words
    count for what it reads, and behind it.
    """
    assert [stage.name for stage in SHIPPED[name].ahead] == ahead
    assert [stage.name for stage in SHIPPED[name].behind] == behind


def test_which_depend_on_the_clock() -> None:
    """Those with ages or a bonus for a time; versions need the clock only for queries that name a time."""
    assert {name for name, recipe in SHIPPED.items() if recipe.timed} == {
        *("composite", "signals", "distance", "decay", "conversation")
    }


def test_each_has_a_hash_of_its_own() -> None:
    """No two shipped recipes do the same."""
    assert len({recipe.hash for recipe in SHIPPED.values()}) == len(TABLE)


@pytest.mark.parametrize(
    ("name", "legs"),
    [
        *((name, ("vector", "keyword")) for name in ("composite", "signals", "distance", "decay", "rrf")),
        ("hybrid", ("vector", "keyword", "fuzzy")),
        ("documents", ("vector", "keyword", "fuzzy")),
        ("keyword", ("keyword",)),
        ("vector", ("vector",)),
        ("conversation", ("vector", "keyword", "keyword_context", "vector_context")),
    ],
)
def test_the_legs(name: str, legs: tuple[str, ...]) -> None:
    """None asks the structured leg, one the leg `fuzzy`; `keyword` and `vector` ask one leg alone."""
    assert SHIPPED[name].fusion.legs == legs


@pytest.mark.parametrize("name", TABLE)
def test_who_answers_where_there_is_nothing_to_search_by(name: str) -> None:
    """`signals` and `decay`, whose scores need no leg, rank the newest documents; the others find nothing."""
    assert SHIPPED[name].fusion.unasked == (("structured",) if name in {"signals", "decay"} else ())


@pytest.mark.parametrize(
    ("name", "fields"),
    [
        *((name, set()) for name in ("rrf", "documents", "keyword", "vector")),
        (
            "composite",
            {"created_at", "updated_at", "accessed_at", "confirmed_at", "importance", "salience", "memory_tier"}
            | {"confidence", "access_count", "emotional_weight"},
        ),
        ("signals", {"id", "created_at", "updated_at", "cycle", "priority", "type"}),
        ("distance", {"created_at", "title", "text", "importance", "emotional_weight"}),
        ("decay", {"id", "created_at"}),
        ("hybrid", {"created_at"}),
        ("conversation", {"created_at", "title", "text", "_neighbours"}),
    ],
)
def test_the_payload_that_is_asked_for(name: str, fields: set[str]) -> None:
    """No more of a payload is fetched than the stages read: dedupe takes fingerprint and times, others the marks."""
    dedupes = {"_content", "_fields", "created_at", "updated_at"} if "dedupe" in TABLE[name] else set()
    covers = set() if {"coverage", "versions"}.isdisjoint(TABLE[name]) else {"_marks"}
    assert SHIPPED[name].reads == fields | dedupes | covers
