"""Asynchronous calls from a dataflow: the engine's worker submits items and never waits for their calls.

Rules:
- A stage's calls run on one event-loop thread. The worker submits the requests of a batch with one message to that
  thread and drains the finished items when the engine runs the stage again; a finished call sets the process's wake-up
  event.
- Each *batch key* (say, a collection) has a backlog, in which the requests of many items become calls (its rules:
  `operators.runtime.batching.backlog`). A call that ends lets the next one start, on the event-loop thread.
- A batch key has at most `max_concurrency` calls under way, a stage at most `max_pending` items; further ones fail.
- Every request ends at its deadline, whether it waits or is under way: the outcome is then a BackendTimeout, and
  DeadlinePassed if the item's own time is over. No call is made for it afterwards; a call is cancelled with its last
  request.
- A divided request ends with the units before the first that is late, not sent or failed, if its batching policy makes
  an outcome of these; otherwise with the error.
- An outcome is a value: the call's result for that request, or a BackendError. Any other exception of a call is a
  defect: it is logged with its traceback, and each of the call's requests is asked again alone. The one with the defect
  gets a BackendBadResponse.
"""

import asyncio
import math
import time
import traceback
from abc import ABC, abstractmethod
from collections import defaultdict, deque
from collections.abc import Callable, Hashable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from typing import Any, ClassVar, Final, Generic, NamedTuple

import structlog

from operators.runtime.batching.backlog import Backlog, PendingRequest, Slice
from operators.runtime.batching.policy import BatchingPolicy, Outcome, Request, Whole
from operators.runtime.event_loop import PAUSE, EventLoopThread
from schemas.errors import BackendBadResponse, BackendError, BackendTimeout, BackendUnavailable, DeadlinePassed

log = structlog.stdlib.get_logger(__name__)

BatchKey = Hashable
Asked = tuple[Any, BatchKey, Request]
"""An item, its batch key and its request."""

Slices = Sequence[Slice[Request, Outcome]]

LONGEST_PAUSE: Final = 0.016
"""Seconds that an item which has waited for its call waits at most for others to leave with it."""

_GATHERED: Final = 1 / 16

_LATE: Final = "no answer before the deadline"
_EXPIRED: Final = "not asked: no answer could come before the deadline"
_SHORT: Final = "asked in part: not all could be answered before the deadline"


class Load(NamedTuple):
    """Callbacks on the loop's thread: a call's `units`, its longest `queued` seconds, the number `under_way`."""

    units: Callable[[float], None]
    queued: Callable[[float], None]
    under_way: Callable[[float], None]


class Bounds(NamedTuple):
    """The limits of a stage: `timeout` in seconds from submission, in addition to each item's own deadline.

    `max_batch` limits the requests of a call in stages without a batching policy of their own. A `max_concurrency` of 0
    or less is no limit.
    """

    timeout: float
    max_batch: int
    max_concurrency: int
    max_pending: int = 4096


