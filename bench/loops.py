"""Loads on an operator: a source that sends queries as a load says, and a sink that gives it the answers.

A closed loop keeps a fixed number of queries unanswered; an open one sends them when they are due, whatever became of
those before.
"""

import threading
import time
from collections import deque
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import NamedTuple, Protocol

from bytewax.inputs import DynamicSource, StatelessSourcePartition
from bytewax.outputs import DynamicSink, StatelessSinkPartition

from operators.query.in_flight import InFlight
from operators.runtime.event_loop import Wakeup
from operators.wire.message import Rejected

Queries = list[InFlight | Rejected]
"""A batch of queries."""


class Load(Protocol):
    """A loop decides when queries are sent; it sets `wakeup` when there may be some."""

    wakeup: Wakeup

    def due(self) -> list[InFlight]:
        """The queries to send now. Raises StopIteration when there will be none any more."""
        ...

    def answer(self, batch: Sequence[InFlight]) -> None:
        """Take answers in."""
        ...


class Source(DynamicSource[Queries]):
    """A load as an operator's input."""

    def __init__(self, load: Load) -> None:
        self._load = load

    def build(self, step_id: str, worker_index: int, worker_count: int) -> "_Sending":  # noqa: ARG002  the engine's
        """The one partition."""
        return _Sending(self._load)


class Sink(DynamicSink[Queries]):
    """A load as an operator's output."""

    def __init__(self, load: Load) -> None:
        self._load = load

    def build(self, step_id: str, worker_index: int, worker_count: int) -> "_Answering":  # noqa: ARG002  the engine's
        """The one partition."""
        return _Answering(self._load)


class _Sending(StatelessSourcePartition[Queries]):
    def __init__(self, load: Load) -> None:
        self._load = load

    def next_batch(self) -> list[Queries]:
        batch: list[InFlight | Rejected] = [*self._load.due()]
        # At each wake-up there is a batch, even an empty one: what has finished leaves with it.
        return [batch] if batch or self._load.wakeup.wait() else []

    def next_awake(self) -> datetime | None:
        return datetime.now(UTC)


class _Answering(StatelessSinkPartition[Queries]):
    def __init__(self, load: Load) -> None:
        self._load = load

    def write_batch(self, items: list[Queries]) -> None:
        for batch in items:
            self._load.answer([each for each in batch if isinstance(each, InFlight)])


class ClosedLoop:
    """Sends `queries`, at most `concurrency` of them unanswered; latencies in seconds, in the order of the answers."""

    def __init__(self, queries: Sequence[InFlight], concurrency: int, wakeup: Wakeup) -> None:
        self.latencies: list[float] = []
        self.answered: list[InFlight] = []
        self._waiting = deque(queries)
        self._concurrency = concurrency
        self._sent: dict[int, float] = {}
        self.wakeup = wakeup

    def due(self) -> list[InFlight]:
        """As many as may go out now. Raises StopIteration when all are answered."""
        if not self._waiting and not self._sent:
            raise StopIteration
        batch: list[InFlight] = []
        while self._waiting and len(self._sent) < self._concurrency:
            batch.append(self._waiting.popleft())
            self._sent[id(batch[-1])] = time.perf_counter()
        return batch

    def answer(self, batch: Sequence[InFlight]) -> None:
        """Take the answers in."""
        now = time.perf_counter()
        self.latencies += [now - self._sent.pop(id(each)) for each in batch]
        self.answered += batch


class Answer(NamedTuple):
    """A query as it left the stage, and when, on the monotonic clock."""

    query: InFlight
    at: float


class OpenLoop:
    """Passes queries on when they are sent, from any thread, until `end`; `answers` are in the order they came."""

    def __init__(self, wakeup: Wakeup) -> None:
        self.wakeup = wakeup
        self.answers: list[Answer] = []
        self._due: deque[InFlight] = deque()
        self._sent = 0
        self._ended = threading.Event()

    def send(self, query: InFlight) -> None:
        """Send one."""
        self._due.append(query)
        self.wakeup.set()

    def end(self) -> None:
        """Send no more."""
        self._ended.set()
        self.wakeup.set()

    def due(self) -> list[InFlight]:
        """The queries sent since. Raises StopIteration at the end, when all is answered."""
        # Asked first: what is sent before the end must not be left.
        ended = self._ended.is_set()
        batch = [self._due.popleft() for _ in range(len(self._due))]
        self._sent += len(batch)
        if ended and not batch and len(self.answers) == self._sent:
            raise StopIteration
        return batch

    def answer(self, batch: Sequence[InFlight]) -> None:
        """Take answers in."""
        now = time.monotonic()
        self.answers += [Answer(query, now) for query in batch]
