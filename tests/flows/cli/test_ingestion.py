"""Ingestion into a topic of a real broker, where a member of the group in place of the indexing flow commits."""

import random
from collections.abc import Iterator
from contextlib import closing, contextmanager

import kafka
import pytest

from flows.assembly.kafka_client import kafka_client
from flows.cli.ingestion import ingest
from schemas.errors import FatalDelivery
from schemas.settings import KafkaSettings
from tests.repeated import repeated

WITHIN = 60.0


@contextmanager
def applying(settings: KafkaSettings) -> Iterator[list[bytes]]:
    """Read the documents as the group, and commit; their keys."""
    keys: list[bytes] = []
    consumer = kafka.KafkaConsumer(
        bootstrap_servers=settings.bootstrap_servers,
        group_id=settings.group_id,
        auto_offset_reset="earliest",
        enable_auto_commit=False,
    )
    consumer.assign([kafka.TopicPartition(settings.topics.documents, number) for number in range(2)])

    def apply() -> None:
        polled = consumer.poll(timeout_ms=100)
        keys.extend(record.key for records in polled.values() for record in records)
        if polled:
            consumer.commit()

    with closing(consumer), repeated(apply):
        yield keys


def test_it_returns_when_the_group_has_committed_all(kafka_settings: KafkaSettings) -> None:
    """Every document is in the topic once, keyed by its id, and applied on return; the progress ends with that."""
    told: list[tuple[int, int]] = []
    documents = [{"id": f"d{number}", "text": random.Random(number).randbytes(500).hex()} for number in range(12_000)]
    topic = kafka_settings.topics.documents
    with applying(kafka_settings) as keys:
        for again in (1, 2):
            client = kafka_client(kafka_settings)
            count = ingest(client, topic, documents, lambda *moved: told.append(moved), WITHIN)
            assert count == len(documents)
            assert sorted(keys) == sorted(document["id"].encode() for document in documents * again)
    assert told[-1] == (len(documents), len(documents))
    # They are more than may be on their way at a time.
    assert told[0][1] < len(documents)


def test_a_group_that_does_not_move_is_said(kafka_settings: KafkaSettings) -> None:
    """Without the indexing flow it ends, and says what may be missing."""
    with pytest.raises(FatalDelivery, match="no document was applied for 1 s: is the indexing flow running"):
        ingest(kafka_client(kafka_settings), kafka_settings.topics.documents, [{"id": "a"}], lambda *_: None, 1)


def test_a_document_that_the_topic_does_not_take_is_said(kafka_settings: KafkaSettings) -> None:
    """It ends the ingestion, and isn't counted as produced."""
    large = {"id": "large", "text": random.Random(0).randbytes(1_500_000).hex()}
    with pytest.raises(FatalDelivery, match="larger than the topic takes"):
        ingest(kafka_client(kafka_settings), kafka_settings.topics.documents, [large], lambda *_: None, WITHIN)
