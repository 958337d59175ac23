"""Recipes in the running flow: each by its name, what a query may change of it, and scores that can be recomputed."""

import json
import uuid
from collections.abc import Iterator
from typing import Any

import orjson
import pytest

from bench.kafka.broker import Broker
from flows.cli.rank import PoolRanker
from schemas.recipes import SHIPPED
from tests.integration.deployment import Deployment
from tests.integration.searching import Ask, asking, searching
from tests.operators.ranking.recompute import recompute

NOW = "2024-03-01T12:00:00Z"


def document(id_: str, text: str, day: str, **fields: Any) -> dict[str, Any]:
    """A document of that day."""
    return {"id": id_, "namespace": "diary", "text": text, "created_at": f"{day}T12:00:00Z", **fields}


DOCUMENTS = [
    document("old", "I adopted a grey cat from the shelter.", "2023-03-01", priority="P1", cycle=1, importance=5),
    document("new", "My cat sleeps on the shelter of the garden.", "2024-02-29", cycle=90, edges=[{"to": "old"}]),
    document("week", "The vet saw the cat and gave it a vaccine.", "2024-02-23", memory_tier="semantic"),
    document("copy", "the VET saw the cat and gave  it a vaccine.", "2024-02-22", confidence=0.9),
    document("sum", "Cats need shelter, food and a vet.", "2024-01-15", type="reflection"),
    document("off", "The train to Hamburg was late again.", "2024-02-28", access_count=7),
    *(
        document(day, f"We watered the {plant}.", day, namespace="garden")
        for day, plant in {
            "2021-03-02": "ferns",
            "2022-03-02": "figs",
            "2023-03-02": "roses",
            "2023-09-01": "beans",
            "2023-12-02": "leeks",
            "2024-02-16": "tulips",
            "2024-02-24": "mint",
            "2024-02-27": "sage",
            "2024-03-01": "thyme",
        }.items()
    ),
]

GARDEN = {
    "two years ago": "2022-03-02",
    "2 years ago": "2022-03-02",
    "a few years ago": "2021-03-02",
    "half a year ago": "2023-09-01",
    "a few months ago": "2023-12-02",
    "a couple of weeks ago": "2024-02-16",
    "a few days ago": "2024-02-27",
    # NOW is a Friday.
    "last Tuesday": "2024-02-27",
    "last Saturday": "2024-02-24",
}


@pytest.fixture(scope="module")
def system(broker: Broker, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Deployment]:
    """The search flow over DOCUMENTS."""
    unique = uuid.uuid4().hex[:8]
    mine = {"mine": {"stages": [{"score": {"alpha": 0.0}}, {"temporal": {"boost": 5.0}}]}}
    directory = tmp_path_factory.mktemp("recipes")
    with searching(broker, directory, lambda word: f"{word}-{unique}", DOCUMENTS, {"recipes": mine}) as deployment:
        yield deployment


@pytest.fixture(scope="module")
def ask(system: Deployment) -> Ask:
    """Ask one query, about NOW unless it says otherwise, and wait for its result."""
    one = asking(system, "diary")
    return lambda event: one({"now": NOW, **event} if "current_cycle" not in event else event)


def ids(result: dict[str, Any]) -> list[str]:
    """The results in order."""
    return [hit["id"] for hit in result["results"]]


@pytest.mark.parametrize("recipe", SHIPPED)
@pytest.mark.parametrize("rerank", [True, False])
def test_every_score_can_be_recomputed(ask: Ask, recipe: str, rerank: bool) -> None:
    """Each shipped recipe answers under its name and hash, and from its explanations alone its scores come again."""
    event = {"text": "what did the vet do to the cat a week ago", "recipe": recipe, "explain": True, "rerank": rerank}
    result = ask(event)
    assert result["status"] == "ok"
    assert result["provenance"]["recipe"] == recipe
    assert result["provenance"]["recipe_hash"] == SHIPPED[recipe].hash
    assert len(result["results"]) >= 3
    for hit in result["results"]:
        steps = list(recompute(hit["explanation"]))
        assert steps[-1].recomputed == pytest.approx(hit["score"], abs=1e-12)
        for step in steps:
            assert step.recomputed == pytest.approx(step.stated, abs=1e-12)
        assert hit["explanation"]["legs"].keys() == hit["legs"].keys()
    assert ("reranked" in result) == (recipe == "distance" or (rerank and SHIPPED[recipe].reranking is not None))


@pytest.mark.parametrize("recipe", SHIPPED)
def test_a_recorded_pool_ranks_as_the_flow_did(ask: Ask, recipe: str) -> None:
    """Ranked offline, what production saw gives the same results with the same scores and explanations."""
    result = ask({"text": "the cat and the vet", "recipe": recipe, "explain": True, "record": True})
    again = PoolRanker.of(None, None, explain=False)(orjson.dumps(result["pool"]))
    assert [(hit["id"], hit["score"]) for hit in again["results"]] == [
        (hit["id"], hit["score"]) for hit in result["results"]
    ]
    assert again["results"][0]["text"] == result["results"][0]["text"]
    for offline, online in zip(again["results"], result["results"], strict=True):
        assert [step["output"] for step in offline["explanation"]["stages"]] == [
            step["output"] for step in online["explanation"]["stages"]
        ]
    assert again["provenance"]["recipe_hash"] == result["provenance"]["recipe_hash"]


