"""A running search flow over a few documents, on a real broker, Qdrant's engine and MiniLM."""

import contextlib
import itertools
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import httpx

from bench.kafka.broker import Broker
from schemas.result import ResultEvent
from tests import qdrant_server
from tests.integration.deployment import Deployment, wait_until

CACHE = Path(__file__).parents[2] / ".cache" / "rankstream"

_NUMBERS = itertools.count()
"""No two queries of a worker have one id: two readers may ask the same deployment."""

Ask = Callable[[dict[str, Any]], dict[str, Any]]


@contextlib.contextmanager
def searching(
    broker: Broker,
    directory: Path,
    name: Callable[[str], str],
    documents: Sequence[Mapping[str, Any]],
    sections: Mapping[str, Any] | None = None,
    index: Mapping[str, Any] | None = None,
) -> Iterator[Deployment]:
    """The search flow, with the documents indexed; `index` has further keys of the section `qdrant`."""
    with qdrant_server.running(directory / "engine") as qdrant:
        settings = {
            "qdrant": {"url": qdrant, "timeout": 20, **(index or {})},
            "embedder": {"kind": "minilm", "timeout": 20},
            "rerank": {"kind": "late_interaction", "timeout": 20},
            "limits": {"timeout": 60},
            "cache": {"watermark_timeout": 10},
            "cache_dir": str(CACHE),
            **(sections or {}),
        }
        with Deployment.on(broker, directory, name, settings) as deployment:
            indexing = deployment.start("index", replica="i")
            deployment.produce("documents", [json.dumps(document).encode() for document in documents])
            wait_until(lambda: _indexed(qdrant) == len(documents))
            assert indexing.terminate() == 0
            deployment.start("run", replica="s")
            yield deployment


def _indexed(qdrant: str) -> int:
    counted = httpx.post(f"{qdrant}/collections/documents/points/count", json={"exact": True}, timeout=20)
    return int(counted.json()["result"]["count"])


def asking(system: Deployment, namespace: str) -> Ask:
    """Ask one query and wait for its result, which must hold to the contract."""

    def one(event: dict[str, Any]) -> dict[str, Any]:
        query_id = f"q{next(_NUMBERS)}"
        system.ask([{"query_id": query_id, "namespace": namespace, **event}])
        result = system.result(query_id)
        ResultEvent.model_validate(result)
        return result

    return one
