"""The log of dead letters: a class of them when it begins, and then once a minute how many more there were.

It reads no clock: times are seconds of one monotonic clock. One thread at a time may call it.

Rules:
- Dead letters of one topic, class and stage are logged together. The first has a line at once, with its place, its
  field and its trace. The others are counted: one line each INTERVAL seconds, and one at the end.
- If nothing came for INTERVAL seconds after a line, the next dead letter is a first one again.
- The counts of all lines add up to the dead letters that were delivered.
- No line quotes a message: it has no reason, and a field only if that is one of an event's or a rule's own.
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

import structlog

from operators.delivery.output_record import OutputRecord
from schemas.document import DeletionEvent, DocumentEvent
from schemas.errors import DeadLetterClass
from schemas.query import QueryEvent
from schemas.rule import Rule

log = structlog.stdlib.get_logger(__name__)

INTERVAL: Final = 60.0
"""Seconds between two lines about dead letters that are logged together."""

_EVENTS: Final = (QueryEvent, DocumentEvent, DeletionEvent, Rule)
_FIELDS: Final = frozenset({"key"}).union(*(each.model_fields for each in _EVENTS))

DeadLetterGroup = tuple[str, DeadLetterClass, str]
"""The topic that messages came from, their class, and the stage that rejected them."""


@dataclass(slots=True)
class _Count:
    due: float
    unlogged: int = 0


class DeadLetterLog:
    """Logs the dead letters that one flow delivers."""

    def __init__(self) -> None:
        self._counts: dict[DeadLetterGroup, _Count] = {}

    def delivered(self, records: Iterable[OutputRecord], now: float) -> None:
        """Note the dead letters among records that are durable."""
        for record in records:
            if (cause := record.dead_letter) is None:
                continue
            origin, trace = record.origin, record.trace
            alike = origin.topic, cause.kind, cause.stage
            count = self._counts.get(alike)
            if count is not None and (count.unlogged or now < count.due):
                count.unlogged += 1
                continue
            self._counts[alike] = _Count(now + INTERVAL)
            traced = {} if trace is None or trace.trace_id is None else {"trace_id": trace.trace_id}
            _tell(alike, 1, field=own_field(cause.field), partition=origin.partition, offset=origin.offset, **traced)

    def due(self, now: float) -> float | None:
        """In how many seconds there is something to `tell`; None: not before the next dead letter."""
        return min((max(0.0, count.due - now) for count in self._counts.values() if count.unlogged), default=None)

    def tell(self, now: float) -> None:
        """Log the counts that are due."""
        for alike, count in self._counts.items():
            if count.unlogged and now >= count.due:
                _tell(alike, count.unlogged)
                count.due, count.unlogged = now + INTERVAL, 0

    def log_rest(self) -> None:
        """Log the counts that are left."""
        self.tell(math.inf)
        self._counts.clear()


def own_field(field: str | None) -> str | None:
    """The field, as far as an event or a rule has it: any other name is the sender's own words."""
    name = field.partition(".")[0] if field is not None else None
    return name if name in _FIELDS else None


def _tell(alike: DeadLetterGroup, count: int, **first: object) -> None:
    topic, kind, stage = alike
    log.warning("dead letters", **{"class": kind.value}, stage=stage, topic=topic, count=count, **first)
