"""A stage of a flow: one stream in; three streams out, of items that go on, answered items and dead letters."""

import traceback
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Generic, Protocol, TypeVar

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
        """Whether no later stage has anything to do for this item."""
        ...


T = TypeVar("T")
I = TypeVar("I", bound=Flowing)  # noqa: E741  an item


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


@dataclass(frozen=True)
class Stage(Generic[I]):
    """A stage's streams: items for the next stage, items that are answered already, messages for the dead letters.

    A stage that is not built has only the stream that passes it by.
    """

    on: Stream[list[I]]
    answered: Stream[list[I]] | None
    dead: Stream[list[Rejected]] | None


@dataclass(slots=True)
class _Sorted(Generic[I]):
    on: list[I] = field(default_factory=list)
    answered: list[I] = field(default_factory=list)
    dead: list[Rejected] = field(default_factory=list)


def sort(name: str, items: Iterable[T], source: Callable[[T], Source], step: Callable[[T], I]) -> _Sorted[I]:
    """Apply `step` to each item; an item for which it raises is rejected alone.

    An InputError says what is wrong with the message. Any other exception is a defect: the message becomes a dead
    letter of class `internal`, so that it doesn't block the messages behind it, and the traceback is logged.
    """
    out: _Sorted[I] = _Sorted()
    for item in items:
        try:
            done = step(item)
        except InputError as error:
            out.dead.append(_rejected(name, source(item), error.kind, str(error), error.field))
        except Exception as error:  # noqa: BLE001  reported and accounted for
            out.dead.append(defect(name, source(item), error))
        else:
            (out.answered if done.answered else out.on).append(done)
    return out


def defect(name: str, source: Source, error: Exception) -> Rejected:
    """Log an error that is no InputError, and reject the message in which it occurred."""
    # Not the error's own message: it may quote the query.
    where = "".join(traceback.format_tb(error.__traceback__))
    rejected = _rejected(name, source, DeadLetterClass.INTERNAL, type(error).__name__)
    origin = rejected.message.origin
    place = {"topic": origin.topic, "partition": origin.partition, "offset": origin.offset}
    log.error("stage raised an unexpected error", stage=name, error=type(error).__name__, **place, where=where)
    return rejected


def _rejected(name: str, source: Source, kind: DeadLetterClass, reason: str, field: str | None = None) -> Rejected:
    if isinstance(source, Message):
        return Rejected(source, kind, name, reason, field=field)
    return Rejected(source.message, kind, name, reason, source.trace, field)


@operator
def stage(step_id: str, up: Stream[list[T]], source: Callable[[T], Source], step: Callable[[T], I]) -> Stage[I]:
    """Apply a pure step to every item of every batch and sort the results into a stage's streams."""
    # The engine's id of the step begins with the flow's and the operator's.
    name = step_id.rpartition(".")[2]
    parted = op.map("apply", up, lambda items: sort(name, items, source, step))
    return Stage(
        on=op.filter_map("on", parted, lambda out: out.on or None),
        answered=op.filter_map("answered", parted, lambda out: out.answered or None),
        dead=op.filter_map("dead", parted, lambda out: out.dead or None),
    )


def merge(step_id: str, *streams: Stream[T] | None) -> Stream[T]:
    """All of these streams as one; stages that are not built have none."""
    return op.merge(step_id, *(stream for stream in streams if stream is not None))
