"""A backend as its clients ask it: an endpoint with retries, a circuit breaker, a log of its outages and metrics.

Every request:
- ends within its time-out, counted over all tries and the pauses between them;
- is one try where the endpoint repeats a read because its connection was only old;
- waits for its turn while the breaker's window (`operators.clients.admission`) is full;
- is tried again after any other broken or refused connection and the statuses of outages, TRIES tries in all at most,
  while time, the retry budget and the breaker allow it; after 429 as long as time and the breaker allow it, for the
  window lowers the load; after nothing else;
- pauses between tries by full jitter (tries that failed together don't come back together): a random part of 50 ms, and
  of twice as much after each further failure, at most 1 s; no less than the server's `Retry-After`; a pause that would
  end after the deadline isn't begun;
- is BackendUnavailable at once, and not sent, while the breaker is open;
- raises the error of the last try made, or of `read`. An answer that `read` refuses isn't asked for again.

A body is written as JSON once, for all tries. One that can't be written is no try: many of those don't open a breaker.

The breaker counts, try by try:
- as a success: an answer that `read` accepts; a failure by the fault of the request, or of the configuration, such as
  the want of a key or of a collection, or a limit of the rate of one collection, for others of the same server may have
  theirs; an answer that is too long, unless a control request fails, too;
- as a failure: every other error of the endpoint and of `read`. A time-out, or a cancellation at the deadline, which is
  the form of a time-out when the caller has stopped waiting, is one only if the call had as long as the slowest of the
  latest answers took, or if none has come for ten times as long;
- not at all: a cancellation before the deadline; shorter calls, for a short deadline says nothing of the backend; a
  defect in `read`.

A request may come with a control request. After a failure by nobody's known fault (`operators.clients.http.dialect`)
that is sent, once for all requests that fail meanwhile, and FRESH seconds after its answer: if it is answered, the
failure counts as a success, and the error `serves_others`. An open breaker is probed with the last control request, at
first after its rest, then at intervals that double up to LONGEST_INTERVAL: an idle backend that is well again is found
before the next request.

Counted tries and refusals are logged. Every try is counted in the metrics, unless it is cancelled.
"""

import asyncio
import math
import random
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any, Final, TypeVar

import orjson

from operators.clients.admission import REST, Breaker, Permit, RetryBudget
from operators.clients.failures import OutageLog, at_deadline
from operators.clients.http.transport import Call, Endpoint
from operators.runtime.turns import WaitQueue
from operators.telemetry.metrics import BackendMetrics, FlowMetrics, Instruments
from schemas.errors import AnswerTooLong, BackendError, BackendTimeout, BackendUnavailable, Blame

Result = TypeVar("Result")

TRIES: Final = 3

SILENCE: Final = 10.0
"""Multiple of the slowest answer's time: after as long without an answer any time-out is a failure."""

LONGEST_INTERVAL: Final = 5.0

FRESH: Final = 0.1

_CONTROL_TIMEOUT: Final = 2.0


def longest_pause(failures: int) -> float:
    """Return the longest pause, in seconds, after this number of failed tries of a request."""
    return min(1.0, 0.05 * 2.0 ** (failures - 1))


def full_jitter(longest: float) -> float:
    """Return any part of `longest`, each as likely."""
    return random.uniform(0.0, longest)  # noqa: S311 - a pause is no secret


def _over(task: asyncio.Task[Any] | None) -> bool:
    """True if there is no such task, or none on this event loop any more."""
    return task is None or task.done() or task.get_loop() is not asyncio.get_running_loop()


