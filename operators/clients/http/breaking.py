"""The breaker's layer: a backend that keeps failing is not asked for a while.

While the breaker (`operators.clients.http.breaker`) is open, it gives no leave to ask.

What the breaker counts, try by try:
- a success: an answer that `read` accepts; a refusal of this request alone, by its status or reason; one for want of a
  key or of a collection, for others of the same server may have theirs;
- a failure: every other error of the endpoint and of `read`, except that a time-out, or a cancellation at the deadline,
  which is how a time-out looks when the caller has stopped waiting, is one only if the call had as long as the slowest
  of the latest answers took, or if none has come for ten times as long;
- neither: a cancellation before the deadline; shorter calls, for a hopeless deadline says nothing of the backend; a
  defect in `read`.

What it counts, and what is refused, is logged (`operators.clients.http.outage_log`). Every try is counted in the
metrics, unless it is cancelled.
"""

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Any, Final, TypeVar

from operators.clients.http.breaker import Breaker, Permit
from operators.clients.http.outage_log import OutageLog, refuses
from operators.clients.http.outages import at_deadline
from operators.clients.http.transport import Endpoint
from operators.telemetry.metrics import BackendMetrics
from schemas.errors import BackendError, BackendTimeout, Reason

T = TypeVar("T")

LATEST_ANSWERS: Final = 16
"""How many answers back the slowest one is looked for."""

SILENCE: Final = 10.0
"""How many times as long as that without an answer make any time-out a failure."""

_OTHERS_ARE_WELL: Final = frozenset({Reason.UNAUTHORIZED, Reason.NO_COLLECTION})


class Breaking:
    """One endpoint behind a breaker, with its log."""

    def __init__(self, endpoint: Endpoint, clock: Callable[[], float], metrics: BackendMetrics) -> None:
        self.endpoint = endpoint
        self._metrics = metrics
        self._clock = clock
        self._breaker = Breaker()
        self._log = OutageLog(endpoint, clock)
        self._answered_in: deque[float] = deque(maxlen=LATEST_ANSWERS)
        metrics.watch_breaker(lambda: not self._breaker.closed)
        self._answered_at = 0.0

    @property
    def closed(self) -> bool:
        """Whether every request is sent."""
        return self._breaker.closed

    def admit(self) -> Permit | None:
        """The leave to ask once; None if the backend is to be left alone now."""
        return self._breaker.admit(self._clock())

    async def ask(
        self,
        permit: Permit,
        path: str,
        body: object,
        read: Callable[[Any], T],
        *,
        timeout: float,
        method: str = "POST",
        repeatable: bool = False,
    ) -> T:
        """Ask once, and tell the breaker what became of it. Raises what the endpoint and `read` raise."""
        started = self._clock()
        try:
            answer = await self.endpoint.call(method, path, body, timeout=timeout, repeatable=repeatable)
            took = self._clock() - started
            value = read(answer)
        except BackendTimeout as error:
            self._metrics.failed(error.reason)
            if self._out_of_time(permit, timeout):
                self._log.failed(error, path, reads=repeatable)
            raise
        except asyncio.CancelledError:
            # Before the deadline it says nothing: others of its query failed, or the process ends.
            if at_deadline(self._clock() - started, timeout) and self._out_of_time(permit, timeout):
                self._log.failed(BackendTimeout(f"{self.endpoint.name}: no answer in time"), path, reads=repeatable)
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

    def _out_of_time(self, permit: Permit, given: float) -> bool:
        """Tell the breaker of a time-out, if it is the backend's fault; whether it is."""
        now = self._clock()
        slowest = max(self._answered_in, default=0.0)
        at_fault = given >= slowest or now - self._answered_at > SILENCE * slowest
        if at_fault:
            self._breaker.fail(permit, now)
        return at_fault
