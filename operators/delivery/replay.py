"""Replay: which dead letters are selected, the record that each becomes, and when the next may be sent. Pure.

Rules:
- A letter becomes the original message, byte for byte: its key, its value and its own headers. A header more says that
  it was replayed, where it came from first, and the reason why it was rejected.
- A letter that came back for the same reason isn't sent again, and nor is the one that it was made of, unless told.
  Any producer may send the header that says so: it counts only where it has the digest of the letter's own message.
- A query gets a new timestamp, since with the old one it would expire at once. A document has its old timestamp, which
  is its version if the event names none: a replayed document must not overwrite a later one.
- A tombstone, the deletion of a document, is sent again without a value.
- A letter without payload, whose original isn't to be had any more, or of a topic that neither flow reads, can't be
  replayed.
"""

import hashlib
import math
from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final, NamedTuple, Self

from operators.delivery.client import ProducerRecord
from operators.wire.message import Headers
from schemas import headers as names
from schemas.errors import DeadLetterClass


class Position(NamedTuple):
    """A message's place in Kafka."""

    topic: str
    partition: int
    offset: int

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read `TOPIC:PARTITION:OFFSET`. Raises ValueError."""
        topic, _, numbers = text.partition(":")
        partition, _, offset = numbers.partition(":")
        if not (topic and _is_number(partition) and _is_number(offset)):
            raise ValueError(f"{text!r} is not TOPIC:PARTITION:OFFSET")
        return cls(topic, int(partition), int(offset))

    def __str__(self) -> str:
        return f"{self.topic}:{self.partition}:{self.offset}"


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """A dead letter: the original message, its timestamp in ms, its position, and the error."""

    position: Position
    kind: str
    stage: str
    message: str
    key: bytes | None
    value: bytes | None
    headers: Headers
    timestamp_ms: int

    @property
    def timestamp(self) -> float:
        """The original's time in Unix seconds."""
        return self.timestamp_ms / 1000

    @property
    def attempt(self) -> str:
        """The place of the first message of which this is a replay, and the digest of the message and the reason."""
        marks = [_text(mark).partition(" ")[0] for name, mark in self.headers if name == names.REPLAYED]
        first = marks[-1] if marks else str(self.position)
        own = [header for header in self.headers if header[0] != names.REPLAYED]
        whole = (self.kind, self.stage, self.message, self.key, self.value, own)
        return f"{first} {hashlib.sha256(repr(whole).encode()).hexdigest()[:16]}"

    @property
    def replayed(self) -> bool:
        """True if it says of itself that it was replayed."""
        return any(name == names.REPLAYED for name, _ in self.headers)

    @property
    def returned(self) -> bool:
        """True if it was replayed, and was rejected for the reason for which it had been before."""
        return (names.REPLAYED, self.attempt.encode()) in self.headers

    def is_whole(self, documents: str) -> bool:
        """True if the letter has the message, as does that of a tombstone from the topic of `documents`: dead letters
        whose payload is left out have the stage `send`.
        """
        tombstone = self.position.topic == documents and bool(self.key) and self.stage not in {"", names.SENDING}
        return self.value is not None or tombstone

    @classmethod
    def of_record(cls, key: bytes | None, value: bytes | None, headers: Headers, timestamp_ms: int) -> Self | None:
        """Read a record of the dead-letter topic; None for one that is no dead letter."""
        # The message may have been a dead letter before: the headers added last are this letter's.
        begin = max((number for number, (name, _) in enumerate(headers) if name == names.TOPIC), default=None)
        if begin is None:
            return None
        own, added = headers[:begin], headers[begin:]
        why = {name: _text(content) for name, content in added if name in _WRITTEN}
        partition, offset = why.get(names.PARTITION, ""), why.get(names.OFFSET, "")
        if not (_is_number(partition) and _is_number(offset)):
            return None
        # The topic didn't take the message's own time.
        stamped = why.get(names.TIMESTAMP, "")
        return cls(
            position=Position(why[names.TOPIC], int(partition), int(offset)),
            kind=why.get(names.CLASS, ""),
            stage=why.get(names.STAGE, ""),
            message=why.get(names.MESSAGE, ""),
            key=key,
            value=value,
            headers=own + tuple(header for header in added if header[0] not in _WRITTEN),
            timestamp_ms=int(stamped) if _is_number(stamped) else timestamp_ms,
        )


@dataclass(frozen=True, slots=True)
class DeadLetterFilter:
    """Which letters are selected: those that match every field given; times in Unix seconds, `until` excluded.

    The time of a letter is that of its original message.
    """

    classes: frozenset[DeadLetterClass] = frozenset()
    stage: str | None = None
    topic: str | None = None
    positions: frozenset[Position] = frozenset()
    since: float | None = None
    until: float | None = None

    def matches(self, dead_letter: DeadLetter) -> bool:
        """True if the letter is selected."""
        return (
            (not self.classes or dead_letter.kind in self.classes)
            and (self.stage is None or dead_letter.stage == self.stage)
            and (self.topic is None or dead_letter.position.topic == self.topic)
            and (not self.positions or dead_letter.position in self.positions)
            and (self.since is None or self.since <= dead_letter.timestamp)
            and (self.until is None or dead_letter.timestamp < self.until)
        )


class Skip(StrEnum):
    """Why a letter isn't replayed."""

    NO_PAYLOAD = "no_payload"
    OTHER_TOPIC = "other_topic"
    RETURNED = "returned"


def to_record(dead_letter: DeadLetter, queries: str, documents: str) -> ProducerRecord | Skip:
    """The record that the letter becomes, given the topics of queries and documents, or why it can't be replayed."""
    topic = dead_letter.position.topic
    if topic not in {queries, documents}:
        return Skip.OTHER_TOPIC
    if not dead_letter.is_whole(documents):
        return Skip.NO_PAYLOAD
    headers = tuple(header for header in dead_letter.headers if header[0] != names.REPLAYED)
    headers += ((names.REPLAYED, dead_letter.attempt.encode()),)
    timestamp_ms = dead_letter.timestamp_ms if topic == documents else None
    return ProducerRecord(topic, dead_letter.key, dead_letter.value, headers, timestamp_ms)


def find_futile(letters: Iterable[DeadLetter | None]) -> frozenset[str]:
    """The attempts after which a dead letter came back for the reason for which it was sent."""
    return frozenset(letter.attempt for letter in letters if letter is not None and letter.returned)


@dataclass(slots=True)
class Throttle:
    """Turns at least 1/`rate` seconds apart; time lost in a pause isn't made up for."""

    rate: float
    _next: float = field(default=-math.inf, init=False)

    def wait(self, now: float) -> float:
        """Take the next turn: the seconds from `now` until it."""
        turn = max(now, self._next)
        self._next = turn + 1 / self.rate
        return turn - now


_PLACE: Final = (names.TOPIC, names.PARTITION, names.OFFSET, names.TIMESTAMP, names.TRACE_ID)
_WRITTEN: Final = frozenset((*_PLACE, names.STAGE, names.CLASS, names.MESSAGE, names.REFUSED))


def _text(content: bytes) -> str:
    return content.decode("utf-8", "replace")


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit()
