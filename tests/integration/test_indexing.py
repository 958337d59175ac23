"""The indexing flow on a real broker, before Qdrant's engine over HTTP."""

import asyncio
import json
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from bench.kafka.broker import Broker
from bench.stubs import DIMENSION, stub_backends
from operators.clients.http.transport import Endpoint, http_transport
from operators.clients.qdrant.server import ServerClient
from schemas.document import point_id
from tests import qdrant_server
from tests.integration.deployment import Deployment, wait_until
from tests.proxy import Proxy


class Index:
    """The deployment, and a look into its collection."""

    def __init__(self, deployment: Deployment, qdrant: str, proxy: Proxy) -> None:
        self.deployment = deployment
        self.proxy = proxy
        self._qdrant = qdrant

    def write(self, *documents: Mapping[str, Any]) -> None:
        """Produce documents, all to one partition."""
        for document in documents:
            self.deployment.produce("documents", [json.dumps(document).encode()])

    def points(self) -> dict[str, dict[str, Any]]:
        """Every point's payload, by document id."""

        async def scroll() -> dict[str, dict[str, Any]]:
            endpoint = Endpoint("qdrant", self._qdrant, http_transport())
            page = await ServerClient(endpoint).scroll("documents", limit=100, timeout=10)
            await endpoint.aclose()
            return {str(record.payload["id"]): dict(record.payload) for record in page.records}

        return asyncio.run(scroll())

    def settled(self, count: int) -> dict[str, dict[str, Any]]:
        """The points, once `count` documents are accounted for in watermarks."""
        wait_until(lambda: self.position() >= count)
        return self.points()

    def position(self) -> int:
        """Documents up to the highest watermark."""
        return max((int(value) + 1 for value in self.deployment.watermarks().values()), default=0)


@pytest.fixture
def index(broker: Broker, tmp_path: Path, topic_names: Callable[[str], str]) -> Iterator[Index]:
    """The indexing flow's deployment; its Qdrant can be cut off."""
    with qdrant_server.running(tmp_path / "engine") as qdrant, stub_backends() as stubs:
        place = urlsplit(qdrant)
        assert place.hostname is not None
        assert place.port is not None
        with Proxy(place.hostname, place.port) as proxy:
            sections = {
                "qdrant": {"url": f"http://127.0.0.1:{proxy.port}", "dimension": DIMENSION},
                "embedder": {"kind": "openai", "url": stubs.embed},
            }
            with Deployment.on(broker, tmp_path, topic_names, sections) as deployment:
                yield Index(deployment, qdrant, proxy)


def test_documents_become_points(index: Index) -> None:
    """A document's fields are its point's payload, its namespace the tenant's, and the watermark is its offset."""
    index.deployment.start("index")
    index.write({"id": "a/1 ü", "namespace": "acme", "text": "Blue lantern", "created_at": 1700000000, "color": "blue"})
    (payload,) = index.settled(1).values()
    assert payload["text"] == "Blue lantern"
    assert payload["namespace"] == "acme"
    assert payload["color"] == "blue"
    assert payload["created_at"] == "2023-11-14T22:13:20.000Z"
    assert payload["_created"] == 1_700_000_000_000
    (key,) = index.deployment.watermarks()
    assert key.startswith("documents|acme|")


def test_the_newest_version_wins(index: Index) -> None:
    """Whatever the order in which versions arrive, the newest stays, and an older delete doesn't touch it."""
    index.deployment.start("index")
    index.write(
        {"id": "d", "text": "second", "updated_at": 200},
        {"id": "d", "text": "first", "updated_at": 100},
        {"id": "d", "op": "delete", "updated_at": 150},
        {"id": "gone", "text": "here", "updated_at": 100},
        {"id": "gone", "op": "delete", "updated_at": 100},
    )
    points = index.settled(5)
    assert {name: payload["text"] for name, payload in points.items()} == {"d": "second"}


def test_delivery_again_changes_nothing(index: Index) -> None:
    """Read again from the start, as after a loss of the group's offsets, the same points and watermarks come out."""
    first = index.deployment.start("index")
    index.write({"id": "a", "text": "one"}, {"id": "b", "text": "two"}, {"id": "a", "text": "three"})
    before, marks = index.settled(3), index.deployment.watermarks()
    assert first.terminate() == 0
    index.deployment.settings["kafka"]["group_id"] += "-again"
    second = index.deployment.start("index")
    index.write({"id": "c", "namespace": "other", "text": "four"})
    index.settled(4)
    assert second.terminate() == 0
    after = index.points()
    assert {name: after[name] for name in before} == before
    assert {key: index.deployment.watermarks()[key] for key in marks} == marks


def test_an_outage_is_waited_out(index: Index) -> None:
    """While Qdrant refuses connections documents wait; once it is back they are applied, none is a dead letter."""
    index.deployment.start("index")
    index.write({"id": "a", "text": "before"})
    index.settled(1)
    index.proxy.switch("refuse")
    index.write({"id": "b", "text": "meanwhile"})
    log = index.deployment.flows[0].log
    wait_until(lambda: "backend call failed" in log.read_text())
    index.proxy.switch("pass")
    assert index.settled(2).keys() == {"a", "b"}
    assert index.deployment.output_records(0) == []


def test_what_is_no_document_is_a_dead_letter(index: Index) -> None:
    """A document that can't be read is a dead letter of its class; those beside it are indexed."""
    index.deployment.start("index")
    index.write({"id": "a", "text": "good"}, {"id": "b"}, {"id": "c", "text": "x", "_version": 1})
    index.deployment.produce("documents", [b"{"])
    letters = index.deployment.output_records(3)
    assert sorted(letter.kind for letter in letters) == ["invalid", "invalid", "not_json"]
    assert index.settled(1).keys() == {"a"}


def test_tenants_never_share_a_point() -> None:
    """The same document id in two namespaces or destinations is two points."""
    places = [("d", "n", "x"), ("d", "nx", ""), ("dn", "", "x"), ("d", "n", "y"), ("e", "n", "x")]
    assert len({point_id(*place) for place in places}) == len(places)
