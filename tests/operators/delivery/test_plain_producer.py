"""The commands' reliance on a plain producer, each client's, on a real broker."""

import random
from contextlib import closing

import pytest

from bench.kafka.broker import Broker
from operators.delivery.client import ConsumerRecord, KafkaClient, ProducerRecord, RecordRefused
from schemas.errors import RetriableDelivery
from schemas.settings import KafkaSettings
from tests.operators.delivery.members import NOW_MS, Make, results
from tests.operators.delivery.test_bounded_reader import read

TOO_LARGE = random.Random(0).randbytes(2_000_000)
"""Bytes that don't compress: the broker measures what is sent."""


def everything(client: KafkaClient, topic: str) -> list[ConsumerRecord]:
    """All records of a topic."""
    with closing(client.bounded_reader(topic)) as reader:
        ends = reader.ends()
        return read(reader, lambda: reader.positions() == ends)


def test_what_is_sent_is_there(make: Make, settings: KafkaSettings) -> None:
    """On return the broker has each record: key, value, headers, and a timestamp, given or of the time of sending."""
    client = make(settings)
    topic = settings.topics.queries
    headers = (("name", b"\x00\xff"), ("name", b""))
    with closing(client.plain_producer()) as producer:
        producer.send([ProducerRecord(topic, b"key", b"a", headers, NOW_MS), ProducerRecord(topic, None, b"b")])
        a, b = sorted(everything(client, topic), key=lambda record: record.value or b"")
    assert (a.key, a.value, a.headers, a.timestamp) == (b"key", b"a", headers, NOW_MS / 1000)
    assert (b.key, b.value, b.headers) == (None, b"b", ())
    assert b.timestamp >= NOW_MS / 1000


def test_many_records_are_one_call(make: Make, settings: KafkaSettings) -> None:
    """As many small records as a command may have on their way are taken at once, each once."""
    values = [b"%d" % number for number in range(120_000)]
    with closing(make(settings).plain_producer()) as producer:
        producer.send([ProducerRecord(settings.topics.results, None, value) for value in values])
    assert sorted(results(settings), key=str) == sorted(values, key=str)


def test_after_a_record_too_large_it_goes_on(make: Make, settings: KafkaSettings) -> None:
    """A record that its topic refuses is told apart from its neighbours, and later records are sent, each once."""
    topic = settings.topics.results
    with closing(make(settings).plain_producer()) as producer:
        producer.send([ProducerRecord(topic, b"1", b"before")])
        refused = ProducerRecord(topic, b"1", TOO_LARGE)
        for _ in range(2):
            with pytest.raises(RecordRefused) as raised:
                producer.send([refused])
            assert list(raised.value.records) == [refused]
            producer.send([ProducerRecord(topic, b"1", b"after")])
    assert sorted(results(settings), key=str) == [b"after", b"after", b"before"]


def test_a_batch_is_no_larger_than_any_topic_takes(make: Make, settings: KafkaSettings, broker: Broker) -> None:
    """A topic that takes little refuses no record for its neighbours: only the large one is named."""
    topic = f"{settings.topics.results}-small"
    broker.create_topic(topic, 2, {"max.message.bytes": "20000"})
    small = [ProducerRecord(topic, b"1", random.Random(seed).randbytes(1000)) for seed in range(200)]
    refused = ProducerRecord(topic, b"1", TOO_LARGE)
    with closing(make(settings).plain_producer()) as producer:
        producer.send(small)
        with pytest.raises(RecordRefused) as raised:
            producer.send([*small[:3], refused])
        assert list(raised.value.records) == [refused]


def test_a_topic_that_is_gone_is_named(make: Make, settings: KafkaSettings) -> None:
    """A record that can't be produced is an error with the topic's name, never silence."""
    client = make(settings.model_copy(update={"request_timeout": 2}))
    with (
        closing(client.plain_producer()) as producer,
        pytest.raises(RetriableDelivery, match="produce to misspelt: "),
    ):
        producer.send([ProducerRecord("misspelt", None, b"a")])


def test_nothing_is_nothing(make: Make, settings: KafkaSettings) -> None:
    """No records are sent at once."""
    with closing(make(settings).plain_producer()) as producer:
        producer.send([])
    assert results(settings) == []
