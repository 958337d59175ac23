"""Records that a topic refuses, on a real broker: each message is accounted for, and those beside it are answered."""

import json
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import kafka
import pytest

from bench.kafka.broker import Broker
from bench.stubs import DIMENSION, stub_backends
from schemas import headers as names
from tests import qdrant_server
from tests.integration.deployment import PARTITIONS, Deployment, assert_each_once, wait_until
from tests.operators.delivery.members import NOW_MS

MICROSECONDS = NOW_MS * 1000
ANY_TIME = {"message.timestamp.after.max.ms": str(2**63 - 1)}
COMPACTED = {"cleanup.policy": "compact"}
NO_JSON = b"{"


@pytest.fixture(params=["kafka-python", "librdkafka"])
def deployment(
    request: pytest.FixtureRequest, broker: Broker, tmp_path: Path, topic_names: Callable[[str], str]
) -> Iterator[Deployment]:
    """Both flows by either Kafka client, and what they ask."""
    with stub_backends() as stubs:
        sections = {
            "qdrant": {"url": stubs.qdrant, "dimension": DIMENSION},
            "embedder": {"kind": "openai", "url": stubs.embed},
            "limits": {"timeout": 60},
        }
        with Deployment.on(broker, tmp_path, topic_names, sections) as running:
            running.settings["kafka"]["client"] = request.param
            yield running


@pytest.fixture
def qdrant(tmp_path: Path) -> Iterator[str]:
    """Qdrant's engine over HTTP."""
    with qdrant_server.running(tmp_path / "engine") as url:
        yield url


def other(deployment: Deployment, role: str, config: Mapping[str, str]) -> None:
    """Give a role another topic, of this configuration."""
    topic = f"{deployment.names[role]}-other"
    deployment.broker.create_topic(topic, PARTITIONS, config)
    deployment.names = {**deployment.names, role: topic}
    deployment.settings["kafka"]["topics"] = dict(deployment.names)


def send(deployment: Deployment, role: str, *records: Mapping[str, Any]) -> None:
    """Produce records with all that is said of them."""
    producer = kafka.KafkaProducer(bootstrap_servers=deployment.broker.bootstrap, acks="all")
    for record in records:
        producer.send(deployment.names[role], **record).get(10)
    producer.close()


def query(number: int) -> bytes:
    """A query that can be answered."""
    return json.dumps({"query_id": f"q{number}", "text": "harbor"}).encode()


def test_a_time_that_the_dead_letters_topic_refuses(deployment: Deployment) -> None:
    """A message stamped in microseconds is kept whole but for its timestamp, which a header has, whether or not its
    caller hears; the others are answered.
    """
    other(deployment, "queries", ANY_TIME)
    flow = deployment.start()
    stamped = {"key": b"k", "headers": [("own", b"1")], "timestamp_ms": MICROSECONDS}
    send(deployment, "queries", {"value": NO_JSON, **stamped}, {"value": query(1), **stamped}, {"value": query(2)})
    ended = deployment.output_records(3)
    assert_each_once(deployment, ended)
    assert sorted(each.kind for each in ended) == ["invalid", "not_json", "result"]
    letters = deployment.records("dead_letters")
    assert {letter.value for letter in letters} == {NO_JSON, query(1)}
    for letter in letters:
        assert (letter.key, letter.headers[0]) == (b"k", ("own", b"1"))
        why = dict(letter.headers)
        assert why[names.TIMESTAMP] == b"%d" % MICROSECONDS
        assert why[names.REFUSED] == f"{letter.topic} refuses the record: INVALID_TIMESTAMP".encode()
    assert flow.ready()
    assert flow.terminate() == 0


def test_a_document_whose_time_is_refused(deployment: Deployment, qdrant: str) -> None:
    """The indexing flow's dead letters likewise; so is a document whose time is no milliseconds. The documents between
    them are indexed, and have their watermark.
    """
    other(deployment, "documents", ANY_TIME)
    deployment.settings["qdrant"]["url"] = qdrant
    flow = deployment.start("index")
    document = json.dumps({"id": "d", "namespace": "acme", "text": "harbor"}).encode()
    stamped = {"key": b"k", "partition": 0, "timestamp_ms": MICROSECONDS}
    send(
        deployment,
        "documents",
        {"value": NO_JSON, **stamped},
        {"value": document, **stamped},
        {"value": NO_JSON, "key": b"k", "partition": 0},
        {"value": document, "key": b"k", "partition": 0},
    )
    wait_until(lambda: "3" in deployment.watermarks().values())
    wait_until(lambda: len(deployment.records("dead_letters")) == 3)
    refused, wrong, taken = sorted(
        deployment.records("dead_letters"), key=lambda each: int(dict(each.headers)[names.OFFSET])
    )
    assert (refused.key, refused.value) == (taken.key, taken.value) == (b"k", NO_JSON)
    assert wrong.value == document
    for each in (refused, wrong):
        assert dict(each.headers)[names.TIMESTAMP] == b"%d" % MICROSECONDS
    assert names.REFUSED not in dict(taken.headers)
    assert flow.terminate() == 0


def test_topics_that_take_no_record_without_a_key(deployment: Deployment) -> None:
    """A message without a key has its dead letter whole where both are compacted, and a query that can't be answered
    without one hears why.
    """
    other(deployment, "results", COMPACTED)
    other(deployment, "dead_letters", COMPACTED)
    deployment.start()
    send(deployment, "queries", {"value": NO_JSON}, {"value": query(1)}, {"value": query(2), "key": b"k"})
    ended = deployment.output_records(3)
    assert sorted(each.place for each in ended) == sorted(deployment.places())
    assert sorted(each.kind for each in ended) == ["internal", "not_json", "result"]
    assert NO_JSON in {each.value for each in deployment.records("dead_letters")}
    (refusal,) = [each.refusal for each in ended if each.refusal is not None]
    assert refusal["query_id"] == "q1"
    assert refusal["error"]["reason"] == f"{deployment.names['results']} refuses the record: INVALID_RECORD"
