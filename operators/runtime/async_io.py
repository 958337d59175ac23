"""Asynchronous calls from a dataflow: the engine's worker hands work over to a dispatcher and never waits for it."""

import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Generic, TypeVar

from bytewax import operators as op
from bytewax.dataflow import Stream, operator
from bytewax.operators import StatefulBatchLogic

from operators.runtime.batching.policy import BatchingPolicy, Whole
from operators.runtime.dispatcher import BatchKey, Bounds, Dispatcher, Finished
from operators.runtime.event_loop import EventLoopThread
from schemas.errors import BackendError

T = TypeVar("T")
Q = TypeVar("Q")
R = TypeVar("R")


class _Logic(StatefulBatchLogic[list[T], list[Finished[T, R]], None], Generic[T, Q, R]):
    def __init__(self, dispatcher: Dispatcher[T, Q, R]) -> None:
        self._dispatcher = dispatcher

    def on_batch(self, values: list[list[T]]) -> tuple[list[list[Finished[T, R]]], bool]:
        self._dispatcher.submit([item for batch in values for item in batch])
        return self.on_notify()

    def on_notify(self) -> tuple[list[list[Finished[T, R]]], bool]:
        finished = self._dispatcher.drain()
        return ([finished] if finished else []), StatefulBatchLogic.RETAIN

    def on_eof(self) -> tuple[list[list[Finished[T, R]]], bool]:
        # The engine asks once at the end of a finite input and drops what isn't there then.
        finished: list[Finished[T, R]] = []
        while self._dispatcher.outstanding:
            finished += self._dispatcher.drain()
            time.sleep(0.001)
        return ([finished] if finished else []), StatefulBatchLogic.RETAIN

    def notify_at(self) -> datetime | None:
        return datetime.now(UTC) if self._dispatcher.outstanding else None

    def snapshot(self) -> None:
        return None


_BATCH_KEY = "0"
"""One worker a process: one key holds the whole stage's state."""


@operator
def async_io(
    step_id: str,
    up: Stream[list[T]],
    calls: EventLoopThread,
    requests: Callable[[T], Mapping[BatchKey, Q]],
    call: Callable[[BatchKey, Sequence[Q], float], Awaitable[Sequence[R | BackendError]]],
    deadline: Callable[[T], float],
    bounds: Bounds,
    batching: BatchingPolicy[Q, R] | None = None,
    in_flight: Callable[[BatchKey, int], None] | None = None,
) -> Stream[list[Finished[T, R]]]:
    """Make each item's requests, batched by key, and pass the item on with their outcomes; order is not kept.

    `requests` maps an item to its requests by batch key; an item without requests passes at once. `call` makes one call
    for many requests of a batch key, within the given seconds. `deadline` gives an item's deadline on the monotonic
    clock. `batching` decides which requests a call carries; default: up to `bounds.max_batch`. `in_flight` is called
    with a batch key and its calls under way whenever their number changes.

    Threads: `requests`, `call`, `deadline`, `batching` and `in_flight` are called on the event-loop thread of `calls`
    only, so none of them may block, and they need no locks among themselves. The engine's worker calls none of them.
    What `requests` raises is raised on the worker, where the next step reads the item's outcomes.
    """

    def logic(_: None) -> _Logic[T, Q, R]:
        select = batching if batching is not None else Whole(bounds.max_batch)
        return _Logic(Dispatcher(calls, requests, call, deadline, bounds, select, in_flight))

    keyed = op.map("key", up, lambda batch: (_BATCH_KEY, batch))
    done = op.stateful_batch("calls", keyed, logic)
    return op.map("unkey", done, lambda pair: pair[1])
