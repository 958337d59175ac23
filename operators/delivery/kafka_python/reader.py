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
    Dialect,
    asking,
    connection,
    consumer_options,
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
        dialect: Dialect,
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
        self._reading = _consumer(settings, dialect, METADATA_AGE, own)
        try:
            self._asking = _consumer(settings, dialect, TAIL_METADATA_AGE, {"group_id": settings.group_id, **own})
        except DeliveryError:
            _close(self._reading)
            raise
        try:
            self._take_in_added(call_timeout, from_end=from_end)
        except DeliveryError as error:
            self.close()
            raise type(error)(f"{settings.bootstrap_servers}: {error}") from error

    def poll(self, timeout: float) -> list[ConsumerRecord]:
        with asking(f"poll of {self._topic}"):
            fetched = self._reading.poll(timeout_ms=int(timeout * 1000), max_records=ALL)
            for number in self._positions:
                position = self._reading.position(self._place(number), timeout_ms=0)
                # There is none while a position that the log has no more is put right.
                if position is not None:
                    self._positions[number] = position
        return consumer_records(fetched)

    def positions(self) -> dict[int, int]:
        return dict(self._positions)

    def ends(self, timeout: float | None = None) -> dict[int, int]:
        timeout = self._call_timeout if timeout is None else timeout
        self._take_in_added(timeout)
        with _asking_offsets(f"end offsets of {self._topic}"):
            ends = self._asking.end_offsets(self._places(), timeout_ms=timeout * 1000)
        return {place.partition: end for place, end in ends.items()}

    def committed(self) -> dict[int, int]:
        with _asking_offsets(f"committed offsets of {self._topic}"):
            found = self._asking.beginning_offsets(self._places())
            for place in found:
                if (offset := self._asking.committed(place)) is not None:
                    found[place] = offset
        return {place.partition: offset for place, offset in found.items()}

    def seek(self, partition: int, offset: int) -> None:
        self._reading.seek(self._place(partition), offset)
        self._positions[partition] = offset

    def close(self) -> None:
        _close(self._reading)
        _close(self._asking)

    def _take_in_added(self, timeout: float, *, from_end: bool = False) -> None:
        with _asking_offsets(f"partitions of {self._topic}"):
            # From its metadata, which are never old.
            known = self._asking.partitions_for_topic(self._topic)
            if not known:
                raise missing(self._topic)
            if added := [self._place(number) for number in known - self._positions.keys()]:
                offsets = self._asking.end_offsets if from_end else self._asking.beginning_offsets
                starts = offsets(added, timeout_ms=timeout * 1000)
                self._positions |= {place.partition: start for place, start in starts.items()}
                # It never polls: only what is assigned stays in its metadata.
                self._asking.assign(self._places())
                self._reading.assign(self._places())
                for number, position in self._positions.items():
                    self._reading.seek(self._place(number), position)

    def _place(self, number: int) -> Any:
        return kafka.TopicPartition(self._topic, number)

    def _places(self) -> list[Any]:
        return [self._place(number) for number in self._positions]


@contextmanager
def _asking_offsets(what: str) -> Iterator[None]:
    with asking(what):
        try:
            yield
        except KeyError as error:
            # A partition was left out of the answer.
            raise RetriableDelivery(f"{what}: {type(error).__name__}") from error


def _consumer(settings: KafkaSettings, dialect: Dialect, metadata_age: float, own: dict[str, Any]) -> Any:
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
                **connection(settings, dialect),
                **consumer_options(settings),
                **own,
                **dialect.consumer,
            }
        )
    except KafkaError as error:
        for abandoned in connected:
            abandoned.close()
        raise RetriableDelivery(unmade(settings, error)) from error


def _close(consumer: Any) -> None:
    consumer.close(autocommit=False, timeout_ms=CALL_TIMEOUT * 1000)
