"""What a stage of the flow is: one stream in; going on, answered and dead out."""

import logging
import traceback
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import TypeVar

from bytewax import operators as op
from bytewax.dataflow import Stream, operator

from operators.inflight import InFlight, Message, Rejected
from schemas.errors import DeadLetterClass, InputError

log = logging.getLogger(__name__)

T = TypeVar("T")

Batch = list[InFlight]


@dataclass(frozen=True)
class Stage:
    """A stage's named streams: queries that go on, queries with nothing left to do, messages for the dead letters."""

    on: Stream[Batch]
    answered: Stream[Batch]
    dead: Stream[list[Rejected]]


@dataclass(slots=True)
class _Sorted:
    on: Batch = field(default_factory=list)
    answered: Batch = field(default_factory=list)
    dead: list[Rejected] = field(default_factory=list)


def sort(name: str, items: Iterable[T], message: Callable[[T], Message], step: Callable[[T], InFlight]) -> _Sorted:
    """Apply `step` to each item; one that it can't be applied to is rejected alone.

    An InputError says what is wrong with the message. Anything else is a defect of ours: the message becomes a dead
    letter of class `internal`, so that it can't stop those behind it for ever, and the log has the traceback.
    """
    out = _Sorted()
    for item in items:
        try:
            query = step(item)
        except InputError as error:
            out.dead.append(Rejected(message(item), error.kind, name, str(error)))
        except Exception as error:  # noqa: BLE001  reported and accounted for
            # Not the error's own message: it may quote the query.
            where = "".join(traceback.format_tb(error.__traceback__))
            log.error("defect in %s: %s at %s\n%s", name, type(error).__name__, message(item).origin, where)
            out.dead.append(Rejected(message(item), DeadLetterClass.INTERNAL, name, type(error).__name__))
        else:
            (out.answered if query.answered else out.on).append(query)
    return out


@operator
def stage(step_id: str, up: Stream[list[T]], message: Callable[[T], Message], step: Callable[[T], InFlight]) -> Stage:
    """Apply a pure step to every item of every batch and part the outcome into a stage's streams."""
    parted = op.map("apply", up, lambda items: sort(step_id, items, message, step))
    return Stage(
        on=op.filter_map("on", parted, lambda out: out.on or None),
        answered=op.filter_map("answered", parted, lambda out: out.answered or None),
        dead=op.filter_map("dead", parted, lambda out: out.dead or None),
    )
