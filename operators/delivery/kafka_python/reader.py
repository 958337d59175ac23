"""A topic read without joining a group, by kafka-python.

- It counts the marks of transactions as read when it passes over them, but a poll that finds nothing else goes on
  waiting for a record: a caller that waits for a position polls for milliseconds.
- A broker answers a connection's requests one after the other, and a fetch waits there for records: one that asks for
  ends has a connection of its own.
"""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import kafka

from operators.delivery.client import TAIL_METADATA_AGE, ConsumerRecord, TopicReader
from operators.delivery.kafka_python.connection import close_consumer, naming_failures, open_consumer
from operators.delivery.kafka_python.records import ALL, consumer_records
from schemas.errors import DeliveryError, RetriableDelivery
from schemas.settings import KafkaSettings


class KafkaPythonReader(TopicReader):
    """One consumer that reads, and one that asks for offsets."""

    def __init__(
        self, settings: KafkaSettings, topic: str, isolation: str, call_timeout: float, *, from_end: bool
    ) -> None:
        timeout = int(call_timeout * 1000)
        own = {"isolation_level": isolation, "request_timeout_ms": timeout, "bootstrap_timeout_ms": timeout}
        self._reading = open_consumer(settings, own)
        try:
            self._metadata = open_consumer(settings, {"group_id": settings.group_id, **own}, TAIL_METADATA_AGE)
        except DeliveryError:
            close_consumer(self._reading)
            raise
        super().__init__(settings, topic, call_timeout, from_end=from_end)

    def poll(self, timeout: float) -> list[ConsumerRecord]:
        with naming_failures(f"poll of {self._topic}"):
            fetched = self._reading.poll(timeout_ms=int(timeout * 1000), max_records=ALL)
            for number in self._positions:
                position = self._reading.position(self._partition(number), timeout_ms=0)
                # There is none while a position that the log has no more is put right.
                if position is not None:
                    self._positions[number] = position
        return consumer_records(fetched)

    def seek(self, partition: int, offset: int) -> None:
        self._reading.seek(self._partition(partition), offset)
        self._positions[partition] = offset

    def close(self) -> None:
        close_consumer(self._reading)
        close_consumer(self._metadata)

    def _partitions(self, timeout: float) -> set[int]:  # noqa: ARG002  its metadata are never old
        with _reading_offsets(f"partitions of {self._topic}"):
            known: set[int] = self._metadata.partitions_for_topic(self._topic) or set()
        return known

    def _offsets(self, partitions: Iterable[int], timeout: float, *, from_end: bool) -> dict[int, int]:
        asked = [self._partition(number) for number in partitions]
        with _reading_offsets(f"end offsets of {self._topic}" if from_end else f"partitions of {self._topic}"):
            ask = self._metadata.end_offsets if from_end else self._metadata.beginning_offsets
            return {each.partition: offset for each, offset in ask(asked, timeout_ms=timeout * 1000).items()}

    def _committed(self) -> dict[int, int]:
        with _reading_offsets(f"committed offsets of {self._topic}"):
            found = {number: self._metadata.committed(self._partition(number)) for number in self._positions}
        return {number: offset for number, offset in found.items() if offset is not None}

    def _read_from(self, starts: Mapping[int, int]) -> None:  # noqa: ARG002  assigning forgets the other positions
        partitions = [self._partition(number) for number in self._positions]
        # It never polls: only what is assigned stays in its metadata.
        self._metadata.assign(partitions)
        self._reading.assign(partitions)
        for number, position in self._positions.items():
            self._reading.seek(self._partition(number), position)

    def _partition(self, number: int) -> Any:
        return kafka.TopicPartition(self._topic, number)


@contextmanager
def _reading_offsets(what: str) -> Iterator[None]:
    with naming_failures(what):
        try:
            yield
        except KeyError as error:
            # A partition was left out of the answer.
            raise RetriableDelivery(f"{what}: {type(error).__name__}") from error
