"""The same documents in a collection of one shard and in one of three, through both flows."""

import json
from collections.abc import Iterator
from typing import Any, Final

import httpx
import pytest

from bench.kafka.broker import Broker
from flows.assembly.clients import InProcess
from flows.assembly.collections import ensure_collections
from schemas.settings import load
from tests import qdrant_server
from tests.integration.deployment import Deployment, wait_until
from tests.integration.searching import CACHE, Ask, asking

WORDS: Final = ("harbor", "lantern", "ferry", "keeper", "garden", "engine", "letter", "winter", "harvest")
DOCUMENTS: Final = [
    {
        "id": f"d{number}",
        "namespace": "red" if number % 11 else "blue",
        # No two of one length, or their order would be that of their points' ids; fewer in red than a leg is asked for.
        "text": " ".join([*(word for place, word in enumerate(WORDS, 2) if number % place == 0), *["x"] * number]),
        "created_at": 1_700_000_000 + number,
    }
    for number in range(1, 101)
]
SHARDS: Final = {"narrow": 1, "wide": 3}
"""Destination -> shards of its collection."""


@pytest.fixture(scope="module")
def ask(broker: Broker, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ask]:
    """Asks a flow whose two destinations hold the same documents."""
    directory = tmp_path_factory.mktemp("shards")
    with qdrant_server.running(directory / "engine") as url:
        qdrant = {"url": url, "timeout": 20, "destinations": {name: name for name in SHARDS}}
        sections: dict[str, Any] = {
            "qdrant": qdrant,
            "defaults": {"destination": "narrow"},
            "embedder": {"kind": "minilm", "timeout": 20},
            "rerank": {"kind": "none"},
            "limits": {"timeout": 60},
            "profiles": {"balanced": {"caches": []}},
            "cache_dir": str(CACHE),
        }
        for name, shards in SHARDS.items():
            create = {"destinations": {"default": name}, "create": {"shards": shards}}
            settings = load(None, {**sections, "defaults": {}, "qdrant": {**qdrant, **create}})
            ensure_collections(settings, InProcess(settings))

        def indexed(name: str) -> int:
            counted = httpx.post(f"{url}/collections/{name}/points/count", json={"exact": True}, timeout=20)
            return int(counted.json()["result"]["count"])

        with Deployment.on(broker, directory, lambda word: f"{word}-{directory.name}", sections) as system:
            indexing = system.start("index", replica="i")
            events = [{**document, "destination": name} for name in SHARDS for document in DOCUMENTS]
            system.produce("documents", [json.dumps(event).encode() for event in events])
            wait_until(lambda: all(indexed(name) == len(DOCUMENTS) for name in SHARDS))
            assert indexing.terminate() == 0
            system.start("run", replica="s")
            yield asking(system, "red")


@pytest.mark.parametrize("recipe", ["keyword", "hybrid", "composite"])
@pytest.mark.parametrize("text", ["harbor keeper", "winter harvest letter", "lantern", '"harbor lantern"', "gar*"])
def test_the_documents_are_those_of_one_shard(ask: Ask, text: str, recipe: str) -> None:
    """The same documents; their order may differ, because Qdrant counts in each shard how rare a term is."""
    narrow, wide = (
        ask({"text": text, "recipe": recipe, "destination": name, "limit": 100, "debug": True}) for name in SHARDS
    )
    assert (wide["status"], wide["warnings"], wide["total"]) == ("ok", narrow["warnings"], narrow["total"])
    assert wide["results"]
    assert {hit["id"] for hit in wide["results"]} == {hit["id"] for hit in narrow["results"]}
