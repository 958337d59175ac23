"""Asynchronous calls from a dataflow: the engine's worker submits items and never waits for their calls.

Rules
-----
- A stage's calls run on one event-loop thread. The worker submits a batch with one message to that thread and drains
  the finished items when the engine runs the stage again; a finished call sets the process's wake-up event.
- An item has at most one request for each *batch key* (say, for each leg of a collection). Each batch key has a
  backlog, in which the requests of many items become calls (its rules: `operators.runtime.batching.backlog`). A call
  that ends lets the next one start, on the event-loop thread.
- A batch key has at most `max_concurrency` calls under way, a stage at most `max_pending` items; further ones fail.
- Every request ends at its deadline, whether it waits or is under way: the outcome is then a BackendTimeout, and
  DeadlinePassed if the item's own time is over. No call is made for it afterwards; a call is cancelled with its last
  request.
- A divided request ends with the units before the first that is late, not sent or failed, if its batching policy makes
  an outcome of these; otherwise with the error.
- An outcome is a value: what the call returned for that request, or a BackendError. Anything else that a call raises
  is a defect: it is logged with its traceback, and the call's requests get a BackendBadResponse. What `requests` raises
  for an item is raised where its outcomes are read.
- An item leaves when its last request has an outcome.
"""

import asyncio
import time
from collections import deque
from collections.abc import Awaitable, Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final, Generic, TypeVar

from operators.runtime.batching.backlog import Backlog
from operators.runtime.batching.policy import BatchingPolicy
from operators.runtime.batching.request import Request, Slice
from operators.runtime.defect import defect_of_call
from operators.runtime.event_loop import EventLoopThread
from operators.runtime.job import Call, Job, Live
from operators.runtime.load import Load
from schemas.errors import BackendError, BackendTimeout, BackendUnavailable, DeadlinePassed

T = TypeVar("T")
Q = TypeVar("Q")
R = TypeVar("R")

BatchKey = Hashable

_LATE: Final = "no answer before the deadline"
_HOPELESS: Final = "not asked: no answer could come before the deadline"
_SHORT: Final = "asked in part: not all could be answered before the deadline"


@dataclass(frozen=True, slots=True)
class Bounds:
    """The limits of a stage: `timeout` in seconds from submission, beside each item's own deadline.

    `max_batch` limits the requests of a call in stages without a batching policy of their own. A `max_concurrency` of 0
    or less is no limit.
    """

    timeout: float
    max_batch: int
    max_concurrency: int
    max_pending: int = 4096


@dataclass(frozen=True, slots=True)
class Finished(Generic[T, R]):
    """An item and the outcomes of its requests, unless `requests` failed for it."""

    item: T
    results: Mapping[BatchKey, R | BackendError]
    defect: Exception | None = None

    @property
    def outcomes(self) -> Mapping[BatchKey, R | BackendError]:
        """The outcomes of the requests, by batch key. Raises what `requests` raised."""
        if self.defect is not None:
            raise self.defect
        return self.results


