"""What librdkafka's consumers are asked alike: partitions and records."""

from operator import methodcaller
from typing import Any, Final

from confluent_kafka import TIMESTAMP_NOT_AVAILABLE, Consumer

from operators.delivery.client import ConsumerRecord
from operators.delivery.client import TopicPartition as Partition
from operators.delivery.librdkafka.connection import asking, failure

_ALL: Final = 100_000

_raw_headers: Final = methodcaller("headers")
"""A header's name that isn't UTF-8 leaves `headers` with a result and an exception. A call from Python code that has
run often doesn't look for the latter, which would come up at some later line; this one always does."""


def partitions_of(consumer: Consumer, topic: str, timeout: float) -> set[int]:
    """The topic's partitions; none if it isn't known. Raises RetriableDelivery."""
    with asking(f"metadata of {topic}"):
        known = consumer.list_topics(topic, timeout=timeout).topics[topic]
    return set(known.partitions) if known.error is None else set()


def fetched(consumer: Consumer, timeout: float) -> list[Any]:
    """All messages that a consumer has; waits `timeout` seconds for the first. Raises KafkaException."""
    first = consumer.poll(timeout)
    # `consume` waits until it has as many as it may return: only what is there already comes by it.
    return [] if first is None else [first, *consumer.consume(_ALL, 0)]


def consumer_record(message: Any) -> ConsumerRecord:
    """The record in a message. Raises RetriableDelivery or FatalDelivery for a message that is an error."""
    if (error := message.error()) is not None:
        raise failure("poll", error)
    kind, milliseconds = message.timestamp()
    return ConsumerRecord(
        Partition(message.topic(), message.partition()),
        message.offset(),
        message.key(),
        message.value(),
        _headers(message),
        milliseconds / 1000 if kind != TIMESTAMP_NOT_AVAILABLE else -1.0,
    )


def _headers(message: Any) -> tuple[tuple[str, bytes], ...] | None:
    try:
        headers = _raw_headers(message)
    except (SystemError, UnicodeDecodeError):
        # A name that isn't UTF-8.
        return None
    return tuple((name, value or b"") for name, value in headers or ())
