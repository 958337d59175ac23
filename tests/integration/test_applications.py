"""Applications with an unmodified Kafka client of another family: they ask, and read every result."""

import json
import os
import struct
import subprocess
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Final

import kafka
import pytest

from bench.kafka.broker import Broker
from bench.stubs import stub_backends
from flows.assembly.delivery import kafka_client
from operators.delivery.broker import find_lag
from schemas.settings import KafkaSettings
from tests.integration.applications import Runtime, java, node
from tests.integration.deployment import PARTITIONS, PATIENCE, Deployment, wait_until
from tests.operators.delivery.transactions import indexing

HERE: Final = Path(__file__).parent
COUNT: Final = 30

_HEAD: Final = struct.Struct(">qiibIh")
"""Of a batch in a log: base offset, length behind itself, epoch, version, checksum, attributes."""


def codecs(broker: Broker, topic: str) -> Iterator[int]:
    """The codec of each batch in the logs of a topic, by Kafka's numbers; 0 is none."""
    for log in broker.logs(topic):
        data, place = log.read_bytes(), 0
        while place + _HEAD.size <= len(data):
            _, length, *_, attributes = _HEAD.unpack_from(data, place)
            if not length:
                break
            yield attributes & 7
            place += 12 + length


@pytest.mark.parametrize(("runtime", "file"), [(java, "Application.java"), (node, "application.js")])
def test_an_application_asks_and_reads(
    broker: Broker,
    tmp_path: Path,
    topic_names: Callable[[str], str],
    runtime: Runtime,
    file: str,
) -> None:
    """Queries in transactions, between aborted ones: each that was committed has one result, and none is unread then.

    So it is where the flow is killed while the application asks, and another takes over. The results are not
    compressed, so that every client reads them.
    """
    with (
        stub_backends(qdrant_latency=0.001, rerank_latency=0.001) as stubs,
        Deployment.on(broker, tmp_path, topic_names, {"qdrant": {"url": stubs.qdrant}}) as deployment,
    ):
        settings = KafkaSettings.model_validate(deployment.settings["kafka"])
        with indexing(settings, settings.topics.results) as other:
            for partition in range(PARTITIONS):
                other.write(b"aborted", 1, partition)
                other.abort()
        deployment.settings["limits"] = {"timeout": 60}
        flow = deployment.start()
        topics = settings.topics
        command, environment = runtime(HERE / file, tmp_path)
        with subprocess.Popen(
            [*command, broker.bootstrap, topics.queries, topics.results, str(COUNT)],
            env={**os.environ, **environment},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        ) as application:
            try:
                wait_until(lambda: application.poll() is not None or deployment.records("results"))
                flow.kill()
                deployment.start()
                out, errors = application.communicate(timeout=PATIENCE)
            finally:
                application.kill()
        assert application.returncode == 0, errors
        results = [json.loads(line) for line in out.splitlines()]
        assert sorted(each["query_id"] for each in results) == sorted(f"asked-{number}" for number in range(COUNT))
        assert set(codecs(broker, topics.results)) == {0}
        # Each partition with a query ends in the mark of a transaction.
        wait_until(lambda: find_lag(kafka_client(settings), topics.queries) == 0)
        with closing(kafka.KafkaConsumer(bootstrap_servers=broker.bootstrap, group_id=settings.group_id)) as tool:
            places = [kafka.TopicPartition(topics.queries, number) for number in range(PARTITIONS)]
            assert {place: tool.committed(place) or 0 for place in places} == tool.end_offsets(places)
