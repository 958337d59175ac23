"""Messages as they were read from Kafka, and their rejections."""

from dataclasses import dataclass
from typing import ClassVar

from operators.query.trace import Headers, Trace
from schemas.errors import DeadLetterClass, InputError
from schemas.fields import unix_seconds
from schemas.headers import MAX_HEADERS


@dataclass(frozen=True, slots=True)
class Origin:
    """A message's place in Kafka, and the assignment of its partition under which it was read."""

    topic: str
    partition: int
    offset: int
    epoch: int


@dataclass(frozen=True, slots=True)
class Message:
    """One message as it was read. `timestamp` is Kafka's, negative if there is none, `received` this process's wall
    clock, both in seconds; `clock` is this process's monotonic clock at that moment. Not `legible`: it had headers that
    can't be read.
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
    """The JSON of a value that is none; of a message without a value, that of its key. Dead letters keep the original.
    """

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
        """Bytes of its value and its headers."""
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
    """Raise InputError `invalid` for headers that can't be read, `too_large` for more than `most` bytes of a message.

    A value that is too large by itself is not spoken of here.
    """
    if not message.legible:
        raise InputError(DeadLetterClass.INVALID, f"headers: expected at most {MAX_HEADERS:,}, with names in UTF-8")
    if len(message.value or b"") <= most < message.size:
        what = f"value and headers: {message.size} bytes, expected at most {most}"
        raise InputError(DeadLetterClass.TOO_LARGE, what, "headers")


def sent_at(message: Message) -> float:
    """Time of sending, in Unix seconds. Raises InputError `invalid` for a timestamp that is not in milliseconds."""
    try:
        return unix_seconds(message.sent)
    except ValueError as error:
        raise InputError(DeadLetterClass.INVALID, f"the message's timestamp: {error}") from error


@dataclass(frozen=True, slots=True)
class Rejected:
    """A refused message; `field` names the wrong field, `trace` is its query's, if it was one. Only the last stage does
    something for it: it writes the dead letter.
    """

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
        origin = self.message.origin
        place: dict[str, str | int] = {"topic": origin.topic, "partition": origin.partition, "offset": origin.offset}
        if self.trace is not None and (trace_id := self.trace.trace_id) is not None:
            place["trace_id"] = trace_id
        return place
