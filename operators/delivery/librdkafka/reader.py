"""A topic read without joining a group, by librdkafka.

- It counts the marks of transactions as read when it passes over them: a position gets to the end by itself.
- A broker answers a connection's requests one after the other, and a fetch waits there for records: one that asks for
  ends has a connection of its own.
- It fetches as soon as it is assigned something: that happens at a poll, for a reader that only asks never polls.
- A broker that has just become a partition's leader, as after the topic was made, isn't waited for: it is asked again.
- A consumer needs a group's name; neither of these joins it.
"""

import math
import time
from collections.abc import Iterable, Mapping
from typing import Any, Final

from confluent_kafka import OFFSET_BEGINNING, OFFSET_END, KafkaError, KafkaException, TopicPartition

from operators.delivery.client import TAIL_METADATA_AGE, ConsumerRecord, TopicReader
from operators.delivery.librdkafka.connection import (
    consumer_record,
    error_of,
    failure,
    fetch,
    log,
    naming_failures,
    open_consumer,
    partitions_of,
)
from schemas.errors import RetriableDelivery
from schemas.settings import KafkaSettings

_LEADERLESS: Final = frozenset({KafkaError.NOT_LEADER_FOR_PARTITION, KafkaError.LEADER_NOT_AVAILABLE})
_RETRY: Final = 0.05


class LibrdkafkaReader(TopicReader):
    """One consumer that reads, and one that asks for offsets."""

    def __init__(
        self, settings: KafkaSettings, topic: str, isolation: str, call_timeout: float, *, from_end: bool
    ) -> None:
        own = {"isolation.level": isolation, "socket.timeout.ms": int(call_timeout * 1000)}
        self._reading = open_consumer(settings, own)
        self._metadata = open_consumer(settings, own)
        self._unassigned: dict[int, int] = {}
        self._looked_at = -math.inf
        super().__init__(settings, topic, call_timeout, from_end=from_end)

    def poll(self, timeout: float) -> list[ConsumerRecord]:
        with naming_failures(f"poll of {self._topic}"):
            if self._unassigned:
                starts = [TopicPartition(self._topic, *start) for start in self._unassigned.items()]
                self._reading.incremental_assign(starts)
                self._unassigned = {}
            messages = fetch(self._reading, timeout)
            positions = self._reading.position(self._all())
        for position in positions:
            # There is none before the first record.
            if position.offset >= 0:
                self._positions[position.partition] = position.offset
        return [consumer_record(message) for message in messages if _sound(message)]

    def seek(self, partition: int, offset: int) -> None:
        if partition not in self._unassigned:
            with naming_failures(f"seek in {self._topic}"):
                self._reading.incremental_unassign([TopicPartition(self._topic, partition)])
        self._positions[partition] = self._unassigned[partition] = offset

    def close(self) -> None:
        self._reading.close()
        self._metadata.close()

    def _partitions(self, timeout: float) -> set[int]:
        if time.monotonic() - self._looked_at <= TAIL_METADATA_AGE:
            return {*self._positions}
        known = partitions_of(self._metadata, self._topic, timeout)
        if known == self._positions.keys():
            self._looked_at = time.monotonic()
        return known

    def _offsets(self, partitions: Iterable[int], timeout: float, *, from_end: bool) -> dict[int, int]:
        what, limit = f"offsets of {self._topic}", time.monotonic() + timeout
        # As timestamps, Kafka's protocol has the same two numbers for the beginning and the end.
        asked = [TopicPartition(self._topic, each, OFFSET_END if from_end else OFFSET_BEGINNING) for each in partitions]
        while True:
            try:
                found = self._metadata.offsets_for_times(asked, timeout)
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

    def _committed(self) -> dict[int, int]:
        what = f"committed offsets of {self._topic}"
        with naming_failures(what):
            found = self._metadata.committed(self._all(), self._call_timeout)
        for each in found:
            if each.error is not None:
                raise failure(what, each.error)
        return {each.partition: each.offset for each in found if each.offset >= 0}

    def _read_from(self, starts: Mapping[int, int]) -> None:
        self._unassigned |= starts

    def _all(self) -> list[TopicPartition]:
        return [TopicPartition(self._topic, number) for number in self._positions]


def _sound(message: Any) -> bool:
    # Not raised: the other records would be lost. Where it matters, the position stands still.
    if (error := message.error()) is not None:
        log.warning("poll: %s", error.name())
    return error is None