class AsyncStage(ABC, Generic[Request, Outcome]):
    """The hooks of `async_stage`, which a subclass types by its items.

    `step` names the stage in dead letters. A `branch` is one of several stages that take the same stream: it passes on
    its own items only.

    Threads: `call`, `around`, `deadline`, `wakes`, `batching` and `load` are called on the event-loop thread only, so
    none of them may block, and they need no locks among themselves. The engine's worker calls the others, and runs the
    event loop while it waits: what `request` and `call` share needs no lock, either.

    >>> import asyncio
    >>> class Shout(AsyncStage[str, str]):
    ...     step, bounds = "shout", Bounds(timeout=1.0, max_batch=8, max_concurrency=2)
    ...     def request(self, item): return "all texts", item.text
    ...     async def call(self, batch_key, requests, timeout): return [text.upper() for text in requests]
    ...     def on_result(self, item, outcome): return f"{item.text} {outcome}"
    >>> asyncio.run(Shout().call("all texts", ["a", "b"], 1.0))
    ['A', 'B']
    """

    branch: ClassVar[bool] = False
    bounds: Bounds
    load: Load | None = None
    """Callbacks for measuring the load on the backend."""

    @property
    @abstractmethod
    def step(self) -> str:
        """The name of the stage."""

    @property
    def batching(self) -> BatchingPolicy[Request, Outcome]:
        """The choice of the requests that a call carries."""
        return Whole(self.bounds.max_batch)

    def takes(self, item: Any) -> bool:
        """True if a branch has something to do for the item. Another stage has for each that is not answered."""
        return not item.answered

    def deadline(self, item: Any) -> float:  # noqa: ARG002  for stages whose items have one
        """The item's deadline on the monotonic clock."""
        return math.inf

    @abstractmethod
    def request(self, item: Any) -> tuple[BatchKey, Request] | None:
        """The item's batch key and its request, if it has one. Raises InputError to reject the item."""

    def wakes(self, item: Any) -> bool:  # noqa: ARG002  for stages whose items wait for others
        """True if the engine is to be woken for the item, whose request has ended."""
        return True

    def around(self, items: Sequence[Any]) -> AbstractContextManager[Any]:  # noqa: ARG002  for stages with traces
        """The context in which one call for these items is made."""
        return nullcontext()

    @abstractmethod
    async def call(
        self, batch_key: BatchKey, requests: Sequence[Request], timeout: float
    ) -> Sequence[Outcome | BackendError]:
        """Make one call for many requests of a batch key, within `timeout` seconds; an outcome each."""

    @abstractmethod
    def on_result(self, item: Any, outcome: Any) -> Any:
        """The item after its outcome, or BackendError; None if it waits elsewhere. Raises InputError to reject it."""

    def on_unasked(self, item: Any) -> Any:
        """The item without a request goes on at once; None if it waits elsewhere. Raises InputError to reject it."""
        return item


@dataclass(slots=True, eq=False)
class _Call:
    """A call: its number of units, and the number of requests that wait for it.

    `took` is its duration in seconds; None if that says nothing of how long calls take. `answered`: it brought answers,
    otherwise it was given up by then.
    """

    started: float
    waiting: int
    units: int = 0
    task: "asyncio.Task[None] | None" = None
    begun: bool = False
    took: float | None = None
    answered: bool = True


@dataclass(slots=True, eq=False)
class _Live:
    """The item that a request belongs to, and the calls that carry it, by the first unit that each has of it.

    `waited`: the seconds before the latest of them began.
    """

    item: Any
    batch_key: BatchKey
    since: float
    waited: float = 0.0
    calls: dict[int, _Call] = field(default_factory=dict)

    def release(self, start: int) -> None:
        """Drop interest in all units at or after `start`; a call that no request waits for is cancelled."""
        for unit in [unit for unit in self.calls if unit >= start]:
            call = self.calls.pop(unit)
            call.waiting -= 1
            # One that has not begun sees by itself that nobody waits: cancelled, it would never reach its end.
            if not call.waiting and call.begun and call.task is not None:
                call.task.cancel()


def pause_of(waited: float, left: float) -> float:
    """The pause before the turn of the engine that passes an item on, by how long the item waited for its call.

    Seconds. It is a small part of that wait, and at most half of the time left before the item's deadline. While others
    wait for the backend, too, one turn passes several items on.
    """
    return max(PAUSE, min(waited * _GATHERED, LONGEST_PAUSE, left / 2))


def defect_of_call(error: BaseException) -> BackendBadResponse:
    """Log an error that is no BackendError; the outcome of the call's requests."""
    # Not the error's own message: it may quote a query or a document.
    where = "".join(traceback.format_tb(error.__traceback__))
    log.error("backend call raised an unexpected error", error=type(error).__name__, where=where)
    return BackendBadResponse(f"unexpected error: {type(error).__name__}")


