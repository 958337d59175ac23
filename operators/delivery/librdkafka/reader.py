"""A topic read without joining a group, by librdkafka.

- It counts the marks of transactions as read when it passes over them: a position gets to the end by itself.
- A broker answers a connection's requests one after the other, and a fetch waits there for records: one that asks for
  ends has a connection of its own.
- It fetches as soon as it is assigned something: that happens at a poll, for a reader that only asks never polls.
- A broker that has just become a partition's leader, as after the topic was made, isn't waited for: it is asked again.
- A consumer needs a group's name; neither of these joins it.
"""

import time
from collections.abc import Iterable
from typing import Any, Final

from confluent_kafka import OFFSET_BEGINNING, OFFSET_END, Consumer, KafkaError, KafkaException, TopicPartition

from operators.delivery.client import TAIL_METADATA_AGE, ConsumerRecord, missing
from operators.delivery.librdkafka.connection import (
    connection,
    consumer_options,
    consumer_record,
    error_of,
    failure,
    fetch,
    log,
    naming_failures,
    partitions_of,
)
from schemas.errors import DeliveryError, RetriableDelivery
from schemas.settings import KafkaSettings

_FETCHED_KIB: Final = 4096
_LEADERLESS: Final = frozenset({KafkaError.NOT_LEADER_FOR_PARTITION, KafkaError.LEADER_NOT_AVAILABLE})
_RETRY: Final = 0.05


class LibrdkafkaReader:
    """One consumer that reads, and one that asks for offsets."""

    def __init__(
        self, settings: KafkaSettings, topic: str, isolation: str, call_timeout: float, *, from_end: bool
    ) -> None:
        """Begin to read; `call_timeout` is in seconds. Raises RetriableDelivery, also if the topic isn't known."""
        self._topic = topic
        self._call_timeout = call_timeout
        self._reading = _consumer(settings, isolation, call_timeout)
        self._metadata = _consumer(settings, isolation, call_timeout)
        self._positions: dict[int, int] = {}
        self._unassigned: dict[int, int] = {}
        try:
            self._take_in_added(call_timeout, from_end=from_end)
        except DeliveryError as error:
            self.close()
            raise type(error)(f"{settings.bootstrap_servers}: {error}") from error

    def poll(self, timeout: float) -> list[ConsumerRecord]:
        with naming_failures(f"poll of {self._topic}"):
            if self._unassigned:
                starts = [TopicPartition(self._topic, *start) for start in self._unassigned.items()]
                self._reading.incremental_assign(starts)
                self._unassigned = {}
            messages = fetch(self._reading, timeout)
            positions = self._reading.position(self._partitions(self._positions))
        for position in positions:
            # There is none before the first record.
            if position.offset >= 0:
                self._positions[position.partition] = position.offset
        return [consumer_record(message) for message in messages if _sound(message)]

    def positions(self) -> dict[int, int]:
        return dict(self._positions)

    def ends(self, timeout: float | None = None) -> dict[int, int]:
        timeout = self._call_timeout if timeout is None else timeout
        if time.monotonic() - self._looked_at > TAIL_METADATA_AGE:
            self._take_in_added(timeout)
        return self._offsets(OFFSET_END, timeout, self._positions)

    def committed(self) -> dict[int, int]:
        offsets = self._offsets(OFFSET_BEGINNING, self._call_timeout, self._positions)
        with naming_failures(f"committed offsets of {self._topic}"):
            found = self._metadata.committed(self._partitions(self._positions), self._call_timeout)
        for each in found:
            if each.error is not None:
                raise failure(f"committed offsets of {self._topic}", each.error)
            if each.offset >= 0:
                offsets[each.partition] = each.offset
        return offsets

    def seek(self, partition: int, offset: int) -> None:
        if partition not in self._unassigned:
            with naming_failures(f"seek in {self._topic}"):
                self._reading.incremental_unassign([TopicPartition(self._topic, partition)])
        self._positions[partition] = self._unassigned[partition] = offset

    def close(self) -> None:
        self._reading.close()
        self._metadata.close()

    def _take_in_added(self, timeout: float, *, from_end: bool = False) -> None:
        known = partitions_of(self._metadata, self._topic, timeout)
        if not known:
            raise missing(self._topic)
        if added := known - self._positions.keys():
            starts = self._offsets(OFFSET_END if from_end else OFFSET_BEGINNING, timeout, added)
            self._positions |= starts
            self._unassigned |= starts
        self._looked_at = time.monotonic()

    def _offsets(self, which: int, timeout: float, numbers: Iterable[int]) -> dict[int, int]:
        what, limit = f"offsets of {self._topic}", time.monotonic() + timeout
        while True:
            # As timestamps, Kafka's protocol has the same two numbers for the beginning and the end.
            partitions = [TopicPartition(self._topic, number, which) for number in numbers]
            try:
                found = self._metadata.offsets_for_times(partitions, timeout)
                errors = [each.error for each in found if each.error is not None]
            except KafkaException as error:
                errors = [error_of(error)]
            if not errors:
                break
            if errors[0].code() not in _LEADERLESS or time.monotonic() > limit:
                raise failure(what, errors[0])
            time.sleep(_RETRY)
        if any(each.offset < 0 for each in found):
            raise RetriableDelivery(f"{what}: no answer")
        return {each.partition: each.offset for each in found}

    def _partitions(self, numbers: Iterable[int]) -> list[TopicPartition]:
        return [TopicPartition(self._topic, number) for number in numbers]


def _consumer(settings: KafkaSettings, isolation: str, call_timeout: float) -> Consumer:
    return Consumer(
        {
            **connection(settings),
            "group.id": settings.group_id,
            "enable.auto.commit": False,
            "enable.auto.offset.store": False,
            "auto.offset.reset": "earliest",
            "isolation.level": isolation,
            "queued.max.messages.kbytes": _FETCHED_KIB,
            "fetch.queue.backoff.ms": 5,
            "socket.timeout.ms": int(call_timeout * 1000),
            **consumer_options(settings),
        },
        logger=log,
    )


def _sound(message: Any) -> bool:
    # Not raised: the other records would be lost. Where it matters, the position stands still.
    if (error := message.error()) is not None:
        log.warning("poll: %s", error.name())
    return error is None
