"""Asynchronous calls from a dataflow: the engine's worker hands work over and never waits for it.

Rules
-----
- A stage's work lives on one event-loop thread. The worker submits a batch with one hand-over and picks up what has
  finished when it comes by; a finished call sets the process's wake-up event.
- An item asks for one request a *lane* (say, each leg of a collection). Requests of many items gather in their lane
  into one call: a lane with a free slot calls at once with what is there, at most `max_batch`; a busy one gathers.
  A freed slot is filled on the loop's own thread.
- At most `max_concurrency` calls a lane and `max_pending` items a stage. An item over that gets its outcomes at once.
- Every request ends at its deadline, whether it waits or is under way: the outcome is then a BackendTimeout, and
  DeadlinePassed if the item's own time is over. No call is made for it afterwards, and one that nobody waits for any
  more is cancelled.
- An outcome is a value: what the call returned for that request, or a BackendError. Anything else that a call raises
  is a defect of ours: the log has its traceback, and the call's requests a BackendBadResponse. What `plan` raises for
  an item is raised where its outcomes are asked for.
- An item leaves when its last request has an outcome.
"""

import asyncio
import logging
import time
import traceback
from collections import deque
from collections.abc import Awaitable, Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Generic, TypeVar

from operators.event_loop import EventLoopThread
from schemas.errors import BackendBadResponse, BackendError, BackendTimeout, BackendUnavailable, DeadlinePassed

log = logging.getLogger(__name__)

T = TypeVar("T")
Q = TypeVar("Q")
R = TypeVar("R")

Lane = Hashable

_LATE: Final = "no answer before the deadline"


@dataclass(frozen=True, slots=True)
class Bounds:
    """How much a stage takes on: `timeout` in seconds from submission, on top of each item's own deadline."""

    timeout: float
    max_batch: int
    max_concurrency: int
    max_pending: int = 4096


@dataclass(frozen=True, slots=True)
class Finished(Generic[T, R]):
    """An item and what became of its requests, unless `plan` failed for it."""

    item: T
    results: Mapping[Lane, R | BackendError]
    defect: Exception | None = None

    @property
    def outcomes(self) -> Mapping[Lane, R | BackendError]:
        """What became of the requests, by lane. Raises what `plan` raised."""
        if self.defect is not None:
            raise self.defect
        return self.results


@dataclass(slots=True, eq=False)
class _Job(Generic[T, R]):
    item: T
    waiting: int
    outcomes: dict[Lane, R | BackendError] = field(default_factory=dict)


@dataclass(slots=True, eq=False)
class _Request(Generic[T, Q, R]):
    job: _Job[T, R]
    lane: Lane
    query: Q
    deadline: float
    call: "_Call | None" = None


@dataclass(slots=True, eq=False)
class _Call:
    task: "asyncio.Task[None] | None" = None
    waiting: int = 0


@dataclass(slots=True)
class _LaneState(Generic[T, Q, R]):
    queue: deque[_Request[T, Q, R]] = field(default_factory=deque)
    running: int = 0