@dataclass(eq=False)
class Resilient:
    """The endpoint with retries, a retry budget, a breaker and a log of its outages.

    `jitter` chooses a pause up to the given one. `metrics` count its requests, where they are a flow's. It belongs to
    no event loop, and works on the next when one is closed.
    """

    endpoint: Endpoint
    clock: Callable[[], float] = time.monotonic
    jitter: Callable[[float], float] = full_jitter
    metrics: BackendMetrics | None = None

    def __post_init__(self) -> None:
        endpoint = self.endpoint
        self.name = endpoint.name
        self._metrics = self.metrics or FlowMetrics(Instruments(), "none").backend(self.name)
        self._budget = RetryBudget()
        self._breaker = Breaker()
        self._turns = WaitQueue()
        self._control: Call[Any] | None = None
        self._controlling: asyncio.Task[bool | None] | None = None
        self._answered_control = -math.inf
        self._probing: asyncio.Task[None] | None = None
        self._closed = False
        fields = {"backend": endpoint.name, "address": endpoint.address}
        self._log = OutageLog(fields, self.clock, endpoint.dialect.subject)
        self._answered_in: deque[float] = deque(maxlen=16)
        self._answered_at = 0.0
        self._metrics.breaker.set_function(lambda: not self._breaker.closed)

    async def ask(self, call: Call[Result], *, timeout: float) -> Result:
        """Make the call, all within `timeout` seconds: what its `read` makes of the answer. Raises BackendError."""
        deadline = self.clock() + timeout
        if timeout <= 0:
            raise BackendTimeout(f"{self.name}: no time left", unread=True)
        content = orjson.Fragment(self.endpoint.encode(call.body)) if call.body is not None else None
        self._control = call.control or self._control
        permit = await self._admit(deadline)
        if permit is None and (asked := self._breaker.pause(self.clock())):
            raise BackendUnavailable(f"{self.name}: not asked, it wants no call for {asked:.1f} s", unread=True)
        if permit is None and self._breaker.closed:
            raise BackendTimeout(f"{self.name}: not asked, it was busy until the deadline", unread=True)
        if permit is None:
            raise BackendUnavailable(f"{self.name}: not asked, its breaker is open", unread=True)
        answered = False

        def note(answer: Any) -> Result:
            nonlocal answered
            answered = True
            return call.read(answer)

        encoded = call._replace(body=content, read=note)
        self._budget.begin()
        failures = 0
        try:
            while permit is not None:
                try:
                    return await self._try(permit, encoded, deadline - self.clock())
                except BackendUnavailable as error:
                    if answered:
                        raise
                    failure = error
                    failures += 1
                    pause = self._pause(failure, failures, deadline)
                    if pause is None:
                        break
                    throttled = failure.status == HTTPStatus.TOO_MANY_REQUESTS and failure.blame is Blame.BACKEND
                    if throttled:
                        # It keeps its room: otherwise others would take it, for the same answer.
                        await asyncio.sleep(pause)
                finally:
                    self._end(permit)
                if not throttled:
                    await asyncio.sleep(pause)
                permit = await self._admit(deadline)
        finally:
            self._budget.end()
        # Raised out here, where nothing is chained to it.
        raise failure

    async def aclose(self) -> None:
        self._closed = True
        for task in (self._controlling, self._probing):
            if task is not None and not _over(task):
                task.cancel()
        await self.endpoint.aclose()

    @property
    def _slowest(self) -> float:
        return max(self._answered_in, default=0.0)

    async def _admit(self, deadline: float) -> Permit | None:
        """Wait for the turn of a call; None if the breaker is open, or at the deadline."""
        breaker, woken = self._breaker, False
        try:
            while (now := self.clock()) < deadline and not breaker.rests(now):
                if pause := breaker.pause(now):
                    if now + pause >= deadline:
                        return None
                    await asyncio.sleep(pause)
                    continue
                if breaker.room > 0 and (woken or not self._turns):
                    return breaker.begin()
                patience = deadline - now
                if not breaker.closed:
                    # A backend in order answers the call before by then, and nobody waits longer for one that isn't.
                    patience = min(patience, max(REST, 2 * self._slowest))
                # One that comes has the others woken if there is room.
                asyncio.get_running_loop().call_soon(self._give_turns)
                async with asyncio.timeout(patience):
                    await self._turns.wait(first=woken)
                woken = True
        except TimeoutError:
            pass
        finally:
            # It may have been given a turn that it did not take.
            self._give_turns()
        return None

    def _end(self, permit: Permit) -> None:
        self._breaker.end(permit)
        self._give_turns()

    def _give_turns(self) -> None:
        """Wake the requests that wait: as many as there is room for, or all of them for their refusal."""
        if self._turns:
            self._turns.wake(math.inf if self._breaker.rests(self.clock()) else self._breaker.room)

    async def _try(self, permit: Permit, call: Call[Result], timeout: float) -> Result:
        """Ask once, and report the outcome to breaker, log and metrics. Raises what the endpoint and `read` raise."""
        started = self.clock()
        try:
            request = call.method, call.path, call.body
            answer = await self.endpoint.call(*request, timeout=timeout, repeatable=call.repeatable)
            took = self.clock() - started
            value = call.read(answer)
        except BackendTimeout as error:
            self._metrics.failed(error.reason)
            self._report_late(permit, error, call, timeout)
            raise
        except asyncio.CancelledError:
            # Before the deadline it says nothing: others of its query failed, or the process ends.
            if at_deadline(self.clock() - started, timeout):
                self._report_late(permit, BackendTimeout(f"{self.name}: no answer in time"), call, timeout)
            raise
        except BackendError as error:
            self._metrics.failed(error.reason)
            failure = error
        else:
            self._metrics.answered(took)
            self._answered_in.append(took)
            self._answered_at = self.clock()
            self._breaker.succeed(permit)
            self._log.succeeded(call.path, reads=call.repeatable)
            return value
        # Raised out here, where nothing is chained to it.
        raise await self._attribute(permit, failure, call, timeout - (self.clock() - started))

    def _report(self, permit: Permit, error: BackendError, call: Call[Any]) -> None:
        self._log.failed(error, call.path, reads=call.repeatable)
        alive = isinstance(error, AnswerTooLong) and error.blame is Blame.UNKNOWN
        if alive or error.blame in {Blame.REQUEST, Blame.CONFIGURATION}:
            self._breaker.succeed(permit)
        elif error.status == HTTPStatus.TOO_MANY_REQUESTS:
            self._breaker.throttle(permit, self.clock(), error.retry_after)
        else:
            self._breaker.fail(permit, self.clock(), error.retry_after)
        self._probe()

    async def _attribute(self, permit: Permit, error: BackendError, call: Call[Any], timeout: float) -> BackendError:
        """Report the failure, after a control request where that tells more; wait `timeout` seconds for it."""
        control = call.control
        if control is None or error.suspect not in {Blame.UNKNOWN, Blame.REQUEST}:
            self._report(permit, error, call)
            return error
        if _over(self._controlling) and (self._controlling is None or self.clock() >= self._answered_control + FRESH):
            self._controlling = asyncio.create_task(self._judge(control))

        controlling, judged = self._controlling, error
        assert controlling is not None

        def report(controlling: asyncio.Task[bool | None]) -> None:
            nonlocal judged
            if not controlling.cancelled():
                judged = error.but(serves_others=controlling.result())
                self._report(permit, judged, call)
                self._give_turns()

        if controlling.done():
            report(controlling)
        else:
            # The call is judged, though its caller may have stopped waiting.
            controlling.add_done_callback(report)
            await asyncio.wait([controlling], timeout=max(timeout, 0.0))
        return judged

    async def _judge(self, control: Call[Any]) -> bool | None:
        """The same as `_answers`, whose success is remembered: a probe's says nothing of this task."""
        answered = await self._answers(control)
        self._answered_control = self.clock() if answered else -math.inf
        return answered

    async def _answers(self, control: Call[Any]) -> bool | None:
        """True if the backend answers the control request; None if it takes too long to tell."""
        started = self.clock()
        timeout = max(_CONTROL_TIMEOUT, 2 * self._slowest)
        try:
            control.read(await self.endpoint.call("POST", control.path, control.body, timeout=timeout))
        except BackendError as error:
            self._metrics.failed(error.reason)
            return None if isinstance(error, BackendTimeout) else False
        self._metrics.answered(self.clock() - started)
        return True

    def _probe(self) -> None:
        """Begin to probe a backend whose breaker has opened, where a control request is known."""
        if self._breaker.closed or self._control is None or self._closed:
            return
        if _over(self._probing):
            self._probing = asyncio.create_task(self._until_closed(self._control))

    async def _until_closed(self, control: Call[Any]) -> None:
        interval = REST
        while not self._breaker.closed:
            await asyncio.sleep(interval)
            if self._breaker.closed or self._breaker.rests(self.clock()) or self._breaker.room <= 0:
                continue
            interval = min(2 * interval, LONGEST_INTERVAL)
            permit = self._breaker.begin()
            try:
                if await self._answers(control):
                    self._breaker.succeed(permit)
                    self._log.succeeded(control.path)
                else:
                    self._breaker.fail(permit, self.clock())
            finally:
                self._end(permit)

    def _report_late(self, permit: Permit, error: BackendTimeout, call: Call[Any], given: float) -> None:
        """Report a time-out, if it is the backend's fault."""
        now, slowest = self.clock(), self._slowest
        if given >= slowest or now - self._answered_at > SILENCE * slowest:
            self._breaker.fail(permit, now)
            self._probe()
            self._log.failed(error, call.path, reads=call.repeatable)

    def _pause(self, failure: BackendUnavailable, failures: int, deadline: float) -> float | None:
        """The seconds to wait before the next try; None if there is to be none."""
        throttled = failure.status == HTTPStatus.TOO_MANY_REQUESTS
        doubtful = failure.suspect is Blame.UNKNOWN
        if doubtful or not self._breaker.closed or (failures == TRIES and not throttled):
            return None
        pause = max(self.jitter(longest_pause(failures)), failure.retry_after)
        if self.clock() + pause >= deadline or not (throttled or self._budget.take()):
            return None
        return pause


Backend = Endpoint | Resilient
"""An endpoint, with or without the layers over it."""