class Dispatcher(Generic[Request, Outcome]):
    """One stage's calls: `submit` and `drain` on the worker's thread, everything else on the loop's."""

    def __init__(
        self, stage: AsyncStage[Request, Outcome], calls: EventLoopThread, clock: Callable[[], float] = time.monotonic
    ) -> None:
        """`clock` is that of the event loop."""
        self._stage = stage
        self._calls = calls
        self._now = clock
        self._batching = stage.batching
        self._load = stage.load
        self._backlogs: defaultdict[BatchKey, Backlog[Request, Outcome]] = defaultdict(
            lambda: Backlog(self._batching, stage.bounds.max_concurrency)
        )
        self._live: dict[PendingRequest[Request, Outcome], _Live] = {}
        self._under_way = 0
        self._timer: asyncio.TimerHandle | None = None
        self.finished: deque[tuple[Any, Outcome | BackendError]] = deque()
        """Items whose request has ended, with its outcome, until they are drained."""
        self._submitted = 0
        self._drained = 0

    @property
    def outstanding(self) -> int:
        """Items submitted and not yet drained."""
        return self._submitted - self._drained

    def submit(self, asked: Sequence[Asked[Request]]) -> None:
        """Send items to the event-loop thread."""
        room = max(0, self._stage.bounds.max_pending - self.outstanding)
        self._submitted += len(asked)
        self._calls.submit(self._accept, asked[:room], asked[room:])

    def drain(self) -> list[tuple[Any, Outcome | BackendError]]:
        """The items that have finished since the last call, with their outcomes."""
        # Another thread adds to them meanwhile.
        drained = [self.finished.popleft() for _ in range(len(self.finished))]
        self._drained += len(drained)
        return drained

    def _accept(self, asked: Sequence[Asked[Request]], refused: Sequence[Asked[Request]]) -> None:
        batching, now = self._batching, self._now()
        latest = now + self._stage.bounds.timeout
        deadlines = [min(self._stage.deadline(item), latest) for item, _, _ in asked]
        for (item, batch_key, query), deadline in zip(asked, deadlines, strict=True):
            units = batching.units(query)
            request: PendingRequest[Request, Outcome] = PendingRequest(query, deadline, units, batching.tenant(query))
            self._live[request] = _Live(item, batch_key, now)
            if units:
                self._backlogs[batch_key].put(request)
            else:
                self._complete(request, batching.combine(query, ()))
        for item, _, _ in refused:
            error = BackendUnavailable(f"the stage already has {self._stage.bounds.max_pending} items in flight")
            self._finish(item, error)
        for batch_key in list(self._backlogs):
            self._fill(batch_key)
        if deadlines:
            self._arm(min(deadlines))

    def _fill(self, batch_key: BatchKey) -> None:
        backlog = self._backlogs[batch_key]
        now = self._now()
        while backlog.waiting:
            for request in backlog.expired(now):
                what = _LATE if request.deadline <= now else _EXPIRED
                self._truncate(request, request.taken, self._too_late(request, what))
            slices = backlog.take(now)
            if not slices:
                break
            call = _Call(now, len(slices))
            longest = 0.0
            for slice_ in slices:
                live = self._live[slice_.request]
                live.calls[slice_.start] = call
                call.units += slice_.stop - slice_.start
                live.waited = now - live.since
                longest = max(longest, live.waited)
            call.task = self._calls.loop.create_task(self._run(batch_key, call, slices))
            self._under_way += 1
            if self._load is not None:
                self._load.units(call.units)
                self._load.queued(longest)
                self._load.under_way(self._under_way)

    def _too_late(self, request: PendingRequest[Request, Outcome], what: str) -> BackendTimeout:
        """The error of a request that has too little time: whose time it is says which of the two."""
        its_own = self._stage.deadline(self._live[request].item) <= request.deadline
        return DeadlinePassed(what) if its_own else BackendTimeout(what)

    async def _run(self, batch_key: BatchKey, call: _Call, slices: Slices[Request, Outcome]) -> None:
        outcomes: Sequence[Outcome | BackendError] = ()
        call.begun = True
        try:
            try:
                if call.waiting:
                    outcomes = await self._ask(batch_key, slices)
                if not all(isinstance(outcome, BackendError) for outcome in outcomes):
                    call.took = self._now() - call.started
            except BackendError as error:
                outcomes = [error] * len(slices)
                if isinstance(error, BackendTimeout):
                    call.took, call.answered = self._now() - call.started, False
            except asyncio.CancelledError:
                call.took, call.answered = self._now() - call.started, False
            except Exception as error:  # noqa: BLE001  reported and accounted for
                outcomes = [defect_of_call(error)]
                if len(slices) > 1:
                    outcomes = ()
                    await self._ask_alone(batch_key, call, slices)
            for slice_, outcome in zip(slices, outcomes, strict=False):
                self._answer(slice_, outcome)
        finally:
            self._backlogs[batch_key].on_call_end(call.units, call.took, answered=call.answered)
            self._under_way -= 1
            if self._load is not None:
                self._load.under_way(self._under_way)
            if not self._calls.closing:
                self._fill(batch_key)

    async def _ask_alone(self, batch_key: BatchKey, call: _Call, slices: Slices[Request, Outcome]) -> None:
        """After a call with a defect, ask for each of its requests that still waits; only what has a defect fails."""
        for slice_ in slices:
            live = self._live.get(slice_.request)
            if live is None or slice_.start not in live.calls:
                continue
            outcome: Outcome | BackendError
            began = self._now()
            try:
                [outcome] = await self._ask(batch_key, [slice_])
            except BackendError as error:
                outcome = error
            except asyncio.CancelledError:
                call.took, call.answered = self._now() - began, False
                return
            except Exception as error:  # noqa: BLE001  reported and accounted for
                outcome = defect_of_call(error)
            self._answer(slice_, outcome)

    async def _ask(self, batch_key: BatchKey, slices: Slices[Request, Outcome]) -> Sequence[Outcome | BackendError]:
        left = max([slice_.request.deadline for slice_ in slices]) - self._now()
        parts = [
            each.request.query if each.entire else self._batching.part(each.request.query, each.start, each.stop)
            for each in slices
        ]
        with self._stage.around([self._live[each.request].item for each in slices if each.request in self._live]):
            outcomes = await self._stage.call(batch_key, parts, max(left, 0.001))
        if len(outcomes) != len(slices):
            raise RuntimeError(f"{len(outcomes)} outcomes for {len(slices)} requests")
        return outcomes

    def _answer(self, slice_: Slice[Request, Outcome], outcome: Outcome | BackendError) -> None:
        request = slice_.request
        live = self._live.get(request)
        # None waits for it any more, or not for these units.
        if live is None or (call := live.calls.pop(slice_.start, None)) is None:
            return
        call.waiting -= 1
        if isinstance(outcome, BackendError):
            self._truncate(request, slice_.start, outcome)
        elif request.whole and slice_.entire:
            self._complete(request, self._batching.combine(request.query, (outcome,)))
        else:
            request.answer(slice_, outcome)
            if request.complete:
                self._conclude(request)

    def _truncate(self, request: PendingRequest[Request, Outcome], units: int, lost: BackendError) -> None:
        """Let the request end with its first units, for the others are lost; if these are too few, it ends at once."""
        live = self._live[request]
        least = self._batching.least
        if least is None or units < least:
            units = 0
        self._backlogs[live.batch_key].truncate(request, units, lost)
        live.release(units)
        if request.complete:
            self._conclude(request)

    def _conclude(self, request: PendingRequest[Request, Outcome]) -> None:
        if request.whole:
            self._complete(request, self._batching.combine(request.query, request.outcomes))
            return
        lost = request.lost if request.lost is not None else self._too_late(request, _SHORT)
        if isinstance(lost, BackendTimeout) and self._stage.deadline(self._live[request].item) <= self._now():
            lost = DeadlinePassed(str(lost))
        outcome = self._batching.partial(request.query, request.units, request.outcomes, lost)
        self._complete(request, lost if outcome is None else outcome)

    def _complete(self, request: PendingRequest[Request, Outcome], outcome: Outcome | BackendError) -> None:
        live = self._live.pop(request)
        if live.calls:
            live.release(0)
        self._finish(live.item, outcome, pause_of(live.waited, request.deadline - self._now()))

    def _finish(self, item: Any, outcome: Outcome | BackendError, pause: float = PAUSE) -> None:
        self.finished.append((item, outcome))
        if self._stage.wakes(item):
            self._calls.wakeup.set(pause)

    def _arm(self, earliest: float) -> None:
        # A timer that is set already covers the earlier requests.
        if self._timer is not None:
            if self._timer.when() <= earliest:
                return
            self._timer.cancel()
        self._timer = self._calls.loop.call_at(earliest, self._expire)

    def _expire(self) -> None:
        self._timer = None
        now = self._now()
        for request in [each for each in self._live if each.deadline <= now]:
            self._truncate(request, request.answered, BackendTimeout(_LATE))
        if self._live:
            self._arm(min(request.deadline for request in self._live))
