"""The dead-letter topic, read once: from its beginning to the end that it has at the start, and in no group.

So whoever reads it comes to an end, also when its own doing adds to the topic, and disturbs nobody.
"""

from collections.abc import Callable, Iterator, Mapping
from types import TracebackType
from typing import Any, Final, Self

import kafka

from operators.delivery import topics
from operators.delivery.kafka_python import KAFKA, connection, naming
from operators.delivery.replay import Letter
from schemas.settings import KafkaSettings

Moved = Callable[[int, int], None]
"""Told (read, all) offsets from time to time."""

_POLL_MS: Final = 200
_FETCH_BYTES: Final = 4 * 1024 * 1024


class DeadLetters:
    """The dead-letter topic as it is now. Use as a context manager."""

    def __init__(self, settings: KafkaSettings, moved: Moved) -> None:
        self._settings = settings
        self._moved = moved

    def __enter__(self) -> Self:
        """Connect and note the end. Raises FatalDelivery if the topic doesn't exist or the broker can't be asked."""
        topic = self._settings.topics.dead_letters
        topics.require(self._settings, [topic])
        with naming(topic):
            self._consumer = kafka.KafkaConsumer(
                group_id=None,
                enable_auto_commit=False,
                auto_offset_reset="earliest",
                isolation_level="read_committed",
                fetch_max_bytes=_FETCH_BYTES,
                metrics_enabled=False,
                **connection(self._settings, KAFKA),
            )
            partitions = [kafka.TopicPartition(topic, n) for n in self._consumer.partitions_for_topic(topic) or ()]
            self._consumer.assign(partitions)
            self._begins: Mapping[Any, int] = self._consumer.beginning_offsets(partitions)
            self._ends: Mapping[Any, int] = self._consumer.end_offsets(partitions)
            self._consumer.seek_to_beginning(*partitions)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._consumer.close()

    def __iter__(self) -> Iterator[Letter | None]:
        """Each letter once; None for a record that is none. Raises FatalDelivery."""
        reached = dict(self._begins)
        unread = {partition for partition, end in self._ends.items() if end > reached[partition]}
        while unread:
            with naming(self._settings.topics.dead_letters):
                polled = self._consumer.poll(timeout_ms=_POLL_MS)
                positions = {partition: self._consumer.position(partition) for partition in unread}
            for partition, records in polled.items():
                for record in records:
                    if record.offset < self._ends[partition]:
                        # The client reads headers without value, and can't write them.
                        headers = tuple((name, value or b"") for name, value in record.headers)
                        yield Letter.read(record.key, record.value, headers, record.timestamp)
                        reached[partition] = record.offset + 1
                        self._tell(reached)
            # A transaction's end is an offset without a record: only the position says that it is behind.
            reached.update(positions)
            unread = {partition for partition in unread if reached[partition] < self._ends[partition]}
            self._tell(reached)

    def _tell(self, reached: Mapping[Any, int]) -> None:
        begin, end = sum(self._begins.values()), sum(self._ends.values())
        now = sum(min(offset, self._ends[partition]) for partition, offset in reached.items())
        self._moved(now - begin, end - begin)
