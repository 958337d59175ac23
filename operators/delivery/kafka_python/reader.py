"""A topic read without joining a group, by kafka-python.

- It counts the marks of transactions as read when it passes over them, but a poll that finds nothing else goes on
  waiting for a record: a caller that waits for a position polls for milliseconds.
- A broker answers a connection's requests one after the other, and a fetch waits there for records: one that asks for
  ends has a connection of its own.
- A consumer that finds no broker when it is made leaves its thread and its sockets behind: they are closed here.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import kafka
from kafka.errors import KafkaError
from kafka.net.compat import KafkaNetClient

from operators.delivery.client import METADATA_AGE, TAIL_METADATA_AGE, ConsumerRecord, missing
from operators.delivery.kafka_python.connection import (
    CALL_TIMEOUT,
    connection,
    consumer_options,
    naming_failures,
    unmade,
)
from operators.delivery.kafka_python.records import ALL, FETCH_BYTES, consumer_records
from schemas.errors import DeliveryError, RetriableDelivery
from schemas.settings import KafkaSettings


class KafkaPythonReader:
    """One consumer that reads, and one that asks for offsets."""

    def __init__(
        self,
        settings: KafkaSettings,
        topic: str,
        isolation: str,
        call_timeout: float,
        *,
        from_end: bool,
    ) -> None:
        """Begin to read; `call_timeout` is in seconds. Raises RetriableDelivery, also if the topic isn't known."""
        self._topic = topic
        self._call_timeout = call_timeout
        self._positions: dict[int, int] = {}
        timeout = int(call_timeout * 1000)
        own = {"isolation_level": isolation, "request_timeout_ms": timeout, "bootstrap_timeout_ms": timeout}
        self._reading = _consumer(settings, METADATA_AGE, own)
        try:
            self._metadata = _consumer(settings, TAIL_METADATA_AGE, {"group_id": settings.group_id, **own})
        except DeliveryError:
            _close(self._reading)
            raise
        try:
            self._take_in_added(call_timeout, from_end=from_end)
        except DeliveryError as error:
            self.close()
            raise type(error)(f"{settings.bootstrap_servers}: {error}") from error

    def poll(self, timeout: float) -> list[ConsumerRecord]:
        with naming_failures(f"poll of {self._topic}"):
            fetched = self._reading.poll(timeout_ms=int(timeout * 1000), max_records=ALL)
            for number in self._positions:
                position = self._reading.position(self._partition(number), timeout_ms=0)
                # There is none while a position that the log has no more is put right.
                if position is not None:
                    self._positions[number] = position
        return consumer_records(fetched)

    def positions(self) -> dict[int, int]:
        return dict(self._positions)

    def ends(self, timeout: float | None = None) -> dict[int, int]:
        timeout = self._call_timeout if timeout is None else timeout
        self._take_in_added(timeout)
        with _reading_offsets(f"end offsets of {self._topic}"):
            ends = self._metadata.end_offsets(self._partitions(), timeout_ms=timeout * 1000)
        return {each.partition: end for each, end in ends.items()}

    def committed(self) -> dict[int, int]:
        with _reading_offsets(f"committed offsets of {self._topic}"):
            found = self._metadata.beginning_offsets(self._partitions())
            for partition in found:
                if (offset := self._metadata.committed(partition)) is not None:
                    found[partition] = offset
        return {each.partition: offset for each, offset in found.items()}

    def seek(self, partition: int, offset: int) -> None:
        self._reading.seek(self._partition(partition), offset)
        self._positions[partition] = offset

    def close(self) -> None:
        _close(self._reading)
        _close(self._metadata)

    def _take_in_added(self, timeout: float, *, from_end: bool = False) -> None:
        with _reading_offsets(f"partitions of {self._topic}"):
            # From its metadata, which are never old.
            known = self._metadata.partitions_for_topic(self._topic)
            if not known:
                raise missing(self._topic)
            if added := [self._partition(number) for number in known - self._positions.keys()]:
                offsets = self._metadata.end_offsets if from_end else self._metadata.beginning_offsets
                starts = offsets(added, timeout_ms=timeout * 1000)
                self._positions |= {each.partition: start for each, start in starts.items()}
                # It never polls: only what is assigned stays in its metadata.
                self._metadata.assign(self._partitions())
                self._reading.assign(self._partitions())
                for number, position in self._positions.items():
                    self._reading.seek(self._partition(number), position)

    def _partition(self, number: int) -> Any:
        return kafka.TopicPartition(self._topic, number)

    def _partitions(self) -> list[Any]:
        return [self._partition(number) for number in self._positions]


@contextmanager
def _reading_offsets(what: str) -> Iterator[None]:
    with naming_failures(what):
        try:
            yield
        except KeyError as error:
            # A partition was left out of the answer.
            raise RetriableDelivery(f"{what}: {type(error).__name__}") from error


def _consumer(settings: KafkaSettings, metadata_age: float, own: dict[str, Any]) -> Any:
    connected: list[Any] = []

    def client(**options: Any) -> Any:
        connected.append(KafkaNetClient(**options))
        return connected[-1]

    try:
        return kafka.KafkaConsumer(
            **{
                "enable_auto_commit": False,
                "allow_auto_create_topics": False,
                "auto_offset_reset": "earliest",
                "fetch_max_bytes": FETCH_BYTES,
                "metadata_max_age_ms": int(metadata_age * 1000),
                "metrics_enabled": False,
                "kafka_client": client,
                **connection(settings),
                **consumer_options(settings),
                **own,
            }
        )
    except KafkaError as error:
        for abandoned in connected:
            abandoned.close()
        raise RetriableDelivery(unmade(settings, error)) from error


def _close(consumer: Any) -> None:
    consumer.close(autocommit=False, timeout_ms=CALL_TIMEOUT * 1000)
