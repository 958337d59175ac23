"""An endpoint whose failed calls are tried again where that may help, and which is left alone while it is down.

What it promises of every request:
- it ends within its time-out, counted over all tries and the pauses between them;
- a broken or refused connection and the statuses 429, 502, 503 and 504 are tried again, TRIES tries in all at most,
  while time, the budget of retries (`operators.clients.http.retry_budget`) and the breaker allow it; nothing else is;
- a pause lasts a random part of 50 ms, and of twice as much after each further failure, at most 1 s ("full jitter":
  tries that failed together don't come back together); one that would end after the deadline isn't begun;
- while the breaker (`operators.clients.http.breaker`) is open, requests are
  BackendUnavailable at once and nothing is sent;
- errors are those of the endpoint, of the last try made, and of `read`.

What the breaker counts, try by try:
- a success: an answer that `read` accepts; the statuses 400, 413 and 422 too, which refuse this request alone;
- a failure: every other error of the endpoint and of `read`, except that a time-out, or a cancellation at the deadline,
  which is how a time-out looks when nobody waits any more, is one only if the call had as long as the slowest of the
  latest answers took, or if none has come for ten times as long;
- neither: a cancellation before the deadline; shorter calls, for a hopeless deadline says nothing of the backend; a
  request that can't be written as JSON; a defect in `read`.
"""

import asyncio
import random
import time
from collections import deque
from collections.abc import Callable
from typing import Any, Final, TypeVar

import orjson

from operators.clients.http.bisection import REFUSALS
from operators.clients.http.breaker import Breaker, Permit
from operators.clients.http.retry_budget import RetryBudget
from operators.clients.http.transport import Endpoint
from schemas.errors import BackendBadResponse, BackendError, BackendTimeout, BackendUnavailable

T = TypeVar("T")

TRIES: Final = 3
"""How often a request is sent at most."""

LATEST_ANSWERS: Final = 16
"""How many answers back the slowest one is looked for."""

SILENCE: Final = 10.0
"""How many times as long as that without an answer make any time-out a failure."""

_AT_DEADLINE: Final = 0.05
"""What part of its time a call may have left when it is cancelled for being late: timers don't keep to the instant."""

_FIRST_PAUSE: Final = 0.05
_LONGEST_PAUSE: Final = 1.0

_RETRIED: Final = frozenset({None, 429, 502, 503, 504})


def longest_pause(failures: int) -> float:
    """Return how many seconds a pause after so many failed tries of a request may last."""
    return min(_LONGEST_PAUSE, _FIRST_PAUSE * 2.0 ** (failures - 1))


def full_jitter(longest: float) -> float:
    """Return any part of `longest`, each as likely."""
    return random.uniform(0.0, longest)  # noqa: S311 - a pause is no secret


class ResilientEndpoint:
    """One backend behind an endpoint, with retries and a breaker; `jitter` chooses a pause up to the one it is given.

    It belongs to no event loop, and works on the next when one is closed.
    """

    def __init__(
        self,
        endpoint: Endpoint,
        clock: Callable[[], float] = time.monotonic,
        jitter: Callable[[float], float] = full_jitter,
    ) -> None:
        self.endpoint = endpoint
        self._clock = clock
        self._jitter = jitter
        self._breaker = Breaker()
        self._budget = RetryBudget()
        self._answered_in: deque[float] = deque(maxlen=LATEST_ANSWERS)
        self._answered_at = 0.0

    @property
    def name(self) -> str:
        """The backend's name, for messages."""
        return self.endpoint.name

    async def ask(self, path: str, body: object, read: Callable[[Any], T], *, timeout: float) -> T:
        """Post `body` and return what `read` makes of the parsed answer, all tries within `timeout` seconds.

        `read` raises BackendError for an answer that breaks the protocol; such an answer isn't asked for again.
        Raises BackendError; BackendUnavailable without a call while the breaker is open.
        """
        started = self._clock()
        if timeout <= 0:
            raise BackendTimeout(f"{self.name}: no time left")
        permit = self._breaker.admit(started)
        if permit is None:
            raise BackendUnavailable(f"{self.name}: not asked, its breaker is open")
        self._budget.begin()
        try:
            return await self._answer(permit, path, body, read, started + timeout)
        finally:
            self._budget.end()

    async def aclose(self) -> None:
        """Close the endpoint."""
        await self.endpoint.aclose()

    def _written(self, body: object) -> orjson.Fragment:
        # Once for all tries; and one that can't be written is no call, for many of those must not open the breaker.
        try:
            return orjson.Fragment(orjson.dumps(body, option=orjson.OPT_SERIALIZE_NUMPY))
        except orjson.JSONEncodeError:
            pass
        raise BackendBadResponse(f"{self.name}: the request can't be written as JSON")

    async def _answer(self, permit: Permit, path: str, body: object, read: Callable[[Any], T], deadline: float) -> T:
        failures = 0
        try:
            content = self._written(body)
            while True:
                try:
                    answer, took = await self._call(permit, path, content, deadline)
                except BackendUnavailable as error:
                    failure = error
                else:
                    return self._read(permit, answer, took, read)
                failures += 1
                pause = self._pause(failure, failures, deadline)
                if pause is None:
                    break
                await asyncio.sleep(pause)
                now = self._clock()
                again = self._breaker.admit(now) if now < deadline else None
                if again is None:
                    break
                permit = again
        finally:
            self._breaker.give_back(permit)
        # Raised out here, where nothing is chained to it.
        raise failure

    def _pause(self, failure: BackendUnavailable, failures: int, deadline: float) -> float | None:
        """How long to wait before the next try; None if there is to be none."""
        if failures == TRIES or failure.status not in _RETRIED or not self._breaker.closed:
            return None
        pause = self._jitter(longest_pause(failures))
        if self._clock() + pause >= deadline or not self._budget.take():
            return None
        return pause

    async def _call(self, permit: Permit, path: str, content: orjson.Fragment, deadline: float) -> tuple[Any, float]:
        """One try: the answer, and in how many seconds it came."""
        started = self._clock()
        given = deadline - started
        try:
            answer = await self.endpoint.call("POST", path, content, timeout=given)
        except BackendTimeout:
            self._out_of_time(permit, given)
            raise
        except asyncio.CancelledError:
            # Before the deadline it says nothing: others of its query failed, or the process ends.
            if self._clock() >= deadline - _AT_DEADLINE * given:
                self._out_of_time(permit, given)
            raise
        except BackendError as error:
            if isinstance(error, BackendBadResponse) and error.status in REFUSALS:
                self._breaker.succeed(permit)
            else:
                self._breaker.fail(permit, self._clock())
            raise
        return answer, self._clock() - started

    def _read(self, permit: Permit, answer: Any, took: float, read: Callable[[Any], T]) -> T:
        try:
            value = read(answer)
        except BackendError:
            self._breaker.fail(permit, self._clock())
            raise
        self._answered_in.append(took)
        self._answered_at = self._clock()
        self._breaker.succeed(permit)
        return value

    def _out_of_time(self, permit: Permit, given: float) -> None:
        now = self._clock()
        slowest = max(self._answered_in, default=0.0)
        if given >= slowest or now - self._answered_at > SILENCE * slowest:
            self._breaker.fail(permit, now)
