"""Every restriction of a strict collection: documents are indexed, and every profile answers as without them."""

import json
import time
from dataclasses import dataclass
from typing import Any, Final

import httpx
import pytest

from bench.kafka.broker import Broker
from flows.assembly.clients import InProcess
from flows.assembly.collections import ensure_collections
from operators.collections.catalogue import EVERY
from schemas.settings import load
from tests import qdrant_server
from tests.integration.deployment import Deployment, wait_until
from tests.integration.searching import CACHE, asking
from tests.operators.clients.qdrant.recording import recorded

STRICT: Final[dict[str, Any]] = next(
    exchange["request"]["strict_mode_config"]
    for exchange in recorded("qdrant_exchanges_2.json")
    if exchange["name"] == "create strict"
)
WORDS: Final = ("harbor", "lantern", "ferry", "keeper", "garden", "engine", "letter", "winter", "harvest")
DOCUMENTS: Final = [
    {
        "id": f"d{number}",
        "namespace": "red",
        "title": f"{WORDS[number % 9]} {WORDS[number % 7]}",
        "text": " ".join(WORDS[(number * step) % 9] for step in range(1, 12)) + f" number{number}",
        "labels": ["a"] if number % 2 else ["b"],
        "created_at": 1_700_000_000 + (number // 40) * 60,
    }
    for number in range(150)
]
DELETED: Final = [f"d{number}" for number in range(140, 150)]


def eq(field: str, value: object) -> dict[str, Any]:
    """A filter."""
    return {"field": field, "op": "eq", "value": value}


QUERIES: Final[dict[str, dict[str, Any]]] = {
    **{f"profile {name}": {"text": "lantern in the harbor", "profile": name} for name in ("fast", "balanced")},
    # The legs' own scores depend on how many candidates a request may ask for.
    "profile deep": {
        "text": "lantern in the harbor",
        "profile": "deep",
        "overrides": {"rerank": {"weight": 1.0, "words": 1}},
    },
    **{
        f"recipe {name}": {"text": "ferry keeper", "recipe": name}
        for name in ("hybrid", "composite", "signals", "distance", "decay", "keyword", "vector", "rrf")
    },
    "a phrase that ends in a prefix": {"text": '"harbor har"*', "recipe": "keyword"},
    "a prefix": {"text": "lant*", "recipe": "keyword"},
    "id": {"text": "winter", "filters": [eq("id", "d5")]},
    "title": {"text": "winter", "filters": [eq("title", "harbor harbor")]},
    "title prefix": {"filters": [{"field": "title", "op": "prefix", "value": "harbor l"}]},
    "times": {"text": "winter", "filters": [{"field": "created_at", "op": "date_range", "value": {"gt": 1700000100}}]},
    "groups of titles": {"text": "winter", "recipe": "vector", "group_by": "title", "limit": 5},
    "groups of labels": {"text": "winter", "recipe": "vector", "group_by": "labels", "group_size": 3},
    "labels": {"filters": [{"field": "labels", "op": "any_of", "value": ["a"]}], "limit": 200},
    "newest": {"filters": [eq("labels", "b")], "order_by": {"field": "created_at", "direction": "desc"}, "limit": 200},
}


Answers = dict[str, dict[str, Any]]


@dataclass(frozen=True)
class Asked:
    """The answers over the strict collection, and over the same one without restrictions."""

    strict: Answers
    free: Answers


@pytest.fixture(scope="module")
def asked(broker: Broker, tmp_path_factory: pytest.TempPathFactory) -> Asked:
    """The answers of flows whose collection was strict before the first document was written."""
    directory = tmp_path_factory.mktemp("strict")
    with qdrant_server.running(directory / "engine") as url:
        sections: dict[str, Any] = {
            # With 4 bits a component, what Qdrant computes and what is computed here differ in their rounding.
            "qdrant": {"url": url, "timeout": 20, "vectors": {"tokens_datatype": "float16"}},
            "embedder": {"kind": "minilm", "timeout": 20},
            # How rare a token is can't be counted within these restrictions.
            "rerank": {"kind": "late_interaction", "timeout": 20, "idf": False},
            "limits": {"timeout": 60},
            "profiles": {name: {"caches": []} for name in ("fast", "balanced", "deep")},
            "cache_dir": str(CACHE),
        }
        settings = load(None, sections)
        ensure_collections(settings, InProcess(settings))
        place = f"{url}/collections/documents"

        def restrict(on: bool) -> None:
            httpx.patch(place, json={"strict_mode_config": {**STRICT, "enabled": on}}).raise_for_status()

        def indexed() -> int:
            where = {"must": [{"key": "namespace", "match": {"value": "red"}}]}
            counted = httpx.post(f"{place}/points/count", json={"exact": False, "filter": where}, timeout=20)
            return int(counted.json()["result"]["count"])

        restrict(True)
        with Deployment.on(broker, directory, lambda word: f"{word}-{directory.name}", sections) as system:
            indexing = system.start("index", replica="i")
            system.produce("documents", [json.dumps(document).encode() for document in DOCUMENTS])
            wait_until(lambda: indexed() == len(DOCUMENTS))
            gone = [{"op": "delete", "id": name, "namespace": "red"} for name in DELETED]
            system.produce("documents", [json.dumps(event).encode() for event in gone])
            wait_until(lambda: indexed() == len(DOCUMENTS) - len(DELETED))
            assert indexing.terminate() == 0
            system.start("run", replica="s")
            ask = asking(system, "red")
            strict = {name: ask(event) for name, event in QUERIES.items()}
            restrict(False)
            # The flow looks again what its collection is.
            time.sleep(EVERY + 2)
            return Asked(strict, {name: ask(event) for name, event in QUERIES.items()})


@pytest.mark.parametrize("name", QUERIES)
def test_what_is_asked_is_answered_as_without_restrictions(asked: Asked, name: str) -> None:
    """Status and documents are the same, scores are about the same, and no part of an answer is lost."""
    strict, free = asked.strict[name], asked.free[name]
    assert (strict["status"], strict["degraded"]) == ("ok", [])
    assert strict["results"], "nothing found"
    # Rare words are counted among the candidates, of which a restricted search may have fewer.
    found = {hit["id"]: pytest.approx(hit["score"], abs=2e-2) for hit in free["results"]}
    assert {hit["id"]: hit["score"] for hit in strict["results"]} == found
