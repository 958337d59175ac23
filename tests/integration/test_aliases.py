"""An alias is the collection that it stands for, in what is cached, too."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx

from bench.kafka.broker import Broker
from flows.assembly.clients import InProcess
from flows.assembly.collections import ensure_collections
from schemas.settings import load
from tests import qdrant_server
from tests.integration.deployment import Deployment, wait_until
from tests.integration.searching import asking

VECTOR = [0.6, 0.8, 0.0]


def test_an_alias_that_is_given_to_another_collection(
    broker: Broker, tmp_path: Path, topic_names: Callable[[str], str]
) -> None:
    """Answers that were cached over the first collection end, and documents go to the second."""
    with qdrant_server.running(tmp_path / "engine") as url:
        sections: dict[str, Any] = {
            "qdrant": {"url": url, "timeout": 20, "dimension": 3},
            "cache": {"watermark_timeout": 10},
            "limits": {"timeout": 60},
            # A flow follows an alias to collections that were made with its own settings.
            "embedder": {"kind": "none"},
        }
        for name in ("blue", "green"):
            made = load(None, {**sections, "qdrant": {**sections["qdrant"], "destinations": {"default": name}}})
            ensure_collections(made, InProcess(made))

        def point(name: str) -> None:
            actions = [{"create_alias": {"alias_name": "live", "collection_name": name}}]
            httpx.post(f"{url}/collections/aliases", json={"actions": actions}).raise_for_status()

        def count(name: str) -> int:
            counted = httpx.post(f"{url}/collections/{name}/points/count", json={"exact": True}).json()
            return int(counted["result"]["count"])

        def write(system: Deployment, text: str) -> None:
            document = {"id": text, "namespace": "red", "text": text, "vector": VECTOR}
            system.produce("documents", [json.dumps(document).encode()])

        point("blue")
        sections["qdrant"]["destinations"] = {"default": "live"}
        with Deployment.on(broker, tmp_path, topic_names, sections) as system:
            system.start("index", replica="i")
            write(system, "a blue lantern")
            wait_until(lambda: count("blue") == 1)
            system.start("run", replica="s")
            ask = asking(system, "red")
            event = {"text": "lantern", "vector": VECTOR}

            def answered() -> tuple[list[str], bool]:
                found = ask(event)
                return [hit["id"] for hit in found["results"]], found.get("retrieval_stage") == "exact_cache"

            wait_until(lambda: answered() == (["a blue lantern"], True))
            point("green")
            # The flows look again what the name stands for.
            wait_until(lambda: answered() == ([], False))
            write(system, "a green lantern")
            wait_until(lambda: count("green") == 1)
            wait_until(lambda: answered()[0] == ["a green lantern"])
            assert count("blue") == 1

            point("blue")
            httpx.delete(f"{url}/collections/green").raise_for_status()
            # Nothing was read since: the query itself finds out.
            found = ask({**event, "text": "the lantern"})
            assert ([hit["id"] for hit in found["results"]], found["degraded"]) == (["a blue lantern"], [])
