"""A scripted topic of watermarks, its tails, and a reader of them."""

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import cast

from operators.caching.watermark_table import WatermarkTable
from operators.delivery.client import ConsumerRecord, TopicPartition, TopicReader
from operators.delivery.table_reader import WatermarkReader
from schemas.errors import RetriableDelivery
from tests.operators.delivery.scripted import WITHIN


class Topic:
    """A topic of one partition, its tails, and what goes wrong with them."""

    def __init__(self, key: bytes = b"a|b|0") -> None:
        self.key = key
        self.values: list[bytes | None] = []
        self.end = 0
        self.tails = self.closed = self.questions = self.polls = 0
        self.answering = threading.Event()
        self.answering.set()
        self.readable, self.broken, self.refusing = True, False, False

    def put(self, value: bytes | None, marks: int = 1) -> None:
        """Append a record, and as many marks of transactions."""
        self.values += [value, *[b"mark"] * marks]
        self.end = len(self.values)

    def make_anew(self, *values: bytes) -> None:
        """Delete the topic, and create it with other records."""
        self.values, self.end = [*values], len(values)


class ScriptedTail:
    """A tail of the topic: a poll hands out one record, and goes over marks, or back to an end, without a word."""

    def __init__(self, topic: Topic) -> None:
        topic.tails += 1
        self._topic = topic
        self._position = 0

    def poll(self, timeout: float) -> list[ConsumerRecord]:
        """The next record."""
        self._topic.polls += 1
        if self._topic.broken:
            raise RetriableDelivery("poll: it fails")
        self._position = min(self._position, self._topic.end)
        if not self._topic.readable or self._position >= len(self._topic.values):
            time.sleep(timeout)
            return []
        value = self._topic.values[self._position]
        self._position += 1
        if value == b"mark":
            return []
        return [ConsumerRecord(TopicPartition("watermarks", 0), self._position - 1, self._topic.key, value, (), 0.0)]

    def positions(self) -> dict[int, int]:
        """The position in the topic."""
        return {0: self._position}

    def ends(self, timeout: float) -> dict[int, int]:
        """The end as it was when asked; the answer may be late."""
        self._topic.questions += 1
        end = self._topic.end
        if not self._topic.answering.wait(timeout) or self._topic.refusing:
            raise RetriableDelivery("offsets: no answer")
        return {0: end}

    def close(self) -> None:
        """Count."""
        self._topic.closed += 1


@contextmanager
def reading(topic: Topic, timeout: float = WITHIN) -> Iterator[WatermarkReader]:
    """A running reader, closed at the end; every tail is closed then."""
    reader = WatermarkReader(lambda: cast("TopicReader", ScriptedTail(topic)), timeout, WatermarkTable())
    reader.start()
    try:
        yield reader
    finally:
        topic.answering.set()
        reader.close()
    assert topic.closed == topic.tails
