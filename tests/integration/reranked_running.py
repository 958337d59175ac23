"""The search flow with a reranker of the test's choice."""

import json
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from bench.kafka.broker import Broker
from bench.stubs import embed_app, served
from tests import qdrant_server
from tests.integration.deployment import Deployment, wait_until
from tests.integration.reranked import TEXTS, Running
from tests.integration.searching import Ask, asking


@pytest.fixture(scope="module")
def backends(broker: Broker, tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Any]]:
    """Qdrant with the documents, and an embedder; the sections that name them."""
    directory, unique = tmp_path_factory.mktemp("rerankers"), uuid.uuid4().hex[:8]
    with served(embed_app(0.0)) as embed, qdrant_server.running(directory / "engine") as qdrant:
        sections: dict[str, Any] = {
            "qdrant": {"url": qdrant, "timeout": 20},
            "embedder": {"kind": "openai", "url": embed, "timeout": 20},
            "limits": {"timeout": 60},
            # The model alone decides the order.
            "recipes": {"hybrid": {"stages": ["score", "dedupe", "rerank"]}},
        }

        def indexed() -> bool:
            counted = httpx.post(f"{qdrant}/collections/documents/points/count", json={"exact": True}, timeout=20)
            return bool(counted.json()["result"]["count"] == sum(map(len, TEXTS.values())))

        with Deployment.on(broker, directory, lambda word: f"{word}-{unique}", sections) as deployment:
            indexing = deployment.start("index")
            documents = [
                {"id": id_, "namespace": namespace, "text": text}
                for namespace, texts in TEXTS.items()
                for id_, text in texts.items()
            ]
            deployment.produce("documents", [json.dumps(document).encode() for document in documents])
            wait_until(indexed)
            assert indexing.terminate() == 0
        yield sections


@pytest.fixture
def running(broker: Broker, tmp_path: Path, topic_names: Callable[[str], str], backends: dict[str, Any]) -> Running:
    """Run the search flow with such a reranker; ask it one query of `red` at a time."""

    @contextmanager
    def run(**sections: Any) -> Iterator[tuple[Deployment, Ask]]:
        patience = {} if sections["rerank"]["kind"] == "chat" else {"timeout": 20}
        sections["rerank"] = {**patience, **sections["rerank"]}
        with Deployment.on(broker, tmp_path, topic_names, {**backends, **sections}) as deployment:
            deployment.start()
            yield deployment, asking(deployment, "red")

    return run
