"""A stage of a flow: one engine step, through which every batch passes whole.

A batch is the list of what goes through the flow together. It may be empty: the source sends one when calls have
finished, so that each stage can pass on what it has got. An item that is answered, or rejected, passes by the stages
behind: the last one writes its record.
"""

import traceback
from collections.abc import Callable, Iterable
from typing import Protocol, TypeVar

import structlog
from bytewax import operators as op
from bytewax.dataflow import Stream, operator

from operators.query.message import Message, Rejected
from operators.query.trace import Trace
from schemas.errors import DeadLetterClass, InputError

log = structlog.stdlib.get_logger(__name__)


class Flowing(Protocol):
    """What flows from stage to stage: a query or a document."""

    @property
    def answered(self) -> bool:
        """Whether no stage but the last has anything to do for this item."""
        ...


class Traced(Protocol):
    """What a message became: it has the message and a trace."""

    @property
    def message(self) -> Message:
        """The message."""
        ...

    @property
    def trace(self) -> Trace:
        """The trace of what the message became."""
        ...


Source = Message | Traced
"""What is rejected where a step fails: a message, or what it became."""

T = TypeVar("T")
I = TypeVar("I", bound=Flowing)  # noqa: E741  an item

Messages = list[Message]
"""The messages that were read."""

Batch = list[I | Rejected]
"""The items of a batch."""


def applied(
    name: str, items: Iterable[T], step: Callable[[T], I | None], source: Callable[[T], Source]
) -> list[I | Rejected]:
    """What `step` makes of each item; an item for which it raises is rejected alone. None: the item waits elsewhere.

    An InputError says what is wrong with the message. Any other exception is a defect: the message becomes a dead
    letter of class `internal`, so that it doesn't block the messages behind it, and the traceback is logged.
    """
    out: list[I | Rejected] = []
    for item in items:
        try:
            done = step(item)
        except InputError as error:
            out.append(_rejected(name, source(item), error.kind, str(error), error.field))
        except Exception as error:  # noqa: BLE001  reported and accounted for
            out.append(defect(name, source(item), error))
        else:
            if done is not None:
                out.append(done)
    return out


def defect(name: str, source: Source, error: Exception) -> Rejected:
    """Log an error that is no InputError, and reject the message in which it occurred."""
    # Not the error's own message: it may quote the query.
    where = "".join(traceback.format_tb(error.__traceback__))
    rejected = _rejected(name, source, DeadLetterClass.INTERNAL, type(error).__name__)
    origin = rejected.message.origin
    place: dict[str, str | int] = {"topic": origin.topic, "partition": origin.partition, "offset": origin.offset}
    if rejected.trace is not None and (trace_id := rejected.trace.trace_id) is not None:
        place["trace_id"] = trace_id
    log.error("stage raised an unexpected error", stage=name, error=type(error).__name__, **place, where=where)
    return rejected


def parted(items: Iterable[I | Rejected]) -> tuple[list[I], list[I | Rejected]]:
    """The items that a stage has something to do for, and those that pass by."""
    live: list[I] = []
    passing: list[I | Rejected] = []
    for item in items:
        if isinstance(item, Rejected) or item.answered:
            passing.append(item)
        else:
            live.append(item)
    return live, passing


def _rejected(name: str, source: Source, kind: DeadLetterClass, reason: str, field: str | None = None) -> Rejected:
    if isinstance(source, Message):
        return Rejected(source, kind, name, reason, field=field)
    return Rejected(source.message, kind, name, reason, source.trace, field)


@operator
def entry(step_id: str, up: Stream[Messages], name: str, step: Callable[[Message], I]) -> Stream[Batch[I]]:
    """The first stage: what `step` makes of every message; `name` is the stage's in dead letters."""

    def swept(batches: list[Messages]) -> list[Batch[I]]:
        return [applied(name, messages, step, lambda message: message) for messages in batches]

    return op.flat_map_batch("apply", up, swept)


@operator
def stage(
    step_id: str, up: Stream[Batch[I]], name: str, step: Callable[[I], I | None], source: Callable[[I], Source]
) -> Stream[Batch[I]]:
    """Apply a pure step to every item that isn't answered; `name` is the stage's in dead letters."""

    def swept(batches: list[Batch[I]]) -> list[Batch[I]]:
        live, passing = parted(item for items in batches for item in items)
        return [[*passing, *applied(name, live, step, source)]]

    return op.flat_map_batch("apply", up, swept)
