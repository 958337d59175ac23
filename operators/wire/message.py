"""Messages as they were read from Kafka, their rejections, and the traces that both are a part of.

The stages report to a trace, which writes spans and counts metrics. OpenTelemetry's and Prometheus's own types stay
behind it.
"""

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple, Protocol

from schemas.errors import DeadLetterClass, InputError
from schemas.fields import unix_seconds
from schemas.headers import MAX_HEADERS

Headers = tuple[tuple[str, bytes], ...]
"""Headers of a Kafka record."""

Attributes = Mapping[str, str | int | float | bool]


class Trace(Protocol):
    """One query's spans and counts. Every method is cheap, and makes no span when the trace is not recorded."""

    @property
    def recording(self) -> bool:
        """True if spans are recorded."""

    @property
    def trace_id(self) -> str | None:
        """The trace's id in hexadecimal, if there is one."""

    def child(
        self,
        name: str,
        started: float,
        attributes: Attributes,
        *,
        link: Any = ...,
        error: str | None = ...,
        kind: Any = ...,
    ) -> None:
        """Record what ran from `started`, on the monotonic clock, until now; `link` and `kind` are OpenTelemetry's."""

    def calling(self, name: str, attributes: Attributes, traces: "Sequence[Trace]") -> AbstractContextManager[Any]:
        """The span of one call for the queries of these recorded traces, of which this is one, as the current span."""

    def passed(self, step: str, seconds: float) -> None:
        """Count a step of the query, which took so long."""

    def looked_up(self, cache: str, hits: int, misses: int) -> None:
        """Count the hits and misses of a lookup in a cache."""

    def degraded(self, stage: str, reason: str) -> None:
        """Note that a part of the answer was lost."""

    def answered(self, legs: Iterable[tuple[str, str]], *, removed: int, aged: bool) -> None:
        """Count an answer's legs by status, the documents that the post-filter check removed, and ranking by age."""

    def rejected(self, kind: str) -> None:
        """Note that the message is a dead letter of this class."""

    def send(self, topic: str, status: str) -> Headers:
        """Begin to send the output record, or another one for it; the headers that hand the trace on."""

    def abandoned(self) -> None:
        """End the trace's part in this process: the partition's new owner answers the query."""

    def sent(self) -> None:
        """End the trace's part in this process: the output record is durable."""


class Origin(NamedTuple):
    """A message's place in Kafka, and the assignment of its partition under which it was read."""

    topic: str
    partition: int
    offset: int
    epoch: int

    @property
    def log_fields(self) -> dict[str, str | int]:
        """The place, for logs."""
        return {"topic": self.topic, "partition": self.partition, "offset": self.offset}


def result_id(origin: Origin) -> str:
    """The identity of the message's result: a hash of its place, so that it is the same on re-delivery."""
    place = f"{origin.topic}\n{origin.partition}\n{origin.offset}"
    return hashlib.blake2b(place.encode(), digest_size=16).hexdigest()


@dataclass(frozen=True, slots=True)
class Message:
    """One message as it was read.

    `timestamp` is Kafka's, negative if there is none, `received` this process's wall clock, both in seconds; `clock` is
    its monotonic clock at that moment. Not `legible`: it had headers that can't be read. `deserialised` is the JSON of
    a value that is none, or of a message without a value that of its key; dead letters keep the original.
    """

    origin: Origin
    key: bytes | None
    value: bytes | None
    headers: Headers
    timestamp: float
    received: float
    clock: float
    legible: bool = True
    deserialised: bytes | None = None

    answered: ClassVar = False

    @property
    def json(self) -> bytes | None:
        """The value as it is read."""
        return self.value if self.value is None or self.deserialised is None else self.deserialised

    @property
    def json_key(self) -> bytes | None:
        """The key as it is read, of a message without a value."""
        return self.key if self.deserialised is None else self.deserialised

    @property
    def size(self) -> int:
        """Size of the value and the headers, in bytes."""
        return len(self.value or b"") + sum(len(name) + len(content) for name, content in self.headers)

    @property
    def sent(self) -> float:
        """Kafka's timestamp; without one, when the message was received."""
        return self.timestamp if self.timestamp >= 0 else self.received

    @property
    def age(self) -> float:
        """Seconds from sending to receiving; none for a producer whose clock is ahead, which gains nothing by it."""
        return max(0.0, self.received - self.sent)

    def reject(self, stage: str, kind: DeadLetterClass, reason: str, field: str | None = None) -> "Rejected":
        """The refusal of this message, from which no query was parsed."""
        return Rejected(self, kind, stage, reason, field=field)


def check_headers(message: Message, most: int) -> None:
    """Raise InputError `invalid` for headers that can't be read, `too_large` over `most` bytes with the value."""
    if not message.legible:
        raise InputError(DeadLetterClass.INVALID, f"headers: expected at most {MAX_HEADERS:,}, with names in UTF-8")
    if message.headers and len(message.value or b"") <= most < message.size:
        what = f"value and headers: {message.size} bytes, expected at most {most}"
        raise InputError(DeadLetterClass.TOO_LARGE, what, "headers")


def sent_at(message: Message) -> float:
    """Time of sending, in Unix seconds. Raises InputError `invalid` for a timestamp that is not in milliseconds."""
    try:
        return unix_seconds(message.sent)
    except ValueError as error:
        raise InputError(DeadLetterClass.INVALID, f"the message's timestamp: {error}") from error


class Cause(NamedTuple):
    """The cause of a refusal: its class, the stage that rejected the message, the field that is wrong, the reason."""

    kind: DeadLetterClass
    stage: str
    field: str | None = None
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Rejected:
    """A refused message, which the last stage makes a dead letter; `trace` is its query's, if it was one."""

    answered: ClassVar = True

    message: Message
    kind: DeadLetterClass
    stage: str
    reason: str
    trace: Trace | None = None
    field: str | None = None

    @property
    def log_fields(self) -> dict[str, str | int]:
        """The message's place in Kafka, and the id of its trace if there is one: for logs."""
        place = self.message.origin.log_fields
        if self.trace is not None and (trace_id := self.trace.trace_id) is not None:
            place["trace_id"] = trace_id
        return place
