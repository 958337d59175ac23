"""Both flows when a request of a transaction comes late, or always fails, on a real broker behind an interceptor."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from bench.kafka.broker import Broker
from bench.ports import free_port
from bench.stubs import DIMENSION, stub_backends
from flows.assembly.clients import InProcess
from flows.assembly.collections import ensure_collections
from schemas.settings import load
from tests import qdrant_server
from tests.integration.deployment import Deployment, assert_each_once, wait_until
from tests.kafka.frames import Api
from tests.kafka.interceptor import Fate, Interceptor, Order


@pytest.fixture(scope="module")
def wire(broker_tools: None) -> Iterator[tuple[Broker, Interceptor]]:
    """A broker and the interceptor before it."""
    target = free_port()
    with Interceptor("127.0.0.1", target) as interceptor, Broker(proxied=(target, interceptor.port)) as broker:
        yield broker, interceptor


@pytest.fixture
def deployment(
    wire: tuple[Broker, Interceptor], tmp_path: Path, topic_names: Callable[[str], str]
) -> Iterator[Deployment]:
    """A deployment that reaches the broker through the interceptor."""
    broker, interceptor = wire
    with qdrant_server.running(tmp_path / "engine") as qdrant, stub_backends() as stubs:
        sections: dict[str, Any] = {
            "qdrant": {"url": qdrant, "dimension": DIMENSION},
            "embedder": {"kind": "openai", "url": stubs.embed},
            "rerank": {"kind": "none"},
        }
        settings = load(None, sections)
        # A replica without its collection is not ready.
        ensure_collections(settings, InProcess(settings))
        with Deployment.on(broker, tmp_path, topic_names, sections) as made:
            made.settings["kafka"]["bootstrap_servers"] = f"127.0.0.1:{interceptor.port}"
            yield made
    interceptor.reset()


def late_commit(interceptor: Interceptor) -> Order:
    """The end of the next transaction comes once more in the midst of the one after it."""
    order = Order(Fate.REPEATED, Api.END_TXN, Api.TXN_OFFSET_COMMIT, committed=True)
    interceptor.order(order)
    return order


def test_the_indexing_flow_is_protected(deployment: Deployment, wire: tuple[Broker, Interceptor]) -> None:
    """Its producer is replaced, the broker refuses what came late, and the watermarks end at the last document."""
    flow = deployment.start("index")
    order = late_commit(wire[1])
    for number in range(2):
        document = {"id": str(number), "namespace": "acme", "text": "Blue lantern"}
        deployment.produce("documents", [json.dumps(document).encode()])
        wait_until(lambda number=number: str(number) in deployment.watermarks().values())
    assert order.errors, "the broker took what came late"
    assert "producer replaced" in flow.log.read_text()
    assert flow.terminate() == 0


def test_the_search_flow_is_protected(deployment: Deployment, wire: tuple[Broker, Interceptor]) -> None:
    """Its producer is replaced without a restart, and every query is answered once."""
    flow = deployment.start()
    order = late_commit(wire[1])
    for number in range(2):
        deployment.ask([{"query_id": f"{number}", "text": "blue lantern"}])
        deployment.output_records(number + 1, settled=False)
    assert order.errors, "the broker took what came late"
    assert "producer replaced" in flow.log.read_text()
    assert flow.terminate() == 0
    assert_each_once(deployment, deployment.output_records(2))


def test_a_flow_that_is_fenced_says_by_what(deployment: Deployment) -> None:
    """A second process of the same replica name ends the first, whose log names the transactional id."""
    first = deployment.start(replica="same")
    deployment.ask([{"query_id": "1", "text": "blue lantern"}])
    deployment.output_records(1)
    deployment.start(replica="same", wait=False)
    wait_until(lambda: "took over" in deployment.flows[1].log.read_text())
    deployment.ask([{"query_id": f"{number}", "text": "blue lantern"} for number in range(20)])
    wait_until(lambda: first.process.poll() is not None)
    assert first.process.poll() == 1
    name = f"{deployment.settings['kafka']['group_id']}-same"
    assert f"another process with the transactional id {name} has started" in first.log.read_text()
    assert_each_once(deployment, deployment.output_records(21))


@pytest.mark.parametrize(
    ("api", "code"), [(Api.PRODUCE, 19), (Api.ADD_PARTITIONS_TO_TXN, 51), (Api.TXN_OFFSET_COMMIT, 15)]
)
def test_a_flow_whose_transactions_always_fail_is_not_ready(
    deployment: Deployment, wire: tuple[Broker, Interceptor], api: Api, code: int
) -> None:
    """It lives, `/readyz` names the check alone, and once a transaction ends, it is ready and all is answered."""
    deployment.settings["kafka"]["transaction_timeout"] = 3
    flow = deployment.start()
    wire[1].order(*(Order(Fate.ANSWERED, api, code=code) for _ in range(10_000)))
    deployment.ask([{"query_id": "1", "text": "blue lantern"}])
    # On a busy machine the group may be rebalanced meanwhile.
    wait_until(lambda: flow.unready() == {"transactions"} or flow.process.poll() is not None)
    assert flow.process.poll() is None, flow.log.read_text()
    wire[1].order()
    wait_until(flow.ready)
    assert flow.terminate() == 0
    assert_each_once(deployment, deployment.output_records(1))
