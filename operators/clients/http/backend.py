"""A backend as its clients ask it: an endpoint with retries, a circuit breaker, a log of its outages and metrics.

Every request:
- ends within its time-out, counted over all tries and the pauses between them;
- is one try where the endpoint repeats a read because its connection was only old;
- is tried again after any other broken or refused connection and the statuses 429, 502, 503 and 504, TRIES tries in
  all at most, while time, the retry budget and the breaker (`operators.clients.failures`) allow it; after nothing else;
- pauses between tries by full jitter (tries that failed together don't come back together): a random part of 50 ms, and
  of twice as much after each further failure, at most 1 s; a pause that would end after the deadline isn't begun;
- is BackendUnavailable at once, and not sent, while the breaker is open;
- raises the error of the last try made, or of `read`. An answer that `read` refuses isn't asked for again.

A body is written as JSON once, for all tries. One that can't be written is no try: many of those don't open a breaker.

The breaker counts, try by try:
- as a success: an answer that `read` accepts; a refusal of this request alone, by its status or reason; one for want of
  a key or of a collection, for others of the same server may have theirs;
- as a failure: every other error of the endpoint and of `read`. A time-out, or a cancellation at the deadline, which is
  the form of a time-out when the caller has stopped waiting, is one only if the call had as long as the slowest of the
  latest answers took, or if none has come for ten times as long;
- not at all: a cancellation before the deadline; shorter calls, for a short deadline says nothing of the backend; a
  defect in `read`.

Counted tries and refusals are logged. Every try is counted in the metrics, unless it is cancelled.
"""

import asyncio
import random
import time
from collections import deque
from collections.abc import Callable
from typing import Any, Final, Protocol, TypeVar

import orjson

from operators.clients.failures import Breaker, OutageLog, Permit, RetryBudget, at_deadline, refuses
from operators.clients.http.transport import Endpoint
from operators.telemetry.instruments import Instruments
from operators.telemetry.metrics import BackendMetrics, FlowMetrics
from schemas.errors import BackendError, BackendTimeout, BackendUnavailable, Reason

Result = TypeVar("Result")

TRIES: Final = 3
"""Most times that a request is sent."""

LATEST_ANSWERS: Final = 16
"""Latest answers among which the slowest one is looked for."""

SILENCE: Final = 10.0
"""Multiple of the slowest answer's time: after as long without an answer any time-out is a failure."""

_FIRST_PAUSE: Final = 0.05
_LONGEST_PAUSE: Final = 1.0

_RETRIED: Final = frozenset({None, 429, 502, 503, 504})

_OTHERS_ARE_WELL: Final = frozenset({Reason.UNAUTHORIZED, Reason.NO_COLLECTION})


class Backend(Protocol):
    """The interface of an endpoint, with or without the layers over it."""

    @property
    def endpoint(self) -> Endpoint:
        """The endpoint below all layers."""
        ...

    @property
    def name(self) -> str:
        """The backend's name, for messages."""
        ...

    async def ask(
        self,
        path: str,
        body: object,
        read: Callable[[Any], Result],
        *,
        timeout: float,
        method: str = "POST",
        repeatable: bool = False,
    ) -> Result:
        """Send `body` and return what `read` makes of the parsed answer, all within `timeout` seconds.

        `repeatable`: the request only reads, so it may be sent again on a new connection when an old one breaks.
        `read` raises BackendError for an answer that breaks the protocol. Raises BackendError.
        """
        ...

    async def aclose(self) -> None:
        """Close the endpoint."""
        ...


def longest_pause(failures: int) -> float:
    """Return the longest pause, in seconds, after this number of failed tries of a request."""
    return min(_LONGEST_PAUSE, _FIRST_PAUSE * 2.0 ** (failures - 1))


def full_jitter(longest: float) -> float:
    """Return any part of `longest`, each as likely."""
    return random.uniform(0.0, longest)  # noqa: S311 - a pause is no secret


def resilient(
    endpoint: Endpoint,
    clock: Callable[[], float] = time.monotonic,
    jitter: Callable[[float], float] = full_jitter,
    metrics: BackendMetrics | None = None,
) -> Backend:
    """The endpoint with retries, a retry budget, a breaker and a log of its outages.

    `jitter` chooses a pause up to the given one. `metrics` count its requests, where they are a flow's. It belongs to
    no event loop, and works on the next when one is closed.
    """
    counted = metrics if metrics is not None else FlowMetrics(Instruments(), "none").backend(endpoint.name)
    return _Resilient(endpoint, clock, jitter, counted)


