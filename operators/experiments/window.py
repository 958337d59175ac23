"""Windows: the feedback on a query of an experiment, until its time has passed; then it is one preference. Pure.

Rules:
- A window is for one query: one experiment, namespace, query_id and time. It ends a fixed length after that time.
- Time is a partition's: the latest of its messages' times in Kafka, which the broker sets as it appends them. Clients'
  clocks play no part. A window closes when time has passed its end, so its messages are within it by their own times
  alone: who reads the partition again has the same windows.
- A message beyond the end is late. One that comes more than a length ahead of its query is early: the clock of the
  query's sender was wrong, and its window would stay open for as long.
- A click is a document and an action: it counts once, on the side and at the rank of its first message.
- More clicks than a person makes are a robot's. No more of them are kept.
- Where as many messages as there may be are in open windows, the next ones are shed, so that time goes on.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from heapq import heappop, heappush
from typing import NamedTuple

from operators.experiments.impression import SIDES, Impression
from schemas.preference import Click, Preference


class FeedbackOutcome(StrEnum):
    """The end of a feedback event: a closed list."""

    COUNTED = "counted"
    ROBOT = "robot"
    LATE = "late"
    EARLY = "early"
    SHED = "shed"
    IGNORED = "ignored"
    """It names no result, or no action that counts."""


class Closed(NamedTuple):
    """A window that has closed: its preference, and the offsets of its messages, rising."""

    preference: Preference
    offsets: Sequence[int]


_Query = tuple[str, str, str, int]
"""Experiment, namespace, query_id and time."""


@dataclass(slots=True)
class _Window:
    offsets: list[int] = field(default_factory=list)
    clicks: dict[tuple[str, str], Impression] = field(default_factory=dict)
    """The first impression of each document and action."""


class Windows:
    """The open windows of one partition, from one assignment to its end. Times are in ms."""

    def __init__(self, length: int, most_clicks: int, most_open: int) -> None:
        """Keep windows of this length, with at most `most_open` messages in all of them."""
        self._length = length
        self._most_clicks = most_clicks
        self._most_open = most_open
        self._open = 0
        self._time = 0
        self._ends: list[tuple[int, _Query]] = []
        self._windows: dict[_Query, _Window] = {}

    def advance(self, time: int) -> list[Closed]:
        """Note that this time has come; the windows whose ends it has passed, in the order of these."""
        self._time = max(self._time, time)
        closed = []
        while self._ends and self._ends[0][0] < self._time:
            _, query = heappop(self._ends)
            window = self._windows.pop(query)
            self._open -= len(window.offsets)
            closed.append(Closed(self._judge(query, window.clicks), window.offsets))
        return closed

    def add(self, impression: Impression, action: str, offset: int, time: int) -> FeedbackOutcome | None:
        """Take a message of this time, to which time has advanced; its outcome, or None while its window is open."""
        experiment, _, _, document_id, query_id, namespace, issued = impression
        end = issued + self._length
        if end < self._time:
            return FeedbackOutcome.LATE
        if time < issued - self._length:
            return FeedbackOutcome.EARLY
        if self._open >= self._most_open:
            return FeedbackOutcome.SHED
        query = experiment, namespace, query_id, issued
        if (window := self._windows.get(query)) is None:
            window = self._windows[query] = _Window()
            heappush(self._ends, (end, query))
        window.offsets.append(offset)
        self._open += 1
        if len(window.clicks) <= self._most_clicks:
            window.clicks.setdefault((document_id, action), impression)
        return None

    def _judge(self, query: _Query, clicks: Mapping[tuple[str, str], Impression]) -> Preference:
        experiment, namespace, query_id, issued = query
        found: dict[str, tuple[Impression, list[str]]] = {}
        for (document_id, action), impression in clicks.items():
            found.setdefault(document_id, (impression, []))[1].append(action)
        a, b = (sum(each.side == side for each in clicks.values()) for side in SIDES)
        return Preference(
            experiment=experiment,
            query_id=query_id,
            namespace=namespace,
            issued=issued,
            a=a,
            b=b,
            preferred="a" if a > b else "b" if b > a else "tie",
            clicks=[Click(id=id_, rank=at.rank, side=at.side, actions=sorted(of)) for id_, (at, of) in found.items()],
            robot=len(clicks) > self._most_clicks,
        )
