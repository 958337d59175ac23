"""Everything in one process: what the embedded broker's clients take of the settings."""

import time
from pathlib import Path

import orjson
import pytest

from flows.process.embedded import embedded_settings, start_with_settings
from flows.process.replica import feedback_replica
from operators.delivery.client import ConsumerRecord, ProducerRecord
from schemas.settings import KafkaSettings
from tests.operators.experiments.joining import SECRET, TOKENS, impression


@pytest.mark.slow
def test_of_the_section_kafka_the_topics_alone_count(tmp_path: Path) -> None:
    """A client library, its options and a group that are meant for another broker change nothing."""
    own = {"client": "kafka-python", "options": {"api.version.auto.timeout.ms": 1}, "group_id": "theirs"}
    with start_with_settings(
        embedded_settings(tmp_path, {"kafka": {**own, "topics": {"queries": "asked"}}})
    ) as running:
        kafka = running.settings.kafka
        assert (kafka.client, kafka.options, kafka.group_id) == ("librdkafka", {}, KafkaSettings().group_id)
        assert kafka.topics.queries == "asked"
        assert running.kafka.name == "librdkafka"


@pytest.mark.slow
def test_the_last_windows_of_a_topic_close_by_the_clock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing comes behind the last feedback: its window closes all the same, and its messages are committed."""
    monkeypatch.setattr("operators.stages.feedback.IDLE", 0.1)
    monkeypatch.setenv("RANKSTREAM_CURSOR__SIGNING_SECRET", SECRET.decode())
    topics = {"feedback": "feedback", "preferences": "preferences"}
    settings = embedded_settings(tmp_path, {"kafka": {"topics": topics}, "feedback": {"window": 3600}})
    with start_with_settings(settings) as running:
        now = round(time.time() * 1000)
        token = TOKENS.write(impression(issued=now - 3_598_000))
        event = orjson.dumps({"token": token, "action": "click"})
        with running.running(feedback_replica):
            producer, tail = running.kafka.plain_producer(), running.kafka.tail("preferences")
            producer.send([ProducerRecord("feedback", b"q", event)] * 2)
            found: list[ConsumerRecord] = []
            while not found:
                found += tail.poll(1.0)
            found += tail.poll(1.0)
            producer.close()
            tail.close()
        [record] = found
        assert (record.key, orjson.loads(record.value or b"")["preferred"]) == (b"q", "a")