class _Resilient:
    def __init__(
        self,
        endpoint: Endpoint,
        clock: Callable[[], float],
        jitter: Callable[[float], float],
        metrics: BackendMetrics,
    ) -> None:
        self.endpoint = endpoint
        self._clock = clock
        self._jitter = jitter
        self._metrics = metrics
        self._budget = RetryBudget()
        self._breaker = Breaker()
        fields = {"backend": endpoint.name, "address": endpoint.address}
        self._log = OutageLog(fields, clock, endpoint.dialect.subject)
        self._answered_in: deque[float] = deque(maxlen=LATEST_ANSWERS)
        self._answered_at = 0.0
        metrics.watch_breaker(lambda: not self._breaker.closed)

    @property
    def name(self) -> str:
        return self.endpoint.name

    async def ask(
        self,
        path: str,
        body: object,
        read: Callable[[Any], Result],
        *,
        timeout: float,
        method: str = "POST",
        repeatable: bool = False,
    ) -> Result:
        deadline = self._clock() + timeout
        if timeout <= 0:
            raise BackendTimeout(f"{self.name}: no time left")
        content = orjson.Fragment(self.endpoint.encode(body)) if body is not None else None
        permit = self._breaker.admit(self._clock())
        if permit is None:
            raise BackendUnavailable(f"{self.name}: not asked, its breaker is open")
        answered = False

        def note(answer: Any) -> Result:
            nonlocal answered
            answered = True
            return read(answer)

        self._budget.begin()
        failures = 0
        try:
            while permit is not None:
                left = deadline - self._clock()
                try:
                    return await self._try(permit, method, path, content, note, timeout=left, repeatable=repeatable)
                except BackendUnavailable as error:
                    if answered:
                        raise
                    failure = error
                failures += 1
                pause = self._pause(failure, failures, deadline)
                if pause is None:
                    break
                await asyncio.sleep(pause)
                now = self._clock()
                permit = self._breaker.admit(now) if now < deadline else None
        finally:
            self._budget.end()
        # Raised out here, where nothing is chained to it.
        raise failure

    async def aclose(self) -> None:
        await self.endpoint.aclose()

    async def _try(
        self,
        permit: Permit,
        method: str,
        path: str,
        body: object,
        read: Callable[[Any], Result],
        *,
        timeout: float,
        repeatable: bool,
    ) -> Result:
        """Ask once, and report the outcome to breaker, log and metrics. Raises what the endpoint and `read` raise."""
        started = self._clock()
        try:
            answer = await self.endpoint.call(method, path, body, timeout=timeout, repeatable=repeatable)
            took = self._clock() - started
            value = read(answer)
        except BackendTimeout as error:
            self._metrics.failed(error.reason)
            if self._fail_late(permit, timeout):
                self._log.failed(error, path, reads=repeatable)
            raise
        except asyncio.CancelledError:
            # Before the deadline it says nothing: others of its query failed, or the process ends.
            if at_deadline(self._clock() - started, timeout) and self._fail_late(permit, timeout):
                self._log.failed(BackendTimeout(f"{self.name}: no answer in time"), path, reads=repeatable)
            raise
        except BackendError as error:
            self._metrics.failed(error.reason)
            self._log.failed(error, path, reads=repeatable)
            if refuses(error) or error.reason in _OTHERS_ARE_WELL:
                self._breaker.succeed(permit)
            else:
                self._breaker.fail(permit, self._clock())
            raise
        else:
            self._metrics.answered(took)
            self._answered_in.append(took)
            self._answered_at = self._clock()
            self._breaker.succeed(permit)
            self._log.succeeded(path, reads=repeatable)
            return value
        finally:
            self._breaker.give_back(permit)

    def _fail_late(self, permit: Permit, given: float) -> bool:
        """Report a time-out to the breaker, if it is the backend's fault; return True if it is."""
        now = self._clock()
        slowest = max(self._answered_in, default=0.0)
        at_fault = given >= slowest or now - self._answered_at > SILENCE * slowest
        if at_fault:
            self._breaker.fail(permit, now)
        return at_fault

    def _pause(self, failure: BackendUnavailable, failures: int, deadline: float) -> float | None:
        """The seconds to wait before the next try; None if there is to be none."""
        if failures == TRIES or failure.status not in _RETRIED or not self._breaker.closed:
            return None
        pause = self._jitter(longest_pause(failures))
        if self._clock() + pause >= deadline or not self._budget.take():
            return None
        return pause
