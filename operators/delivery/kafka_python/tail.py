"""All of a topic, by kafka-python.

- It counts the marks of transactions as read when it passes over them, but a poll that finds nothing else goes on
  waiting for a record: a caller who waits for a position polls for milliseconds.
- A broker answers a connection's requests one after the other, and a fetch waits there for records: whoever asks for
  ends has a connection of its own.
- A consumer that finds no broker when it is made leaves its thread and its sockets behind: they are closed here.
"""

from typing import Any, Final

import kafka
from kafka.errors import KafkaError
from kafka.net.compat import KafkaNetClient

from operators.delivery.client import METADATA_AGE, TAIL_METADATA_AGE, ConsumerRecord, TopicPartition
from operators.delivery.kafka_python.connection import PATIENCE, Dialect, connection
from schemas.errors import RetriableDelivery
from schemas.settings import KafkaSettings

_ALL: Final = 1_000_000
_FETCH_BYTES: Final = 4 * 1024 * 1024


class KafkaPythonTail:
    """One consumer that reads, and one that asks for offsets."""

    def __init__(self, settings: KafkaSettings, topic: str, dialect: Dialect) -> None:
        """Begin to read. Raises RetriableDelivery, also if the topic isn't known."""
        self._topic = topic
        self._positions: dict[int, int] = {}
        self._reading = _consumer(settings, dialect, METADATA_AGE)
        try:
            self._asking = _consumer(settings, dialect, TAIL_METADATA_AGE)
        except RetriableDelivery:
            _close(self._reading)
            raise
        try:
            self._take_in_added(PATIENCE)
        except RetriableDelivery:
            self.close()
            raise

    def poll(self, timeout: float) -> list[ConsumerRecord]:
        """Records that have been fetched. Raises RetriableDelivery."""
        try:
            fetched = self._reading.poll(timeout_ms=int(timeout * 1000), max_records=_ALL)
            for number in self._positions:
                position = self._reading.position(self._place(number), timeout_ms=0)
                # There is none while a position that the log has no more is put right.
                if position is not None:
                    self._positions[number] = position
        except KafkaError as error:
            raise RetriableDelivery(f"poll: {type(error).__name__}") from error
        return [
            ConsumerRecord(TopicPartition(*place), record.offset, record.key, record.value, (), record.timestamp / 1000)
            for place, records in fetched.items()
            for record in records
        ]

    def positions(self) -> dict[int, int]:
        """By partition: everything below was handed out by `poll`."""
        return dict(self._positions)

    def ends(self, timeout: float) -> dict[int, int]:
        """By partition: the offset after the last record, now. Raises RetriableDelivery."""
        self._take_in_added(timeout)
        try:
            ends = self._asking.end_offsets(self._places(), timeout_ms=timeout * 1000)
        except (KafkaError, KeyError) as error:
            raise RetriableDelivery(f"end offsets: {type(error).__name__}") from error
        return {place.partition: end for place, end in ends.items()}

    def close(self) -> None:
        """Release connections."""
        _close(self._reading)
        _close(self._asking)

    def _take_in_added(self, timeout: float) -> None:
        try:
            # From its metadata, which are never old.
            known = self._asking.partitions_for_topic(self._topic)
            if not known:
                raise RetriableDelivery(f"topic {self._topic} doesn't exist")
            if added := [self._place(number) for number in known - self._positions.keys()]:
                starts = self._asking.beginning_offsets(added, timeout_ms=timeout * 1000)
                self._positions |= {place.partition: start for place, start in starts.items()}
                # It never polls: only what is assigned stays in its metadata.
                self._asking.assign(self._places())
                self._reading.assign(self._places())
                for number, position in self._positions.items():
                    self._reading.seek(self._place(number), position)
        except (KafkaError, KeyError) as error:
            raise RetriableDelivery(f"partitions of {self._topic}: {type(error).__name__}") from error

    def _place(self, number: int) -> Any:
        return kafka.TopicPartition(self._topic, number)

    def _places(self) -> list[Any]:
        return [self._place(number) for number in self._positions]


def _consumer(settings: KafkaSettings, dialect: Dialect, metadata_age: float) -> Any:
    connected: list[Any] = []

    def client(**options: Any) -> Any:
        connected.append(KafkaNetClient(**options))
        return connected[-1]

    try:
        return kafka.KafkaConsumer(
            **{
                "enable_auto_commit": False,
                "auto_offset_reset": "earliest",
                "isolation_level": "read_uncommitted",
                "fetch_max_bytes": _FETCH_BYTES,
                "metadata_max_age_ms": int(metadata_age * 1000),
                "metrics_enabled": False,
                "kafka_client": client,
                "bootstrap_timeout_ms": int(PATIENCE * 1000),
                **connection(settings, dialect),
                # Nothing here takes long: a connection that doesn't answer is given up early.
                "request_timeout_ms": int(min(settings.request_timeout, PATIENCE) * 1000),
                **dialect.consumer,
            }
        )
    except KafkaError as error:
        for abandoned in connected:
            abandoned.close()
        raise RetriableDelivery(f"{settings.bootstrap_servers}: {type(error).__name__}") from error


def _close(consumer: Any) -> None:
    consumer.close(autocommit=False, timeout_ms=PATIENCE * 1000)
