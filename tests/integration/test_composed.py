"""deploy/compose.yaml without containers: its commands and environments, with a broker, Qdrant and Prometheus here."""

import contextlib
import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import httpx
import kafka
import pytest
import yaml

from bench.kafka.broker import Broker
from bench.ports import free_port
from tests import qdrant_server
from tests.deploy.files import DEPLOY
from tests.deploy.monitoring import DASHBOARDS, Expression, alerts, dashboard_expressions, filled
from tests.integration.deployment import PATIENCE, wait_until
from tests.integration.prometheus import Prometheus
from tests.integration.test_prometheus import RARE
from tests.otlp import Receiver

pytestmark = [pytest.mark.slow, pytest.mark.broker, pytest.mark.weights]

SERVICES: Final[Mapping[str, Any]] = yaml.safe_load((DEPLOY / "compose.yaml").read_text())["services"]
TEXTS: Final = ("a lamp of brass", "a wooden chair", "the harbour at night")


def command(name: str, hosts: Mapping[str, str]) -> tuple[list[str], dict[str, str]]:
    """The command and the environment of a service, with the addresses of this machine in place of the services'."""
    service = SERVICES[name]
    [mount] = service["volumes"]
    source, target, _ = mount.split(":")
    words = [str((DEPLOY / source).resolve()) if word == target else word for word in service["command"]]
    said = {variable: value for variable, value in service["environment"].items() if value is not None}
    for host, address in hosts.items():
        said = {variable: value.replace(host, address) for variable, value in said.items()}
    return [sys.executable, "-m", "flows.cli", *words], {**os.environ, **said}


@contextlib.contextmanager
def running(name: str, hosts: Mapping[str, str], port: int, directory: Path) -> Iterator[None]:
    """A flow, ready by its health check's path, until the block ends; it ends with 0."""
    words, environment = command(name, hosts)
    environment["RANKSTREAM_TELEMETRY__PORT"] = str(port)
    log = directory / f"{name}.log"
    with log.open("wb") as file:
        process = subprocess.Popen(words, env=environment, cwd=directory, stdout=file, stderr=file)
    try:
        path = "/readyz"
        assert f":{8080 if name == 'search' else 8081}{path}" in str(SERVICES[name]["healthcheck"]["test"])

        def ready() -> bool:
            assert process.poll() is None, log.read_text()
            with contextlib.suppress(httpx.TransportError):
                return httpx.get(f"http://127.0.0.1:{port}{path}", timeout=4).is_success
            return False

        wait_until(ready)
        yield
        process.terminate()
        assert process.wait(PATIENCE) == 0, log.read_text()
    finally:
        process.kill()
        process.wait()


@pytest.mark.usefixtures("broker_tools")
def test_the_composed_services_answer_and_are_watched(tmp_path: Path) -> None:
    """Topics are made, a document is indexed and found, traces arrive, and dashboards and alerts have their series."""
    ports = {"search": free_port(), "indexing": free_port()}
    with contextlib.ExitStack() as stack:
        broker = stack.enter_context(Broker())
        qdrant = stack.enter_context(qdrant_server.running(tmp_path / "qdrant"))
        traces = stack.enter_context(Receiver())
        hosts = {
            "kafka:19092": broker.bootstrap,
            "http://qdrant:6333": qdrant,
            "http://otel-collector:4318": traces.endpoint,
        }
        words, environment = command("topics", hosts)
        made = subprocess.run(words, env=environment, cwd=tmp_path, capture_output=True, text=True, timeout=PATIENCE)
        assert made.returncode == 0, made.stderr
        for name, port in ports.items():
            stack.enter_context(running(name, hosts, port, tmp_path))
        targets = {f"rankstream-{name}": f"127.0.0.1:{port}" for name, port in ports.items()}
        prometheus = stack.enter_context(Prometheus.scraping(targets, tmp_path))

        producer = kafka.KafkaProducer(bootstrap_servers=broker.bootstrap)
        for number, text in enumerate(TEXTS):
            producer.send("documents", json.dumps({"id": f"d{number}", "text": text}).encode())
        producer.flush()
        words, environment = command("search", hosts)
        asked = [*words[:3], "query", *words[4:], "--json", "where is the lamp?"]

        def found() -> bool:
            answer = subprocess.run(asked, env=environment, cwd=tmp_path, capture_output=True, text=True, timeout=60)
            assert answer.returncode == 0, answer.stderr
            hits = json.loads(answer.stdout)["results"]
            return len(hits) == len(TEXTS) and hits[0]["id"] == "d0"

        wait_until(found)
        traces.wait_for(lambda spans: any(span.name == "process queries" for span in spans), PATIENCE)
        wait_until(lambda: bool(prometheus.value("rankstream_queries_answered_total > 0")))
        wait_until(lambda: bool(prometheus.value("rankstream_documents_applied_total > 0")))
        expressions = [each for file in DASHBOARDS for each in dashboard_expressions(file)]

        def has_value(expression: Expression) -> bool:
            # Rates over short times: the load is a few queries.
            return bool(prometheus.value(expression.text.replace("[1m]", "[1h]")))

        # A series with labels begins with its first event, and an alert with its condition.
        there = {name for each in expressions for name in each.names - {"ALERTS"} if prometheus.value(name)}
        whole = [each for each in expressions if each.names <= there and each.where.partition(": ")[2] not in RARE]
        assert len(whole) > len(expressions) / 2, there
        without = [each.where for each in whole]

        def all_have_values() -> bool:
            without[:] = [each.where for each in whole if not has_value(each)]
            return not without

        with contextlib.suppress(AssertionError):
            wait_until(all_have_values, 60)
        assert without == [], without
        for rule in alerts():
            prometheus.value(filled(rule["expr"]))
        producer.close()