class Dispatcher(Generic[T, Q, R]):
    """One stage's calls: `submit` and `drain` on the worker's thread, everything else on the loop's.

    `load` is told when a call begins, and how many are under way whenever that changes.
    """

    def __init__(
        self,
        calls: EventLoopThread,
        requests: Callable[[T], Mapping[BatchKey, Q]],
        call: Callable[[BatchKey, Sequence[Q], float], Awaitable[Sequence[R | BackendError]]],
        deadline: Callable[[T], float],
        bounds: Bounds,
        batching: BatchingPolicy[Q, R],
        load: Load | None = None,
    ) -> None:
        self._calls = calls
        self._requests = requests
        self._call = call
        self._deadline = deadline
        self._bounds = bounds
        self._batching = batching
        self._load = load
        self._backlogs: dict[BatchKey, Backlog[Q, R]] = {}
        self._live: dict[Request[Q, R], Live[T, R]] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._finished: deque[Finished[T, R]] = deque()
        self._submitted = 0
        self._drained = 0

    @property
    def outstanding(self) -> int:
        """Items submitted and not yet drained."""
        return self._submitted - self._drained

    def submit(self, items: Sequence[T]) -> None:
        """Send items to the event-loop thread."""
        self._submitted += len(items)
        room = self._bounds.max_pending - (self.outstanding - len(items))
        self._calls.submit(self._accept, items[: max(0, room)], items[max(0, room) :])

    def drain(self) -> list[Finished[T, R]]:
        """The items that have finished since the last call."""
        drained = []
        while self._finished:
            drained.append(self._finished.popleft())
        self._drained += len(drained)
        return drained

    def _accept(self, items: Sequence[T], refused: Sequence[T]) -> None:
        latest = time.monotonic() + self._bounds.timeout
        deadlines = [min(self._deadline(item), latest) for item in items]
        for item, deadline in zip(items, deadlines, strict=True):
            if (queries := self._requested(item)) is not None:
                self._enqueue(item, queries, deadline)
        for item in refused:
            if (queries := self._requested(item)) is not None:
                error = BackendUnavailable(f"the stage already has {self._bounds.max_pending} items in flight")
                self._finish(Finished(item, dict.fromkeys(queries, error)))
        for batch_key in list(self._backlogs):
            self._fill(batch_key)
        if deadlines:
            self._arm(min(deadlines))

    def _requested(self, item: T) -> Mapping[BatchKey, Q] | None:
        try:
            return self._requests(item)
        except Exception as error:  # noqa: BLE001  it is raised where the item's outcomes are asked for
            self._finish(Finished(item, {}, error))
            return None

    def _enqueue(self, item: T, queries: Mapping[BatchKey, Q], deadline: float) -> None:
        job: Job[T, R] = Job(item, len(queries))
        now = time.monotonic()
        if not queries:
            self._finish(Finished(item, {}))
        for batch_key, query in queries.items():
            tenant, units = self._batching.tenant(query), self._batching.units(query)
            request: Request[Q, R] = Request(query, deadline, units, tenant)
            self._live[request] = Live(job, batch_key, now)
            if not request.units:
                self._settle(request, self._batching.merged(query, ()))
                continue
            backlog = self._backlogs.get(batch_key)
            if backlog is None:
                backlog = self._backlogs[batch_key] = Backlog(self._batching, self._bounds.max_concurrency)
            backlog.put(request)

    def _fill(self, batch_key: BatchKey) -> None:
        backlog = self._backlogs[batch_key]
        now = time.monotonic()
        while True:
            for request in backlog.hopeless(now):
                what = _LATE if request.deadline <= now else _HOPELESS
                self._cut(request, request.taken, self._too_late(request, what))
            slices = backlog.take(now)
            if not slices:
                break
            call = Call(now, len(slices), sum(slice_.stop - slice_.start for slice_ in slices))
            for slice_ in slices:
                self._live[slice_.request].calls[slice_.start] = call
            call.task = self._calls.loop.create_task(self._run(batch_key, call, slices))
            # Not at the end of the call: a call that is cancelled before it begins never reaches its end.
            call.task.add_done_callback(partial(self._freed, batch_key, call))
            self._began(slices, now)

    def _too_late(self, request: Request[Q, R], what: str) -> BackendTimeout:
        """The error of a request that has too little time: whose time it is says which of the two."""
        its_own = self._deadline(self._live[request].job.item) <= request.deadline
        return DeadlinePassed(what) if its_own else BackendTimeout(what)

    def _freed(self, batch_key: BatchKey, call: Call, _: asyncio.Task[None]) -> None:
        backlog = self._backlogs[batch_key]
        backlog.freed(call.units, call.took, answered=call.answered)
        self._told()
        if not self._calls.closing:
            self._fill(batch_key)

    def _began(self, slices: Sequence[Slice[Q, R]], now: float) -> None:
        if self._load is not None:
            since = min(self._live[slice_.request].since for slice_ in slices)
            self._load.began(sum(slice_.stop - slice_.start for slice_ in slices), now - since)
            self._told()

    def _told(self) -> None:
        if self._load is not None:
            self._load.under_way(sum(backlog.in_flight for backlog in self._backlogs.values()))

    async def _run(self, batch_key: BatchKey, call: Call, slices: Sequence[Slice[Q, R]]) -> None:
        outcomes: Sequence[R | BackendError] = ()
        try:
            left = max(slice_.request.deadline for slice_ in slices) - time.monotonic()
            parts = [self._batching.part(each.request.query, each.start, each.stop) for each in slices]
            outcomes = await self._call(batch_key, parts, max(left, 0.001))
            if len(outcomes) != len(slices):
                raise RuntimeError(f"{len(outcomes)} outcomes for {len(slices)} requests")
            if not all(isinstance(outcome, BackendError) for outcome in outcomes):
                call.took = time.monotonic() - call.started
        except BackendError as error:
            outcomes = [error] * len(slices)
            if isinstance(error, BackendTimeout):
                call.took, call.answered = time.monotonic() - call.started, False
        except asyncio.CancelledError:
            call.took, call.answered = time.monotonic() - call.started, False
        except Exception as error:  # noqa: BLE001  reported and accounted for
            outcomes = [defect_of_call(error)] * len(slices)
        for slice_, outcome in zip(slices, outcomes, strict=False):
            self._answer(call, slice_, outcome)

    def _answer(self, call: Call, slice_: Slice[Q, R], outcome: R | BackendError) -> None:
        request = slice_.request
        live = self._live.get(request)
        if live is None or live.calls.get(slice_.start) is not call:
            return
        del live.calls[slice_.start]
        if isinstance(outcome, BackendError):
            self._cut(request, slice_.start, outcome)
            return
        request.answer(slice_, outcome)
        if request.complete:
            self._complete(request)

    def _cut(self, request: Request[Q, R], units: int, lost: BackendError) -> None:
        """Let the request end with its first units, for the others are lost; if these are too few, it ends at once."""
        live = self._live[request]
        least = self._batching.least
        if least is None or units < least:
            units = 0
        self._backlogs[live.batch_key].cut(request, units, lost)
        live.release(units)
        if request.complete:
            self._complete(request)

    def _complete(self, request: Request[Q, R]) -> None:
        if request.whole:
            self._settle(request, self._batching.merged(request.query, request.outcomes))
            return
        lost = request.lost if request.lost is not None else self._too_late(request, _SHORT)
        if isinstance(lost, BackendTimeout) and self._deadline(self._live[request].job.item) <= time.monotonic():
            lost = DeadlinePassed(str(lost))
        outcome = self._batching.partial(request.query, request.units, request.outcomes, lost)
        self._settle(request, lost if outcome is None else outcome)

    def _settle(self, request: Request[Q, R], outcome: R | BackendError) -> None:
        live = self._live.pop(request)
        live.release(0)
        job = live.job
        job.outcomes[live.batch_key] = outcome
        job.waiting -= 1
        if not job.waiting:
            self._finish(Finished(job.item, job.outcomes))

    def _finish(self, finished: Finished[T, R]) -> None:
        self._finished.append(finished)
        self._calls.wakeup.set()

    def _arm(self, earliest: float) -> None:
        # A timer that is set already covers the earlier requests.
        if self._timer is not None:
            if self._timer.when() <= earliest:
                return
            self._timer.cancel()
        self._timer = self._calls.loop.call_at(earliest, self._expire)

    def _expire(self) -> None:
        self._timer = None
        now = time.monotonic()
        late = [request for request in self._live if request.deadline <= now]
        for request in late:
            self._cut(request, request.answered, BackendTimeout(_LATE))
        if self._live:
            self._arm(min(request.deadline for request in self._live))
