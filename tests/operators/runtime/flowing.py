"""A flow around one stage: batches in, and what came out."""

import time
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Generic, TypeVar

from bytewax import operators as op
from bytewax.dataflow import Dataflow
from bytewax.inputs import DynamicSource, StatelessSourcePartition
from bytewax.run import cli_main
from bytewax.testing import TestingSink

from operators.runtime.batching.policy import BatchingPolicy, Whole
from operators.runtime.dispatcher import AsyncStage, BatchKey, Bounds, Load
from operators.runtime.stage import KEY, Batches
from schemas.errors import BackendError

_TURN = 0.001

Outcome = TypeVar("Outcome")


class Sent(DynamicSource[list[Any]]):
    """Sends batches, `pause` seconds apart, then empty ones until as many items as it sent are in `out`."""

    def __init__(self, batches: Iterable[Sequence[Any]], out: list[list[Any]], pause: float = 0.0) -> None:
        self.batches = batches
        self.out = out
        self.pause = pause

    def build(self, step_id: str, worker_index: int, worker_count: int) -> "_Sending":
        """The one partition."""
        return _Sending(self)


class _Sending(StatelessSourcePartition[list[Any]]):
    def __init__(self, source: Sent) -> None:
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


@dataclass(frozen=True)
class Finished(Generic[Outcome]):
    """An item and the outcome of its request; not `asked`: it had none."""

    item: Any
    outcome: Outcome | BackendError | None = None
    asked: bool = True


@dataclass(frozen=True)
class Asking(AsyncStage[Any, Any]):
    """A stage made of functions, which passes on outcomes in the place of their items."""

    plan: Callable[[Any], tuple[BatchKey, Any] | None]
    backend: Callable[[BatchKey, Sequence[Any], float], Awaitable[Sequence[Any]]]
    bounds: Bounds
    until: Callable[[Any], float]
    wanted: Callable[[Any], bool] = lambda _: True
    policy: BatchingPolicy[Any, Any] | None = None
    load: Load | None = None

    @property
    def step(self) -> str:
        """The stage's name."""
        return "asking"

    @property
    def batching(self) -> BatchingPolicy[Any, Any]:
        """The one that is given."""
        return self.policy if self.policy is not None else Whole(self.bounds.max_batch)

    def deadline(self, item: Any) -> float:
        """As it is given."""
        return self.until(item)

    def request(self, item: Any) -> tuple[BatchKey, Any] | None:
        """As it is given, where one is wanted."""
        return self.plan(item) if self.wanted(item) else None

    async def call(self, batch_key: BatchKey, requests: Sequence[Any], timeout: float) -> Sequence[Any]:
        """Call what is given."""
        return await self.backend(batch_key, requests, timeout)

    def on_result(self, item: Any, outcome: Any) -> Finished[Any]:
        """The outcome itself."""
        return Finished(item, outcome)

    def on_unasked(self, item: Any) -> Finished[Any]:
        """That there is none."""
        return Finished(item, asked=False)


def flowed(batches: Iterable[Sequence[Any]], stage: Callable[[Batches], Batches]) -> list[list[Any]]:
    """Run batches of items through a stage: the batches that left it, without those that were empty."""
    out: list[list[Any]] = []
    flow = Dataflow("flowing")
    up = op.key_on("key", op.input("in", flow, Sent(batches, out)), lambda _: KEY)
    op.output("out", op.key_rm("batches", stage(up)), TestingSink(out))
    cli_main(flow)
    return [items for items in out if items]


def items(batches: Iterable[Sequence[Any]], stage: Callable[[Batches], Batches]) -> list[Any]:
    """The items that left a stage."""
    return [item for batch in flowed(batches, stage) for item in batch]