def test_a_recorded_pool_can_be_ranked_by_any_recipe(ask: Ask) -> None:
    """The pool of one recipe holds what every other reads: offline it gives what the flow gives."""
    pool = ask({"text": "the cat and the vet", "record": True, "rerank": False})["pool"]
    for recipe in ("composite", "signals", "rrf"):
        offline = PoolRanker.of(None, recipe, explain=False)(orjson.dumps(pool))
        online = ask({"text": "the cat and the vet", "recipe": recipe, "rerank": False})
        assert [(hit["id"], hit["score"]) for hit in offline["results"]] == [
            (hit["id"], hit["score"]) for hit in online["results"]
        ]


def test_the_same_query_gives_the_same_bytes(ask: Ask) -> None:
    """Asked twice at the same `now`, an answer differs in its identity and in where it came from alone."""
    event = {"text": "the cat and the vet", "recipe": "composite", "explain": True, "record": True}
    answers = []
    for _ in range(2):
        result = ask(event)
        for place in (result, result["pool"]["query"]):
            place.pop("query_id")
        for name in ("result_id", "retrieval_stage"):
            result.pop(name)
        result["provenance"].pop("source")
        answers.append(json.dumps(result))
    assert answers[0] == answers[1]


def test_a_time_in_the_query_is_targeted(ask: Ask) -> None:
    """With a recipe that targets times, `a week ago` finds what is a week older than the query's now."""
    result = ask({"text": "cat a week ago", "recipe": "mine", "rerank": False})
    assert set(ids(result)[:2]) == {"week", "copy"}
    assert ids(ask({"text": "cat a year ago", "recipe": "mine", "rerank": False}))[0] == "old"


@pytest.mark.parametrize("time", GARDEN)
def test_composite_targets_the_time_in_the_query(ask: Ask, time: str) -> None:
    """Of documents that match equally, the one of the time that the query names comes first."""
    event = {"namespace": "garden", "recipe": "composite", "profile": "fast", "rerank": False}
    assert ids(ask({**event, "text": f"What was watered {time}?"}))[0] == GARDEN[time]


def test_overrides_change_the_recipe_of_one_query(ask: Ask) -> None:
    """A parameter changed by a query changes its ranking and the hash of what was computed, not the recipe's name."""
    event = {"text": "cat shelter", "recipe": "signals", "rerank": False}
    changed = {"weighted": {"keyword_weight": 0, "vector_weight": 0, "recency_weight": 0, "priority_weight": 1}}
    plain, other = ask(event), ask({**event, "overrides": changed})
    assert other["provenance"]["recipe"] == "signals"
    assert other["provenance"]["recipe_hash"] != plain["provenance"]["recipe_hash"]
    assert other["results"][0]["id"] == "old"
    assert [hit["score"] for hit in other["results"]] == [1.0, 0.0, 0.0, 0.0, 0.0, 0.0]


def test_the_graph_takes_part_if_it_weighs(ask: Ask) -> None:
    """Edges in the documents lift their neighbours once the graph has a weight, and the answer names it."""
    event = {"text": "cat shelter", "recipe": "signals", "rerank": False}
    assert "graph" not in ask(event)["backends_used"]
    weighed = ask({**event, "overrides": {"weighted": {"graph_weight": 1.0}}, "explain": True})
    assert weighed["backends_used"] == ["vector", "keyword", "graph"]
    gained = {hit["id"]: hit["explanation"]["stages"][0]["values"]["signals"]["graph"] for hit in weighed["results"]}
    assert {id_ for id_, gain in gained.items() if gain} == {"old", "new"}


def test_the_callers_cycle_is_a_clock(ask: Ask) -> None:
    """With `current_cycle` recency goes by the documents' cycles: of two documents the one of the later cycle gains."""
    event = {"text": "cat shelter", "recipe": "signals", "current_cycle": 100, "explain": True, "rerank": False}
    recency = {
        hit["id"]: hit["explanation"]["stages"][0]["values"]["signals"]["recency"] for hit in ask(event)["results"]
    }
    assert recency["new"] == pytest.approx(2 ** (-10 / 50))
    assert recency["old"] == pytest.approx(2 ** (-99 / 50))
    assert recency["week"] == 0.0


@pytest.mark.parametrize("rerank", [True, False])
def test_the_distance_stages_need_no_model(ask: Ask, rerank: bool) -> None:
    """They are the recipe's own: a query without a model has them, and its result says that they moved something."""
    result = ask({"text": "the cat and the vet", "explain": True, "recipe": "distance", "rerank": rerank})
    assert result["reranked"] is True
    assert [step["stage"] for step in result["results"][0]["explanation"]["stages"]] == [
        "linear",
        "weibull_decay",
        "keyword_boost",
        "importance_boost",
    ]
