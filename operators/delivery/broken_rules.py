"""Broken rules: what the topic of rules holds that is no rule becomes a dead letter, by one replica.

Every replica reads the topic of rules. The member of the group that has the first partition of the queries writes the
dead letters; the others keep theirs for KEPT seconds, in which they may take that partition over. So a broken rule has
a dead letter at least once while a replica runs. A second one has the same place in its headers.
"""

import asyncio
import time
from collections import deque
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass, field
from typing import Final

from operators.delivery.client import ConsumerRecord, PlainProducer, RecordRefused
from operators.delivery.output_record import OutputRecord
from operators.delivery.way_out import WayOut, dead_letter
from operators.telemetry.metrics import FlowMetrics
from operators.wire.message import Message, Origin
from schemas.errors import InputError

STAGE: Final = "rules"
"""The stage of these dead letters."""

KEPT: Final = 60.0
"""Seconds: more than a group takes to give the partitions of a dead member to others."""

_MOST: Final = 1000
"""Dead letters that wait at most: further records are counted and logged alone."""


@dataclass(eq=False)
class BrokenRules:
    """The dead letters of broken rules that wait; `writes` is true while this replica writes them."""

    producer: Callable[[], PlainProducer]
    way_out: WayOut
    writes: Callable[[], bool]
    metrics: FlowMetrics
    _kept: deque[OutputRecord] = field(default_factory=deque, init=False)

    def add(self, record: ConsumerRecord, error: InputError) -> None:
        """Keep a record that is no rule. From any thread."""
        origin, now, clock = Origin(*record.partition, record.offset, 0), time.time(), time.monotonic()
        message = Message(origin, record.key, record.value, record.headers or (), record.timestamp, now, clock)
        if len(self._kept) < _MOST:
            rejected = message.reject(STAGE, error.kind, str(error), error.field)
            self._kept.append(dead_letter(rejected, self.way_out.dead_letters, None))

    async def send(self) -> None:
        """Write what waits if this replica is to, or else forget what is old. Raises DeliveryError."""
        if self._kept:
            await asyncio.to_thread(self._send if self.writes() else self._forget)

    def _send(self) -> None:
        with closing(self.producer()) as producer:
            while self._kept:
                letter = self._kept[0]
                try:
                    producer.send([letter])
                except RecordRefused as error:
                    [self._kept[0]] = self.way_out.fall_back([letter], {id(letter): error.refusal})
                else:
                    self._kept.popleft()
                    if (cause := letter.dead_letter) is not None:
                        self.metrics.dead_letters[cause.kind.value, cause.stage].inc()

    def _forget(self) -> None:
        while self._kept and (message := self._kept[0].message) and time.monotonic() - message.clock > KEPT:
            self._kept.popleft()
