"""Replies on a real broker: where queries choose their results' places, and headers that return."""

import json
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any, Final

import kafka
import pytest
from kafka.admin import KafkaAdminClient

from bench.kafka.broker import Broker
from bench.stubs import stub_backends
from schemas import headers as names
from tests.integration.deployment import PARTITIONS, Deployment, wait_until

TOPIC: Final = "kafka_replyTopic"
PARTITION: Final = "kafka_replyPartition"


@pytest.fixture(params=["librdkafka", pytest.param("kafka-python", marks=pytest.mark.both_clients)])
def deployment(
    request: pytest.FixtureRequest, broker: Broker, tmp_path: Path, topic_names: Callable[[str], str]
) -> Iterator[Deployment]:
    """The search flow by either client, with a pattern of reply topics."""
    with (
        stub_backends(qdrant_latency=0.001, rerank_latency=0.001) as stubs,
        Deployment.on(broker, tmp_path, topic_names, {"qdrant": {"url": stubs.qdrant}}) as running,
    ):
        kafka_settings = running.settings["kafka"]
        kafka_settings["client"] = request.param
        kafka_settings["topics"] = {**running.names, "reply_to": [topic_names("reply-*")]}
        running.settings["limits"] = {"timeout": 60}
        yield running


def ask(deployment: Deployment, id_: str, *headers: tuple[str, bytes], **event: Any) -> None:
    """Send one query with these headers."""
    deployment.ask([{"query_id": id_, "text": "blue lantern", **event}], list(headers))


def read(broker: Broker, topic: str, count: int) -> list[Any]:
    """The first committed records of a topic."""
    consumer = kafka.KafkaConsumer(
        topic, bootstrap_servers=broker.bootstrap, isolation_level="read_committed", auto_offset_reset="earliest"
    )
    found: list[Any] = []

    def all_there() -> bool:
        found.extend(record for batch in consumer.poll(timeout_ms=200).values() for record in batch)
        return len(found) >= count

    wait_until(all_there)
    consumer.close()
    assert len(found) == count
    return found


def test_a_query_chooses_topic_and_partition_and_has_its_headers_back(
    deployment: Deployment, topic_names: Callable[[str], str]
) -> None:
    """A topic that came after the start, of which a header has the name; an answer in kind, a refusal and a cached
    answer have the headers of their own queries.
    """
    deployment.start()
    own, broker = topic_names("reply-own"), deployment.broker
    broker.create_topic(own, 3)
    place = ((TOPIC, own.encode()), (PARTITION, (2).to_bytes(4)))
    for id_ in "abc":
        ask(deployment, id_, ("x", b"1"), *place, ("kafka_correlationId", id_.encode()), ("x", b"\xff\x00"))
    ask(deployment, "d", *place, ("kafka_correlationId", b"d"), limit=2.5)
    attributes = {"ce_specversion": b"1.0", "ce_id": b"1", "ce_source": b"/s", "ce_type": b"t", "ce_own": b"1"}
    ask(deployment, "e", *attributes.items(), *place)
    records = {json.loads(record.value)["query_id"]: record for record in read(broker, own, 5)}
    assert records.keys() == set("abcde")
    assert {record.partition for record in records.values()} == {2}
    for id_ in "abc":
        expected = [("x", b"1"), *place, ("kafka_correlationId", id_.encode()), ("x", b"\xff\x00")]
        assert records[id_].headers[:5] == expected
        assert "traceparent" not in [name for name, _ in records[id_].headers[:5]]
    assert json.loads(records["d"].value)["status"] == "invalid"
    assert ("kafka_correlationId", b"d") in records["d"].headers
    assert dict(records["e"].headers)["ce_causationid"] == b"1"
    assert "ce_own" not in dict(records["e"].headers)
    letters = deployment.records("dead_letters")
    assert [letter.headers[:3] for letter in letters] == [[*place, ("kafka_correlationId", b"d")]]


def test_what_is_not_there_is_said_and_stops_nothing(deployment: Deployment, topic_names: Callable[[str], str]) -> None:
    """A missing topic, a missing partition of either kind of topic, and one that no pattern fits."""
    deployment.start()
    broker = deployment.broker
    small, results = topic_names("reply-small"), deployment.names["results"]
    broker.create_topic(small, 1)
    ask(deployment, "partition", (TOPIC, small.encode()), (PARTITION, b"7"))
    missing = topic_names("reply-missing")
    ask(deployment, "topic", (TOPIC, missing.encode()))
    ask(deployment, "results", (PARTITION, b"99"))
    ask(deployment, "pattern", (TOPIC, b"elsewhere"))
    ask(deployment, "well", (PARTITION, b"1"))
    ended = {event["query_id"]: event for event in (json.loads(each.value) for each in read(broker, results, 5))}
    assert ended.pop("well")["status"] != "invalid"
    assert {id_: event["error"]["reason"] for id_, event in ended.items()} == {
        "topic": f"reply_to: there is no topic {missing}",
        "partition": f"reply_to: topic {small} has no partition 7, but 1 from 0",
        "results": f"reply_to: topic {results} has no partition 99, but {PARTITIONS} from 0",
        "pattern": f"header {TOPIC}: not a topic that a query may choose ('elsewhere')",
    }
    stages = Counter(dict(letter.headers)[names.STAGE] for letter in deployment.records("dead_letters"))
    assert stages == {b"reply": 3, b"decode": 1}
    with closing(kafka.KafkaConsumer(bootstrap_servers=broker.bootstrap)) as tool:
        assert missing not in tool.topics()


@pytest.mark.parametrize("deployment", ["librdkafka"], indirect=True)
def test_a_topic_that_goes_or_grows_stops_nothing(deployment: Deployment, topic_names: Callable[[str], str]) -> None:
    """The delivery that fails for it looks at all topics again: one refuses, and the other's new partition is known."""
    deployment.start()
    broker, gone, grown = deployment.broker, topic_names("reply-gone"), topic_names("reply-grown")
    for topic in (gone, grown):
        broker.create_topic(topic, 1)
        ask(deployment, topic, (TOPIC, topic.encode()))
        assert json.loads(read(broker, topic, 1)[0].value)["query_id"] == topic
    with closing(KafkaAdminClient(bootstrap_servers=broker.bootstrap)) as admin:
        admin.delete_topics([gone])
        admin.create_partitions({grown: 2})
    ask(deployment, "q", (TOPIC, gone.encode()))
    (refused,) = read(broker, deployment.names["results"], 1)
    assert json.loads(refused.value)["error"]["reason"] == f"reply_to: there is no topic {gone}"
    ask(deployment, "r", (TOPIC, grown.encode()), (PARTITION, b"1"))
    assert sorted(record.partition for record in read(broker, grown, 2)) == [0, 1]
    with closing(kafka.KafkaConsumer(bootstrap_servers=broker.bootstrap)) as tool:
        assert gone not in tool.topics()
