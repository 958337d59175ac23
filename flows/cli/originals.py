"""Originals: messages that their dead letters don't hold, read where they came from for as long as they are there."""

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import replace
from typing import Final

from operators.delivery.client import BoundedReader, ConsumerRecord, KafkaClient
from operators.delivery.replay import Letter
from operators.delivery.way_out import short
from schemas.settings import Topics

Original = Callable[[Letter], Letter]
"""The letter with its message, as far as that is to be had."""

_TIMEOUT: Final = 10.0
"""Seconds for one message."""

_POLL: Final = 0.1
_AHEAD: Final = 60.0
"""Seconds that the clock of a producer may be ahead."""


@contextmanager
def originals(client: KafkaClient, topics: Topics) -> Iterator[Original]:
    """What reads the message of a letter without one; the topics are read only if there is such a letter.

    Raises DeliveryError when it is called.
    """
    with ExitStack() as stack:
        readers: dict[str, BoundedReader] = {}

        def original(letter: Letter) -> Letter:
            topic = letter.place.topic
            if letter.value is not None or topic not in {topics.queries, topics.documents}:
                return letter
            if topic not in readers:
                readers[topic] = stack.enter_context(closing(client.bounded_reader(topic, from_end=True)))
            record = _at(readers[topic], letter.place.partition, letter.place.offset)
            if record is None or not _is_of(letter, record):
                return letter
            timestamp_ms = round(record.timestamp * 1000)
            return replace(
                letter, key=record.key, value=record.value, headers=record.headers or (), timestamp_ms=timestamp_ms
            )

        yield original


def _is_of(letter: Letter, record: ConsumerRecord) -> bool:
    """Whether the letter is about this message: where the topic was made anew since, another one is in its place."""
    return (short(record.key) or b"") == letter.key and record.timestamp <= letter.timestamp + _AHEAD


def _at(reader: BoundedReader, partition: int, offset: int) -> ConsumerRecord | None:
    """The committed record at this place; None if there is none, or it doesn't come in time."""
    if not offset < reader.ends().get(partition, 0):
        return None
    reader.seek(partition, offset)
    limit = time.monotonic() + _TIMEOUT
    while time.monotonic() < limit:
        for record in reader.poll(_POLL):
            if record.partition.partition == partition and record.offset >= offset:
                return record if record.offset == offset else None
        if reader.positions()[partition] > offset:
            return None
    return None
