"""Topics whose last records are ends of transactions, and nobody writes to them any more: nothing waits in them.

Of each topic that a flow reads, one partition ends in a committed transaction, and one in an aborted one.
"""

import json
import time
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import httpx
import pytest
import yaml
from confluent_kafka import Producer
from prometheus_client.parser import text_string_to_metric_families

from bench.kafka.broker import Broker
from bench.stubs import DIMENSION, stub_backends
from flows.assembly.delivery import kafka_client
from operators.delivery.broker import find_lag
from schemas.settings import KafkaSettings
from tests import qdrant_server
from tests.deploy.monitoring import RULES, promtool
from tests.integration.deployment import PARTITIONS, Deployment, Flow, wait_until
from tests.integration.prometheus import FOR, INTERVAL, Prometheus
from tests.integration.test_commands import rankstream

pytestmark = pytest.mark.slow

COMMITTED, ABORTED = 0, 1
"""Partitions by their last transaction."""

JOBS: Final = {"search": "rankstream-search", "indexing": "rankstream-indexing"}
SAMPLE = tuple[str, dict[str, str], float]


@dataclass
class Quiet:
    """Both flows, which have dealt with all that was written."""

    deployment: Deployment
    flows: dict[str, Flow]

    def samples(self, flow: str) -> list[SAMPLE]:
        """The present samples of a flow's /metrics."""
        text = httpx.get(f"http://127.0.0.1:{self.flows[flow].port}/metrics").raise_for_status().text
        families = text_string_to_metric_families(text)
        return [(each.name, each.labels, each.value) for family in families for each in family.samples]

    def lags(self, flow: str) -> dict[int, float]:
        """The lag of each of its partitions."""
        found = self.samples(flow)
        return {int(labels["partition"]): value for name, labels, value in found if name == "rankstream_consumer_lag"}

    def behind(self, flow: str, role: str) -> int:
        """The offsets that the flow's group has not committed, as the broker has them."""
        settings = KafkaSettings.model_validate(self.deployment.settings["kafka"])
        own = settings.indexing if flow == "indexing" else settings
        return find_lag(kafka_client(own), self.deployment.names[role])

    def index(self, count: int) -> str:
        """Index a file of `count` documents, as an operator does; what is said at its end."""
        documents = self.deployment.directory / "documents.jsonl"
        documents.write_text("\n".join(json.dumps({"id": f"d{n}", "text": f"lantern {n}"}) for n in range(count)))
        config = self.deployment.directory / "0.yaml"
        return rankstream(config, "index", "--from", str(documents)).stdout


@pytest.fixture
def quiet(broker: Broker, tmp_path: Path, topic_names: Callable[[str], str]) -> Iterator[Quiet]:
    """The flows, before topics that ended in both ways."""
    with qdrant_server.running(tmp_path / "engine") as qdrant, stub_backends() as stubs:
        sections = {
            "qdrant": {"url": qdrant, "dimension": DIMENSION, "timeout": 20},
            "embedder": {"kind": "openai", "url": stubs.embed, "timeout": 20},
            "limits": {"timeout": 60},
        }
        with Deployment.on(broker, tmp_path, topic_names, sections) as deployment:
            flows = {"indexing": deployment.start("index"), "search": deployment.start("run")}
            found = Quiet(deployment, flows)
            for flow, role, event in (
                ("indexing", "documents", {"id": "d", "text": "harbor"}),
                ("search", "queries", {"query_id": "q", "text": "harbor"}),
            ):
                end_both_ways(deployment, role, json.dumps(event).encode())
                # The metric is that of a second ago: the group's own offsets say when all is dealt with.
                wait_until(lambda flow=flow, role=role: found.behind(flow, role) == 0)
                wait_until(lambda flow=flow: found.lags(flow) == dict.fromkeys(range(PARTITIONS), 0.0))
            yield found


def end_both_ways(deployment: Deployment, role: str, value: bytes) -> None:
    """Write to two partitions, and to each in a transaction behind that: committed in one, aborted in the other."""
    options = {"bootstrap.servers": deployment.broker.bootstrap, "transactional.id": uuid.uuid4().hex}
    producer = Producer(options)
    producer.init_transactions()
    for partitions, end in (
        ((COMMITTED, ABORTED), producer.commit_transaction),
        ((COMMITTED,), producer.commit_transaction),
        ((ABORTED,), producer.abort_transaction),
    ):
        producer.begin_transaction()
        for partition in partitions:
            producer.produce(deployment.names[role], value, partition=partition)
        producer.flush()
        end()
    producer.close()


def test_nothing_waits_in_a_quiet_topic(quiet: Quiet, tmp_path: Path) -> None:
    """The lag is 0; with these metrics for 20 minutes no shipped alert fires; and a file is indexed to its end."""
    series = [each for flow in JOBS for each in constant(flow, quiet.samples(flow))]
    firing = 'ALERTS{alertstate="firing"}'
    moments = [{"expr": firing, "eval_time": f"{minute}m", "exp_samples": []} for minute in range(1, 21)]
    cases = {
        "rule_files": [str(RULES)],
        "evaluation_interval": "1m",
        "tests": [{"interval": "1m", "input_series": series, "promql_expr_test": moments}],
    }
    file = tmp_path / "cases.yaml"
    file.write_text(yaml.safe_dump(cases))
    promtool("test", "rules", file)
    assert "documents indexed: 5, rejected: 0" in quiet.index(5)


def constant(flow: str, samples: list[SAMPLE]) -> Iterator[dict[str, Any]]:
    """The samples as promtool's series of 20 minutes in which nothing happens."""
    target = {"job": JOBS[flow], "instance": flow}
    for name, labels, value in [*samples, ("up", {}, 1.0)]:
        pairs = ", ".join(f"{key}={json.dumps(text)}" for key, text in {**labels, **target}.items())
        yield {"series": f"{name}{{{pairs}}}", "values": f"{value}x20"}


@pytest.mark.operate
@pytest.mark.timeout(600)
def test_prometheus_sees_nothing_in_a_quiet_topic(quiet: Quiet, tmp_path: Path) -> None:
    """A real Prometheus with the shipped rules, in short time: the lag is 0 and no alert fires, for as long as ten
    minutes are beside the rules' own times; then a file is indexed to its end.
    """
    directory = tmp_path / "prometheus"
    directory.mkdir()
    targets = {JOBS[flow]: f"127.0.0.1:{running.port}" for flow, running in quiet.flows.items()}
    with Prometheus.scraping(targets, directory) as prometheus:
        wait_until(lambda: len(prometheus.value("rankstream_consumer_lag")) == len(JOBS) * PARTITIONS)
        prometheus.wait_quiet()
        # The rules wait for 2 minutes and more, which FOR stands for.
        time.sleep(5 * seconds(FOR) + seconds(INTERVAL))
        watched = f"{round(5 * seconds(FOR))}s"
        assert prometheus.value(f"max_over_time(rankstream_consumer_lag[{watched}]) > 0") == []
        assert prometheus.value(f'max_over_time(ALERTS{{alertstate="firing"}}[{watched}])') == []
        assert "documents indexed: 5, rejected: 0" in quiet.index(5)
        prometheus.wait_quiet()


def seconds(duration: str) -> float:
    """A duration as the rules write it."""
    return float(duration.removesuffix("s"))