class Dispatcher(Generic[T, Q, R]):
    """One stage's calls: `submit` and `drain` on the worker's thread, everything else on the loop's."""

    def __init__(
        self,
        calls: EventLoopThread,
        plan: Callable[[T], Mapping[Lane, Q]],
        call: Callable[[Lane, Sequence[Q], float], Awaitable[Sequence[R | BackendError]]],
        deadline: Callable[[T], float],
        bounds: Bounds,
    ) -> None:
        self._calls = calls
        self._plan = plan
        self._call = call
        self._deadline = deadline
        self._bounds = bounds
        self._lanes: dict[Lane, _LaneState[T, Q, R]] = {}
        self._live: dict[_Request[T, Q, R], None] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._finished: deque[Finished[T, R]] = deque()
        self._submitted = 0
        self._drained = 0

    @property
    def outstanding(self) -> int:
        """Items submitted and not yet drained."""
        return self._submitted - self._drained

    def submit(self, items: Sequence[T]) -> None:
        """Hand items over to the loop."""
        self._submitted += len(items)
        room = self._bounds.max_pending - (self.outstanding - len(items))
        self._calls.loop.call_soon_threadsafe(self._accept, items[: max(0, room)], items[max(0, room) :])

    def drain(self) -> list[Finished[T, R]]:
        """What has finished since."""
        drained = []
        while self._finished:
            drained.append(self._finished.popleft())
        self._drained += len(drained)
        return drained

    def _accept(self, items: Sequence[T], refused: Sequence[T]) -> None:
        latest = time.monotonic() + self._bounds.timeout
        deadlines = [min(self._deadline(item), latest) for item in items]
        for item, deadline in zip(items, deadlines, strict=True):
            if (queries := self._planned(item)) is not None:
                self._enqueue(item, queries, deadline)
        for item in refused:
            if (queries := self._planned(item)) is not None:
                error = BackendUnavailable("the stage is full")
                self._finished.append(Finished(item, dict.fromkeys(queries, error)))
        for lane in list(self._lanes):
            self._fill(lane)
        if deadlines:
            self._arm(min(deadlines))
        if self._finished:
            self._calls.wakeup.set()

    def _planned(self, item: T) -> Mapping[Lane, Q] | None:
        try:
            return self._plan(item)
        except Exception as error:  # noqa: BLE001  it is raised where the item's outcomes are asked for
            self._finished.append(Finished(item, {}, error))
            return None

    def _enqueue(self, item: T, queries: Mapping[Lane, Q], deadline: float) -> None:
        job: _Job[T, R] = _Job(item, len(queries))
        if not queries:
            self._finished.append(Finished(item, {}))
        for lane, query in queries.items():
            request = _Request(job, lane, query, deadline)
            self._live[request] = None
            self._lanes.setdefault(lane, _LaneState()).queue.append(request)

    def _fill(self, lane: Lane) -> None:
        state = self._lanes[lane]
        now = time.monotonic()
        while state.queue and state.running < self._bounds.max_concurrency:
            batch: list[_Request[T, Q, R]] = []
            while state.queue and len(batch) < self._bounds.max_batch:
                request = state.queue.popleft()
                if request.deadline <= now:
                    self._settle(request, BackendTimeout(_LATE))
                    self._calls.wakeup.set()
                elif request in self._live:
                    batch.append(request)
            if batch:
                call = _Call(waiting=len(batch))
                for request in batch:
                    request.call = call
                state.running += 1
                call.task = self._calls.loop.create_task(self._run(lane, batch))
                # Not at the end of the call: one that is cancelled before it begins never gets there.
                call.task.add_done_callback(lambda _: self._freed(lane, state))
        if not state.queue and not state.running:
            del self._lanes[lane]

    def _freed(self, lane: Lane, state: _LaneState[T, Q, R]) -> None:
        state.running -= 1
        self._fill(lane)

    async def _run(self, lane: Lane, batch: Sequence[_Request[T, Q, R]]) -> None:
        outcomes: Sequence[R | BackendError] = ()
        try:
            left = max(request.deadline for request in batch) - time.monotonic()
            outcomes = await self._call(lane, [request.query for request in batch], max(left, 0.001))
            if len(outcomes) != len(batch):
                raise RuntimeError(f"{len(outcomes)} outcomes for {len(batch)} requests")
        except BackendError as error:
            outcomes = [error] * len(batch)
        except asyncio.CancelledError:
            pass
        except Exception as error:  # noqa: BLE001  reported and accounted for
            # Not the error's own message: it may quote a query.
            where = "".join(traceback.format_tb(error.__traceback__))
            log.error("defect in a call: %s\n%s", type(error).__name__, where)
            outcomes = [BackendBadResponse(f"a defect of ours: {type(error).__name__}")] * len(batch)
        for request, outcome in zip(batch, outcomes, strict=False):
            self._settle(request, outcome)
        self._calls.wakeup.set()

    def _settle(self, request: _Request[T, Q, R], outcome: R | BackendError) -> None:
        if request not in self._live:
            return
        del self._live[request]
        job = request.job
        if isinstance(outcome, BackendTimeout) and self._deadline(job.item) <= time.monotonic():
            outcome = DeadlinePassed(str(outcome))
        job.outcomes[request.lane] = outcome
        job.waiting -= 1
        if request.call is not None:
            request.call.waiting -= 1
        if not job.waiting:
            self._finished.append(Finished(job.item, job.outcomes))

    def _arm(self, earliest: float) -> None:
        # The timer that is set covers what was there before.
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
            self._settle(request, BackendTimeout(_LATE))
            call = request.call
            if call is not None and not call.waiting and call.task is not None:
                call.task.cancel()
        if self._live:
            self._arm(min(request.deadline for request in self._live))
        if late:
            self._calls.wakeup.set()
