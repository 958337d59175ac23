"""A closed loop around an operator: a fixed number of queries unanswered at a time, and how long each took."""

import time
from collections import deque
from collections.abc import Sequence
from datetime import UTC, datetime

from bytewax.inputs import DynamicSource, StatelessSourcePartition
from bytewax.outputs import DynamicSink, StatelessSinkPartition

from operators.inflight import InFlight
from operators.wakeup import Wakeup


class ClosedLoop:
    """Sends `queries`, at most `concurrency` of them unanswered; latencies in seconds, in the order of the answers."""

    def __init__(self, queries: Sequence[InFlight], concurrency: int, wakeup: Wakeup) -> None:
        self.latencies: list[float] = []
        self.answered: list[InFlight] = []
        self.source = _Source(self)
        self.sink = _Sink(self)
        self._waiting = deque(queries)
        self._concurrency = concurrency
        self._sent: dict[int, float] = {}
        self.wakeup = wakeup

    def send(self) -> list[InFlight]:
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


class _Sending(StatelessSourcePartition[list[InFlight]]):
    def __init__(self, loop: ClosedLoop) -> None:
        self._loop = loop

    def next_batch(self) -> list[list[InFlight]]:
        batch = self._loop.send()
        if batch:
            return [batch]
        self._loop.wakeup.wait()
        return []

    def next_awake(self) -> datetime | None:
        return datetime.now(UTC)


class _Source(DynamicSource[list[InFlight]]):
    def __init__(self, loop: ClosedLoop) -> None:
        self._loop = loop

    def build(self, step_id: str, worker_index: int, worker_count: int) -> _Sending:  # noqa: ARG002  the engine's
        return _Sending(self._loop)


class _Answering(StatelessSinkPartition[list[InFlight]]):
    def __init__(self, loop: ClosedLoop) -> None:
        self._loop = loop

    def write_batch(self, items: list[list[InFlight]]) -> None:
        for batch in items:
            self._loop.answer(batch)


class _Sink(DynamicSink[list[InFlight]]):
    def __init__(self, loop: ClosedLoop) -> None:
        self._loop = loop

    def build(self, step_id: str, worker_index: int, worker_count: int) -> _Answering:  # noqa: ARG002  the engine's
        return _Answering(self._loop)
