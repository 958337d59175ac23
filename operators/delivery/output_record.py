"""Output records: what ends a message, in which form, and how many bytes that is.

A record's size is all its bytes, in a batch of its own, before compression. A topic's `max.message.bytes` limits the
compressed batch: without compression the size here is never below the batch's, and above it only by the bytes that
Kafka's variable-length numbers save.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum, auto
from typing import Final

from operators.delivery.client import ProducerRecord
from operators.runtime.batching.policy import by_key
from operators.wire.message import Cause, Message, Origin, Trace
from schemas.document import DeletionEvent, DocumentEvent
from schemas.query import QueryEvent
from schemas.rule import Rule

_BATCH: Final = 61
_RECORD: Final = 36
"""Length, attributes, time and offset deltas, the lengths of key and value, the count of headers: at their longest."""

_HEADER: Final = 10
"""The lengths of a header's name and value."""


class RecordForm(Enum):
    """The form of an output record: `operators.delivery.way_out` decides it.

    A refusal is the result `invalid` of a refused message. Its dead letter goes with it. A comparison of an experiment
    goes with a result. NOTHING is not sent: it ends a message for which there is nothing to say.
    """

    RESULT = auto()
    COMPARISON = auto()
    REFUSAL = auto()
    SHORT_REFUSAL = auto()
    WATERMARK = auto()
    DEAD_LETTER = auto()
    WITHOUT_PAYLOAD = auto()
    NOTHING = auto()


@dataclass(frozen=True, slots=True, kw_only=True)
class OutputRecord(ProducerRecord):
    """A record that ends a message. All records of one origin are delivered together.

    It ends the messages at the `further` offsets of the origin's partition, too: offsets above the origin's, rising.
    `cause` is that of a refusal and of a dead letter. If its topic refuses the record, further forms are made from the
    `message`.
    """

    origin: Origin
    further: tuple[int, ...] = ()
    trace: Trace | None = None
    form: RecordForm = RecordForm.RESULT
    cause: Cause | None = None
    message: Message | None = None

    @property
    def dead_letter(self) -> Cause | None:
        """The cause of a dead letter; None for any other record."""
        return self.cause if self.form in _DEAD_LETTERS else None

    @property
    def compacts(self) -> bool:
        """True for a watermark: of one key, a transaction sends the last."""
        return self.form is RecordForm.WATERMARK

    @property
    def size(self) -> int:
        """Size in bytes: the topic takes the record if its `max.message.bytes` is at least this."""
        size = _BATCH + _RECORD + len(self.key or b"") + len(self.value or b"")
        for name, content in self.headers:
            # Nearly all names are ASCII; only the others have to be encoded.
            size += _HEADER + (len(name) if name.isascii() else len(name.encode())) + len(content)
        return size


_DEAD_LETTERS: Final = (RecordForm.DEAD_LETTER, RecordForm.WITHOUT_PAYLOAD)


def by_message(records: Iterable[OutputRecord]) -> list[list[OutputRecord]]:
    """The records of each message, in their order."""
    return list(by_key(records, lambda each: each.origin).values())


_EVENTS: Final = (QueryEvent, DocumentEvent, DeletionEvent, Rule)
_FIELDS: Final = frozenset({"key"}).union(*(each.model_fields for each in _EVENTS))


def own_field(field: str | None) -> str | None:
    """The field, as far as an event or a rule has it: any other name is the sender's own words, and for no log."""
    name = field.partition(".")[0] if field is not None else None
    return name if name in _FIELDS else None
