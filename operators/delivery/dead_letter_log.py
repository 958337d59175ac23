"""The log of dead letters: a class of them when it begins, and then once a minute how many more there were.

It reads no clock: times are seconds of one monotonic clock. One thread at a time may call it.

Rules
-----
- Dead letters of one topic, class and stage are told together. The first is told at once, with its place, its field and
  its trace. The others are counted, and told in one line each INTERVAL seconds, and at the end.
- If nothing came for INTERVAL seconds after a line, the next dead letter is a first one again.
- The counts of all lines add up to the dead letters that were delivered.
- No line quotes a message: it has no reason, and a field only if that is one of a query's or a document's own.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

import structlog

from operators.delivery.output_record import Cause, OutputRecord
from operators.query.message import Origin
from operators.query.trace import Trace
from schemas.document import DocumentEvent
from schemas.errors import DeadLetterClass
from schemas.query import QueryEvent

log = structlog.stdlib.get_logger(__name__)

INTERVAL: Final = 60.0
"""Seconds between two lines about dead letters that are told together."""

_FIELDS: Final = frozenset(QueryEvent.model_fields) | frozenset(DocumentEvent.model_fields)

Alike = tuple[str, DeadLetterClass, str]
"""The topic that messages came from, their class, and the stage that rejected them."""


@dataclass(slots=True)
class _Told:
    due: float
    untold: int = 0


class DeadLetterLog:
    """What is logged of the dead letters that one flow delivers."""

    def __init__(self) -> None:
        self._told: dict[Alike, _Told] = {}

    def delivered(self, records: Iterable[OutputRecord], now: float) -> None:
        """Note the dead letters among records that are durable."""
        for record in records:
            if (cause := record.dead_letter) is not None:
                self._note(record.origin, cause, record.trace, now)

    def due(self, now: float) -> float | None:
        """In how many seconds there is something to `tell`; None: not before the next dead letter."""
        return min((max(0.0, told.due - now) for told in self._told.values() if told.untold), default=None)

    def tell(self, now: float) -> None:
        """Log the counts that are due."""
        for alike, told in self._told.items():
            if told.untold and now >= told.due:
                _tell(alike, told.untold)
                told.due, told.untold = now + INTERVAL, 0

    def end(self) -> None:
        """Log the counts that are left."""
        for alike, told in self._told.items():
            if told.untold:
                _tell(alike, told.untold)
        self._told.clear()

    def _note(self, origin: Origin, cause: Cause, trace: Trace | None, now: float) -> None:
        alike = origin.topic, cause.kind, cause.stage
        told = self._told.get(alike)
        if told is not None and (told.untold or now < told.due):
            told.untold += 1
            return
        self._told[alike] = _Told(now + INTERVAL)
        traced = {} if trace is None or trace.trace_id is None else {"trace_id": trace.trace_id}
        _tell(alike, 1, field=_own(cause.field), partition=origin.partition, offset=origin.offset, **traced)


def _own(field: str | None) -> str | None:
    """The field, as far as the event has it: any other name is the sender's own words."""
    name = field.partition(".")[0] if field is not None else None
    return name if name in _FIELDS else None


def _tell(alike: Alike, count: int, **first: object) -> None:
    topic, kind, stage = alike
    log.warning("dead letters", **{"class": kind.value}, stage=stage, topic=topic, count=count, **first)
