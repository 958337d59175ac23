"""A pod's life, played by processes: the search flow on a real broker, asked by the probes of the rendered chart."""

import json
import os
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import confluent_kafka
import httpx
import pytest

from bench.kafka.broker import Broker
from bench.stubs import stub_backends
from tests.deploy.chart import rendered
from tests.integration.deployment import PATIENCE, Deployment, Flow, assert_each_once, wait_until

QUERIES = 400


@pytest.fixture
def deployment(broker: Broker, tmp_path: Path, topic_names: Callable[[str], str]) -> Iterator[Deployment]:
    """The search flow before a Qdrant that takes its time, and that drains as long as the chart lets it."""
    with stub_backends(qdrant_latency=0.2) as stubs:
        sections = {
            "qdrant": {"url": stubs.qdrant, "max_concurrency": 2, "max_batch": 8},
            "limits": {"timeout": 60},
            # A flow that hangs is noticed soon.
            "delivery": {"watchdog": 8},
        }
        with Deployment.on(broker, tmp_path, topic_names, sections) as running:
            yield running


def probe(flow: Flow, kind: str) -> bool:
    """The kubelet's result of a probe of the chart: a failure, too, if nobody listens or the time is over."""
    settings = rendered("minimal").flow("search").container[kind]
    url = f"http://127.0.0.1:{flow.port}{settings['httpGet']['path']}"
    try:
        return 200 <= httpx.get(url, timeout=settings.get("timeoutSeconds", 1)).status_code < 400
    except httpx.TransportError:
        return False


@contextmanager
def rebalance_held(deployment: Deployment) -> Iterator[None]:
    """Hold the group's next rebalance back until the block is left: a member that has joined and polls no more."""
    settings = deployment.settings["kafka"]
    holder = confluent_kafka.Consumer(
        {
            "bootstrap.servers": settings["bootstrap_servers"],
            "group.id": settings["group_id"],
            "partition.assignment.strategy": "range",
        }
    )
    try:
        holder.subscribe([deployment.names["queries"]])
        wait_until(lambda: holder.poll(0.1) is None and bool(holder.assignment()))
        yield
    finally:
        holder.close()


def test_a_pod_is_not_ready_before_it_is_in_its_group(deployment: Deployment) -> None:
    """It is alive from the first answer on, and ready only after the group has given it its partitions."""
    with rebalance_held(deployment):
        flow = deployment.start(wait=False)
        wait_until(lambda: probe(flow, "startupProbe") or flow.process.poll() is not None)
        for _ in range(10):
            assert probe(flow, "livenessProbe"), flow.log.read_text()
            assert not probe(flow, "readinessProbe"), flow.log.read_text()
    wait_until(lambda: probe(flow, "readinessProbe"))
    wait_until(lambda: "consumer took over partitions" in flow.log.read_text())
    assert flow.terminate() == 0


def test_a_pod_drains_within_its_grace_period(deployment: Deployment) -> None:
    """At SIGTERM it answers what it has read, and exits with 0 before the kubelet would kill it."""
    flow = deployment.start()
    deployment.ask([{"query_id": f"q{n}", "text": f"lantern {n}"} for n in range(QUERIES)])
    answered = len(deployment.output_records(20, settled=False))
    flow.process.send_signal(signal.SIGTERM)
    grace = rendered("minimal").flow("search").pod["terminationGracePeriodSeconds"]
    assert flow.process.wait(grace) == 0
    assert answered < QUERIES, "SIGTERM came after the last answer"
    assert "drain timed out" not in flow.log.read_text()
    deployment.start(replica="1")
    assert_each_once(deployment, deployment.output_records(QUERIES))


def test_a_pod_that_hangs_is_not_alive(deployment: Deployment, tmp_path: Path) -> None:
    """Its log is not read, so it hangs when it writes a line: it is no longer alive, and its successor goes on."""
    log = tmp_path / "0.log"
    os.mkfifo(log)
    with open(os.open(log, os.O_RDONLY | os.O_NONBLOCK), "rb") as unread:
        flow = deployment.start(wait=False)
        wait_until(lambda: probe(flow, "readinessProbe") or flow.process.poll() is not None)
        assert probe(flow, "livenessProbe"), unread.read()
        _fill(log)
        # A dead letter is logged.
        deployment.produce("queries", [b"not JSON"])
        wait_until(lambda: not probe(flow, "livenessProbe"), 2 * PATIENCE)
        # It stays so, or the process ends itself.
        time.sleep(1)
        assert not probe(flow, "livenessProbe")
        flow.kill()
    # The successor has the name of the hung one, and answers what that one left.
    deployment.start()
    deployment.ask([{"query_id": "q", "text": "lantern"}])
    answers = [each.value for each in deployment.output_records(2) if each.kind == "result"]
    assert [answer["query_id"] for answer in answers] == ["q"]


def _fill(fifo: Path) -> None:
    """Write until there is no room for a byte."""
    writer = os.open(fifo, os.O_WRONLY | os.O_NONBLOCK)
    line = json.dumps({"event": "filled"}).encode()
    try:
        for part in (line, line[:1]):
            while True:
                try:
                    os.write(writer, part)
                except BlockingIOError:
                    break
    finally:
        os.close(writer)
