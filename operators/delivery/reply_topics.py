"""The reply topics that queries choose by a pattern: which of them can be written to, as far as the broker says.

Rules
-----
- The broker is asked, on the delivery's thread, before the first record for such a topic, and for a partition that a
  query chose; its answer counts for REMEMBERED seconds, and for MISSED seconds where there is no such topic or
  partition. After a delivery that failed it is asked again.
- A topic that does not exist is never sent to: many brokers would create it.
- A record is refused for good if its topic or partition does not exist, if the topic may not be written, or if it can't
  be for longer than AWAY seconds. The topics that are there from the start are waited for in that last case.
- The limit of a topic counts from the first answer on. Until then it is taken to have Kafka's default.
"""

import math
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final

from operators.delivery.output_record import OutputRecord
from operators.delivery.topics import TopicState

REMEMBERED: Final = 60.0
MISSED: Final = 5.0
AWAY: Final = 10.0
"""Seconds."""

MOST: Final = 1000
"""Topics that are remembered: the earliest are forgotten."""

Look = Callable[[Sequence[str]], Mapping[str, TopicState | None]]


class ReplyTopics:
    """Finds the records that can't go where their queries chose. One thread calls it; `limits` any may read."""

    def __init__(
        self, present: Iterable[str], limits: Mapping[str, int], look: Look, clock: Callable[[], float] = time.monotonic
    ) -> None:
        """`present` are the topics that exist from the start, `limits` the known ones; `look` asks the broker."""
        self.limits = dict(limits)
        self._present = frozenset(present)
        self._look = look
        self._clock = clock
        self._known: dict[str, tuple[TopicState | None, float]] = {}
        self._away: dict[str, float] = {}

    def refuse(self, records: Iterable[OutputRecord]) -> dict[int, str]:
        """The reasons of those records that have nowhere to go, by `id`. Raises RetriableDelivery and FatalDelivery."""
        chosen = [each for each in records if each.topic not in self._present or each.partition is not None]
        if not chosen:
            return {}
        now = self._clock()
        if asked := [*dict.fromkeys(record.topic for record in chosen if not self._knows(record, now))]:
            self._note(self._look(asked), now)
        found = {id(record): problem for record in chosen if (problem := self._problem(record, now)) is not None}
        self._forget_earliest()
        return found

    def forget(self) -> None:
        """Ask again before the next delivery."""
        self._known = {topic: (state, -math.inf) for topic, (state, _) in self._known.items()}

    def _knows(self, record: OutputRecord, now: float) -> bool:
        state, since = self._known.get(record.topic, (None, -math.inf))
        # A topic may have come, or grown.
        lacks = state is None or (record.partition is not None and record.partition >= state.partitions)
        return now - since < (MISSED if lacks else REMEMBERED)

    def _note(self, states: Mapping[str, TopicState | None], now: float) -> None:
        for topic, state in states.items():
            self._known.pop(topic, None)
            self._known[topic] = (state, now)
            if state is None or not state.away:
                self._away.pop(topic, None)
            else:
                self._away.setdefault(topic, now)
            if topic not in self._present and state is not None:
                self.limits[topic] = state.max_bytes

    def _forget_earliest(self) -> None:
        for topic in [*self._known][: max(0, len(self._known) - MOST)]:
            for each in (self._known, self._away, self.limits):
                if topic not in self._present:
                    each.pop(topic, None)

    def _problem(self, record: OutputRecord, now: float) -> str | None:
        state, topic, partition = self._known[record.topic][0], record.topic, record.partition
        if state is None:
            return f"reply_to: there is no topic {topic}"
        if partition is not None and partition >= state.partitions:
            return f"reply_to: topic {topic} has no partition {partition}, but {state.partitions} from 0"
        if topic in self._present:
            return None
        if not state.writable:
            return f"reply_to: topic {topic} may not be written by rankstream"
        away = partition in state.away if partition is not None else state.away
        if away and now - self._away[topic] >= AWAY:
            return f"reply_to: topic {topic} could not be written for {AWAY:.0f} seconds: it lacks a leader or replicas"
        return None
