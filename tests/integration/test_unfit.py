"""Flows over collections and an embedder that don't fit the configuration: what they say, and when they are ready."""

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from bench.kafka.broker import Broker
from bench.stubs import stub_backends
from flows.assembly.clients import InProcess
from flows.cli.check.command import check_qdrant
from schemas.settings import load
from tests import qdrant_server
from tests.integration.deployment import PATIENCE, Deployment, Flow, assert_each_once, wait_until
from tests.operators.indexing.asking import Server

COLLECTION = {"destinations": {"default": "docs"}}
OTHERS = {"vectors": {"dense": {"size": 8, "distance": "Cosine"}}, "sparse_vectors": {"bm25": {"modifier": "idf"}}}
SOON = 20.0
"""Seconds in which a replica reads again what its collections are."""

On = Callable[..., Any]


@pytest.fixture
def on(broker: Broker, tmp_path: Path, topic_names: Callable[[str], str]) -> On:
    """A deployment with vectors of length 4 on a server without collections."""

    @contextmanager
    def deployed(sections: Mapping[str, Any] | None = None) -> Iterator[tuple[Deployment, Server]]:
        with qdrant_server.running(tmp_path / "engine") as url:
            settings = {"qdrant": {"url": url, "dimension": 4, **COLLECTION}, **(sections or {})}
            with Deployment.on(broker, tmp_path, topic_names, settings) as made:
                yield made, Server(url)

    return deployed


def said(flow: Flow, event: str) -> list[dict[str, Any]]:
    """The log lines of this event."""
    lines = [line for line in flow.log.read_text().splitlines() if event in line]
    return [json.loads(line) for line in lines]


def checks(flow: Flow) -> dict[str, bool]:
    """The words of `/readyz` on each part, once the replica is in its group."""
    url = f"http://127.0.0.1:{flow.port}/readyz"
    found: dict[str, bool] = {}

    def joined() -> bool:
        assert flow.process.poll() is None, flow.log.read_text()
        try:
            found.update(httpx.get(url, timeout=5).json()["checks"])
        except httpx.TransportError:
            return False
        return found.get("group", False)

    wait_until(joined)
    return found


def test_a_search_flow_waits_for_vectors_that_fit(on: On) -> None:
    """It starts and answers over vectors of another length, says what to do, and isn't ready until there are others."""
    with on() as (system, server):
        server.put("docs", OTHERS)
        flow = system.start(wait=False)
        assert not checks(flow)["qdrant"]
        [line] = said(flow, "collection does not fit the configuration")
        assert "has size 8, and should have 4" in line["reason"]
        assert "qdrant.dimension" in line["remedy"]
        system.ask([{"query_id": "q", "vector": [1, 0, 0, 0], "text": "blue lantern"}])
        [answer] = system.output_records(1)
        assert {"stage": "vector", "reason": "refused"} in answer.value["degraded"]
        server.put("docs", {}, "DELETE")
        server.ensure(**COLLECTION)
        flow.wait_ready()
        wait_until(lambda: said(flow, "collection fits the configuration now"), SOON)
        assert len(said(flow, "collection does not fit the configuration")) == 1
        assert flow.terminate() == 0
        assert_each_once(system, system.output_records(1))


def test_a_search_flow_waits_for_its_collection(on: On) -> None:
    """One that isn't there is one line with the command that makes it; once it is there, the replica is ready."""
    with on() as (system, server):
        flow = system.start(wait=False)
        assert not checks(flow)["qdrant"]
        [line] = said(flow, "collection does not fit the configuration")
        assert (line["collection"], line["reason"]) == ("docs", "the collection does not exist")
        assert "rankstream collections --create" in line["remedy"]
        server.ensure(**COLLECTION)
        flow.wait_ready()
        assert flow.terminate() == 0


def test_an_indexing_flow_does_not_start_over_vectors_that_do_not_fit(on: On) -> None:
    """It ends with 2 and a line for each, behind that of the start: the collection, both lengths, what to correct."""
    with on() as (system, server):
        server.ensure(dimension=8, **COLLECTION)
        flow = system.start("index", wait=False)
        assert flow.process.wait(PATIENCE) == 2
        _, dense, tokens = flow.log.read_text().splitlines()
    assert "Qdrant collection docs: the vector dense has size 8, and should have 4. Correct qdrant.dimension" in dense
    assert "the vector tokens has size 8" in tokens


@pytest.mark.parametrize("command", ["index", "run"])
def test_a_flow_says_that_the_terms_are_of_another_language(on: On, command: str) -> None:
    """One line in either flow, as `check` says it; the server itself is of a version that will do."""
    with on({"rerank": {"kind": "none"}}) as (system, server):
        server.ensure(**COLLECTION, bm25={"language": "german"})
        flow = system.start(command)
        wait_until(lambda: said(flow, "collection does not fit the configuration"))
        [line] = said(flow, "collection does not fit the configuration")
        section = {"url": server.url, "dimension": 4, **COLLECTION}
        settings = load(None, {"qdrant": section, "embedder": {"kind": "none"}, "rerank": {"kind": "none"}})
        found = [each for each in check_qdrant(settings, InProcess(settings)) if each.level != "ok"]
        assert flow.terminate() == 0
    assert line["reason"].endswith("language german, and the configuration has english")
    assert [(each.level, each.what, each.remedy) for each in found] == [("warning", line["reason"], line["remedy"])]


@pytest.mark.parametrize("command", ["index", "run"])
def test_a_flow_says_that_its_embedder_does_not_fit(on: On, command: str) -> None:
    """Before any document or query: one line with both lengths and what to correct."""
    with stub_backends() as stubs, on({"embedder": {"kind": "openai", "url": stubs.embed}}) as (system, server):
        server.ensure(**COLLECTION)
        flow = system.start(command)
        wait_until(lambda: said(flow, "embedder does not fit the configuration"))
        [line] = said(flow, "embedder does not fit the configuration")
        assert "dimension than 4: 384" in line["reason"]
        assert "qdrant.dimension" in line["remedy"]
        assert flow.terminate() == 0
