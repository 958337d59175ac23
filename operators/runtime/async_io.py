"""Asynchronous calls from a dataflow: the engine's worker hands work over to a dispatcher and never waits for it."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Generic, TypeVar

from bytewax import operators as op
from bytewax.dataflow import Stream, operator

from operators.query.message import Rejected
from operators.runtime.batching.policy import BatchingPolicy, Whole
from operators.runtime.dispatcher import BatchKey, Bounds, Dispatcher, Finished
from operators.runtime.event_loop import EventLoopThread
from operators.runtime.load import Load
from operators.runtime.stage import Batch, I, parted
from schemas.errors import BackendError

Q = TypeVar("Q")
R = TypeVar("R")

Take = Callable[[Sequence[Finished[I, R]]], list[I | Rejected]]
"""What becomes of items whose outcomes are there."""


class _Asking(Generic[I, Q, R]):
    """One stage's items on their way through its dispatcher."""

    def __init__(self, dispatcher: Dispatcher[I, Q, R], take: Take[I, R], wanted: Callable[[I], bool]) -> None:
        self._dispatcher = dispatcher
        self._take = take
        self._wanted = wanted

    def swept(self, batches: list[Batch[I]]) -> list[Batch[I]]:
        """What has an outcome by now; what has none is asked for."""
        live, out = parted(item for items in batches for item in items)
        asking: list[I] = []
        finished: list[Finished[I, R]] = []
        for item in live:
            if self._wanted(item):
                asking.append(item)
            else:
                finished.append(Finished(item, {}))
        if asking:
            self._dispatcher.submit(asking)
        finished += self._dispatcher.drain()
        if finished:
            out += self._take(finished)
        return [out]


@operator
def async_io(
    step_id: str,
    up: Stream[Batch[I]],
    calls: EventLoopThread,
    requests: Callable[[I], Mapping[BatchKey, Q]],
    call: Callable[[BatchKey, Sequence[Q], float], Awaitable[Sequence[R | BackendError]]],
    deadline: Callable[[I], float],
    bounds: Bounds,
    take: Take[I, R],
    wanted: Callable[[I], bool] = lambda _: True,
    batching: BatchingPolicy[Q, R] | None = None,
    load: Load | None = None,
) -> Stream[Batch[I]]:
    """Make each item's requests, batched by key, and pass on what `take` makes of their outcomes; order is not kept.

    `requests` maps an item to its requests by batch key; an item that isn't `wanted` has none, and passes at once.
    `call` makes one call for many requests of a batch key, within the given seconds. `deadline` gives an item's
    deadline on the monotonic clock. `batching` decides which requests a call carries; default: up to
    `bounds.max_batch`. `load` is told when a call begins, and how many are under way whenever that changes.

    What has finished leaves with the next batch, so the source sends one, perhaps empty, whenever it is woken, and ends
    only when nothing is on its way any more.

    Threads: `requests`, `call`, `deadline`, `batching` and `load` are called on the event-loop thread of `calls`
    only, so none of them may block, and they need no locks among themselves. The engine's worker calls `take` and
    `wanted`. What `requests` raises is raised on the worker, where `take` reads the item's outcomes.
    """

    select = batching if batching is not None else Whole(bounds.max_batch)
    dispatcher = Dispatcher(calls, requests, call, deadline, bounds, select, load)
    return op.flat_map_batch("calls", up, _Asking(dispatcher, take, wanted).swept)
