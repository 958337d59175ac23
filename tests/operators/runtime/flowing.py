"""A flow around one stage: batches in, and what came out."""

import time
from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime
from typing import Any

from bytewax import operators as op
from bytewax.dataflow import Dataflow, Stream
from bytewax.inputs import DynamicSource, StatelessSourcePartition
from bytewax.testing import TestingSink, run_main

_TURN = 0.001


class Batches(DynamicSource[list[Any]]):
    """Sends batches, `pause` seconds apart, then empty ones until as many items as it sent are in `out`."""

    def __init__(self, batches: Iterable[Sequence[Any]], out: list[list[Any]], pause: float = 0.0) -> None:
        self.batches = batches
        self.out = out
        self.pause = pause

    def build(self, step_id: str, worker_index: int, worker_count: int) -> "_Sending":
        """The one partition."""
        return _Sending(self)


class _Sending(StatelessSourcePartition[list[Any]]):
    def __init__(self, source: Batches) -> None:
        self._source = source
        self._batches = iter(source.batches)
        self._sent = 0
        self._ended = False

    def next_batch(self) -> list[list[Any]]:
        if not self._ended:
            try:
                batch = list(next(self._batches))
            except StopIteration:
                self._ended = True
            else:
                self._sent += len(batch)
                time.sleep(self._source.pause)
                return [batch]
        if sum(map(len, self._source.out)) >= self._sent:
            raise StopIteration
        time.sleep(_TURN)
        return [[]]

    def next_awake(self) -> datetime:
        return datetime.now(UTC)


def kept(finished: Sequence[Any]) -> list[Any]:
    """Takes outcomes over as they are, so that a test sees them in the place of their items."""
    return list(finished)


def flowed(batches: Iterable[Sequence[Any]], stage: Callable[[Stream[Any]], Stream[Any]]) -> list[list[Any]]:
    """Run batches of items through a stage: the batches that left it, without those that were empty."""
    out: list[list[Any]] = []
    flow = Dataflow("flowing")
    up = op.input("in", flow, Batches(batches, out))
    op.output("out", stage(up), TestingSink(out))
    run_main(flow)
    return [items for items in out if items]


def items(batches: Iterable[Sequence[Any]], stage: Callable[[Stream[Any]], Stream[Any]]) -> list[Any]:
    """The items that left a stage."""
    return [item for batch in flowed(batches, stage) for item in batch]
