"""Messages: what was read from Kafka, and the record that ends it."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import ClassVar, NamedTuple

from operators.query.trace import Headers, Trace
from schemas.errors import DeadLetterClass


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
    clock, both in seconds; `clock` is this process's monotonic clock at that moment. Not `legible`: it had headers, but
    a name of them isn't UTF-8.
    """

    origin: Origin
    key: bytes | None
    value: bytes | None
    headers: Headers
    timestamp: float
    received: float
    clock: float
    legible: bool = True

    answered: ClassVar = False

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


class Cause(NamedTuple):
    """Why a message became a dead letter: its class, the stage that rejected it, and the field that is wrong."""

    kind: DeadLetterClass
    stage: str
    field: str | None = None


@dataclass(frozen=True, slots=True)
class OutputRecord:
    """The record that ends a message, for `topic`; of those that compact, a transaction sends the last of a key.

    `cause` is a dead letter's; None: it is none.
    `letter` is the dead letter of a message whose sender is told of it by this record: both go in one transaction.
    `instead` makes of this record what goes in its place if its topic refuses it, of the class of the refusal, and of
    what is said of it; by default a dead letter.
    """

    origin: Origin
    topic: str
    key: bytes | None
    value: bytes | None
    headers: Headers
    trace: Trace | None = None
    timestamp_ms: int | None = None
    compacts: bool = False
    cause: Cause | None = None
    letter: "OutputRecord | None" = None
    instead: "Callable[[OutputRecord, DeadLetterClass, str], OutputRecord] | None" = field(
        default=None, compare=False, repr=False
    )

    @property
    def together(self) -> "tuple[OutputRecord, ...]":
        """The record, and the dead letter that goes with it."""
        return (self,) if self.letter is None else (self, self.letter)


@dataclass(frozen=True, slots=True)
class Rejected:
    """A message that is refused; `field` is what is wrong with it, `trace` its query's, if it was one. No stage has
    anything to do for it but the last, which writes its dead letter.
    """

    answered: ClassVar = True

    message: Message
    kind: DeadLetterClass
    stage: str
    reason: str
    trace: Trace | None = None
    field: str | None = None

    @property
    def place(self) -> dict[str, str | int]:
        """The message's place in Kafka, and the id of its trace if there is one: for logs."""
        origin = self.message.origin
        place: dict[str, str | int] = {"topic": origin.topic, "partition": origin.partition, "offset": origin.offset}
        if self.trace is not None and (trace_id := self.trace.trace_id) is not None:
            place["trace_id"] = trace_id
        return place
