"""All of a topic, by librdkafka.

- It counts the marks of transactions as read when it passes over them: a position gets to the end by itself.
- A broker answers a connection's requests one after the other, and a fetch waits there for records: whoever asks for
  ends has a connection of its own.
- A consumer needs a group's name; neither of these joins it.
"""

import time
from typing import Any, Final

from confluent_kafka import OFFSET_BEGINNING, OFFSET_END, Consumer, KafkaException, TopicPartition

from operators.delivery.client import TAIL_METADATA_AGE, ConsumerRecord
from operators.delivery.client import TopicPartition as Partition
from operators.delivery.librdkafka.connection import PATIENCE, connection, error_of, log
from schemas.errors import RetriableDelivery
from schemas.settings import KafkaSettings

_ALL: Final = 100_000
_FETCHED_KIB: Final = 4096


class LibrdkafkaTail:
    """One consumer that reads, and one that asks for offsets."""

    def __init__(self, settings: KafkaSettings, topic: str) -> None:
        """Begin to read. Raises RetriableDelivery, also if the topic isn't known."""
        self._topic = topic
        self._reading = _consumer(settings)
        self._asking = _consumer(settings)
        self._positions: dict[int, int] = {}
        try:
            self._take_in_added(PATIENCE)
        except RetriableDelivery:
            self.close()
            raise

    def poll(self, timeout: float) -> list[ConsumerRecord]:
        """Records that have been fetched. Raises RetriableDelivery."""
        try:
            first = self._reading.poll(timeout)
            # `consume` waits until it has as many as it may return: only what is there already comes by it.
            messages = [] if first is None else [first, *self._reading.consume(_ALL, 0)]
            positions = self._reading.position(self._places(*self._positions))
        except KafkaException as error:
            raise RetriableDelivery(f"poll: {error_of(error).name()}") from error
        for position in positions:
            # There is none before the first record.
            if position.offset >= 0:
                self._positions[position.partition] = position.offset
        return [_record(message) for message in messages if _sound(message)]

    def positions(self) -> dict[int, int]:
        """By partition: everything below was handed out by `poll`."""
        return dict(self._positions)

    def ends(self, timeout: float) -> dict[int, int]:
        """By partition: the offset after the last record, now. Raises RetriableDelivery."""
        if time.monotonic() - self._looked_at > TAIL_METADATA_AGE:
            self._take_in_added(timeout)
        return self._offsets(OFFSET_END, timeout, *self._positions)

    def close(self) -> None:
        """Release connections."""
        self._reading.close()
        self._asking.close()

    def _take_in_added(self, timeout: float) -> None:
        try:
            known = self._asking.list_topics(self._topic, timeout=timeout).topics[self._topic]
        except KafkaException as error:
            raise RetriableDelivery(f"metadata of {self._topic}: {error_of(error).name()}") from error
        if known.error is not None or not known.partitions:
            raise RetriableDelivery(f"topic {self._topic} doesn't exist")
        if added := known.partitions.keys() - self._positions.keys():
            starts = self._offsets(OFFSET_BEGINNING, timeout, *added)
            places = [TopicPartition(self._topic, number, offset) for number, offset in starts.items()]
            try:
                self._reading.incremental_assign(places)
            except KafkaException as error:
                raise RetriableDelivery(f"assign: {error_of(error).name()}") from error
            self._positions |= starts
        self._looked_at = time.monotonic()

    def _offsets(self, which: int, timeout: float, *numbers: int) -> dict[int, int]:
        # As timestamps, Kafka's protocol has the same two numbers for the beginning and the end.
        places = [TopicPartition(self._topic, number, which) for number in numbers]
        try:
            found = self._asking.offsets_for_times(places, timeout)
        except KafkaException as error:
            raise RetriableDelivery(f"offsets: {error_of(error).name()}") from error
        for place in found:
            if place.error is not None:
                raise RetriableDelivery(f"offsets: {place.error.name()}")
            if place.offset < 0:
                raise RetriableDelivery("offsets: no answer")
        return {place.partition: place.offset for place in found}

    def _places(self, *numbers: int) -> list[TopicPartition]:
        return [TopicPartition(self._topic, number) for number in numbers]


def _consumer(settings: KafkaSettings) -> Consumer:
    return Consumer(
        {
            **connection(settings),
            "group.id": settings.group_id,
            "enable.auto.commit": False,
            "enable.auto.offset.store": False,
            "auto.offset.reset": "earliest",
            "isolation.level": "read_uncommitted",
            "queued.max.messages.kbytes": _FETCHED_KIB,
            "fetch.queue.backoff.ms": 5,
            # Nothing here takes long: a connection that doesn't answer is given up early.
            "socket.timeout.ms": int(min(settings.request_timeout, PATIENCE) * 1000),
        },
        logger=log,
    )


def _sound(message: Any) -> bool:
    # Not raised: the records beside it would be lost. Where it matters, the position stands still.
    if (error := message.error()) is not None:
        log.warning("poll: %s", error.name())
    return error is None


def _record(message: Any) -> ConsumerRecord:
    place = Partition(message.topic(), message.partition())
    return ConsumerRecord(place, message.offset(), message.key(), message.value(), (), message.timestamp()[1] / 1000)
