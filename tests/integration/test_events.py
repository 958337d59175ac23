"""Events on a real broker: CloudEvents in kind, results to chosen topics, and records of every size."""

import json
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import kafka
import pytest

from bench.kafka.broker import Broker
from bench.stubs import stub_backends
from operators.wire.cloud_event import from_envelope, from_headers
from schemas import headers as names
from tests.integration.deployment import PARTITIONS, PATIENCE, Deployment
from tests.legible import is_plain, legible
from tests.operators.mutations import mutations

ATTRIBUTES = {"specversion": "1.0", "id": "A-1", "source": "/shop", "type": "com.example.query"}
BINARY = [(f"ce_{name}", value.encode()) for name, value in ATTRIBUTES.items()]
STRUCTURED = [("content-type", b"application/cloudevents+json")]


@pytest.fixture
def deployment(broker: Broker, tmp_path: Path, topic_names: Callable[[str], str]) -> Iterator[Deployment]:
    """The search flow with two more topics for results: one as usual, one that takes little."""
    with (
        stub_backends(qdrant_latency=0.001, rerank_latency=0.001) as stubs,
        Deployment.on(broker, tmp_path, topic_names, {"qdrant": {"url": stubs.qdrant}}) as running,
    ):
        chosen = [topic_names("answers"), topic_names("small")]
        broker.create_topic(chosen[0], PARTITIONS)
        broker.create_topic(chosen[1], PARTITIONS, {"max.message.bytes": "20000"})
        running.settings["kafka"]["topics"] = {**running.names, "reply_to": chosen}
        running.settings["limits"] = {"timeout": 60}
        yield running


def read(deployment: Deployment, topics: Sequence[str], count: int, most: int | None = None) -> list[Any]:
    """The records that a reader of committed ones sees: `count` to `most`, and no more within a second."""
    consumer = kafka.KafkaConsumer(
        bootstrap_servers=deployment.broker.bootstrap, isolation_level="read_committed", auto_offset_reset="earliest"
    )
    consumer.assign([kafka.TopicPartition(topic, number) for topic in topics for number in range(PARTITIONS)])
    records: list[Any] = []
    quiet = 0
    limit = time.monotonic() + PATIENCE
    while time.monotonic() < limit and quiet < 5:
        polled = consumer.poll(timeout_ms=200)
        records += [record for batch in polled.values() for record in batch]
        quiet = quiet + 1 if len(records) >= count and not polled else 0
    consumer.close()
    assert count <= len(records) <= (most if most is not None else count)
    return records


def test_events_are_answered_in_kind_where_they_ask_for_it(
    deployment: Deployment, topic_names: Callable[[str], str]
) -> None:
    """A binary, a structured and a plain query have results of their own kinds, on the topic that they name."""
    deployment.start()
    event = {"text": "blue lantern", "reply_to": topic_names("answers")}
    deployment.ask([{"query_id": "binary", **event}], BINARY)
    deployment.ask([{**ATTRIBUTES, "data": {"query_id": "structured", **event}}], STRUCTURED)
    deployment.ask([{"query_id": "plain", **event}])
    answered = set()
    for record in read(deployment, [topic_names("answers")], 3):
        value, headers = json.loads(record.value), tuple(record.headers)
        result = value.get("data", value)
        answered.add(result["query_id"])
        if result["query_id"] == "binary":
            assert from_headers(headers).id == result["result_id"]
            assert dict(headers)["ce_causationid"] == b"A-1"
        elif result["query_id"] == "structured":
            assert from_envelope(value).id == result["result_id"]
            assert (value["causationid"], value["causationsource"]) == ("A-1", "/shop")
        else:
            assert not any(name.startswith("ce_") for name, _ in headers)
    assert answered == {"binary", "structured", "plain"}


@pytest.mark.parametrize("compression", [None, "lz4"])
def test_a_result_fits_the_topic_that_it_goes_to(
    deployment: Deployment, topic_names: Callable[[str], str], compression: str | None
) -> None:
    """On a topic of 20,000 bytes a result has lost what didn't fit and says so; nothing is refused by the broker."""
    deployment.settings["kafka"]["compression"] = compression
    flow = deployment.start()
    deployment.ask(
        [
            {"query_id": f"q{n}", "text": "blue lantern", "limit": 200, "reply_to": topic_names("small")}
            for n in range(20)
        ]
    )
    for record in read(deployment, [topic_names("small")], 20):
        result = json.loads(record.value)
        assert (result["status"], result["degraded"][-1]) == ("partial", {"stage": "result", "reason": "too_large"})
        assert 0 < len(result["results"]) < result["total"]
    assert "topic refused a record for its size" not in flow.log.read_text()


def test_whatever_is_on_the_topic_ends_once(deployment: Deployment) -> None:
    """Of 1,000 damaged messages each has one result or one dead letter, callers hear, and the flow goes on."""
    flow = deployment.start()
    producer = kafka.KafkaProducer(bootstrap_servers=deployment.broker.bootstrap, acks="all", max_request_size=1 << 24)
    sent = {}
    for key, value, headers in mutations(1, 1000):
        # A client produces no record without key and value.
        future = producer.send(
            deployment.names["queries"], key=key if value is not None else key or b"", value=value, headers=headers
        )
        place = future.get(30)
        sent[place.topic, place.partition, place.offset] = (value, headers)
    producer.close()
    letters = 0
    dead = []
    places = []
    refused = {}
    topics = [deployment.names["results"], deployment.names["dead_letters"]]
    for record in read(deployment, topics, len(sent), 2 * len(sent)):
        if record.topic == deployment.names["results"]:
            value = json.loads(record.value)
            result = value.get("data", value)
            place = deployment.origins.place(result)
            if result["status"] == "invalid":
                assert place not in refused
                refused[place] = result["query_id"]
            else:
                places.append(place)
            continue
        letters += 1
        why = dict(record.headers)
        place = (why[names.TOPIC].decode(), int(why[names.PARTITION]), int(why[names.OFFSET]))
        places.append(place)
        value, headers = sent[place]
        dead.append(place)
        assert why[names.CLASS] != b"internal"
        assert (record.value, record.headers[: len(headers)]) == (value, headers)
    assert Counter(places) == Counter(sent.keys())
    assert letters > 100
    assert refused.keys() <= set(dead)
    for place in dead:
        value, headers = sent[place]
        if is_plain([name for name, _ in headers]):
            assert refused.get(place) == legible(value)
    assert flow.terminate() == 0
