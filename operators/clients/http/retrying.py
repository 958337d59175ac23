"""The retries' layer: failed calls are tried again where that may help.

What it promises of every request:
- it ends within its time-out, counted over all tries and the pauses between them;
- a read that the endpoint repeats, for its connection was only old, is one try;
- any other broken or refused connection and the statuses 429, 502, 503 and 504 are tried again, TRIES tries in all at
  most, while time, the budget of retries (`operators.clients.http.retry_budget`) and the breaker allow it; nothing else
  is;
- a pause lasts a random part of 50 ms, and of twice as much after each further failure, at most 1 s ("full jitter":
  tries that failed together don't come back together); one that would end after the deadline isn't begun;
- while the breaker is open, a request is BackendUnavailable at once and nothing is sent;
- errors are those of the last try made, and of `read`. An answer that `read` refuses isn't asked for again.

A body is written as JSON once, for all tries. One that can't be written is no try: many of those don't open a breaker.
"""

import asyncio
import random
from collections.abc import Callable
from typing import Any, Final, TypeVar

import orjson

from operators.clients.http.breaking import Breaking
from operators.clients.http.retry_budget import RetryBudget
from operators.clients.http.transport import Endpoint
from schemas.errors import BackendBadResponse, BackendTimeout, BackendUnavailable

T = TypeVar("T")

TRIES: Final = 3
"""How often a request is sent at most."""

_FIRST_PAUSE: Final = 0.05
_LONGEST_PAUSE: Final = 1.0

_RETRIED: Final = frozenset({None, 429, 502, 503, 504})


def longest_pause(failures: int) -> float:
    """Return how many seconds a pause after so many failed tries of a request may last."""
    return min(_LONGEST_PAUSE, _FIRST_PAUSE * 2.0 ** (failures - 1))


def full_jitter(longest: float) -> float:
    """Return any part of `longest`, each as likely."""
    return random.uniform(0.0, longest)  # noqa: S311 - a pause is no secret


class Retrying:
    """One backend behind a breaker, with retries; `jitter` chooses a pause up to the one it is given."""

    def __init__(self, inner: Breaking, clock: Callable[[], float], jitter: Callable[[float], float]) -> None:
        self._inner = inner
        self._clock = clock
        self._jitter = jitter
        self._budget = RetryBudget()

    @property
    def endpoint(self) -> Endpoint:
        """The endpoint below all layers."""
        return self._inner.endpoint

    @property
    def name(self) -> str:
        """The backend's name, for messages."""
        return self.endpoint.name

    async def ask(
        self,
        path: str,
        body: object,
        read: Callable[[Any], T],
        *,
        timeout: float,
        method: str = "POST",
        repeatable: bool = False,
    ) -> T:
        """Send `body` and return what `read` makes of the parsed answer, all tries within `timeout` seconds.

        Raises BackendError; BackendUnavailable without a call while the breaker is open.
        """
        deadline = self._clock() + timeout
        if timeout <= 0:
            raise BackendTimeout(f"{self.name}: no time left")
        content = self._written(body) if body is not None else None
        permit = self._inner.admit()
        if permit is None:
            raise BackendUnavailable(f"{self.name}: not asked, its breaker is open")
        answered = False

        def noted(answer: Any) -> T:
            nonlocal answered
            answered = True
            return read(answer)

        self._budget.begin()
        failures = 0
        try:
            while permit is not None:
                left = deadline - self._clock()
                try:
                    return await self._inner.ask(
                        permit, path, content, noted, timeout=left, method=method, repeatable=repeatable
                    )
                except BackendUnavailable as error:
                    if answered:
                        raise
                    failure = error
                failures += 1
                pause = self._pause(failure, failures, deadline)
                if pause is None:
                    break
                await asyncio.sleep(pause)
                permit = self._inner.admit() if self._clock() < deadline else None
        finally:
            self._budget.end()
        # Raised out here, where nothing is chained to it.
        raise failure

    async def aclose(self) -> None:
        """Close the endpoint."""
        await self.endpoint.aclose()

    def _written(self, body: object) -> orjson.Fragment:
        try:
            return orjson.Fragment(orjson.dumps(body, option=orjson.OPT_SERIALIZE_NUMPY))
        except orjson.JSONEncodeError:
            pass
        raise BackendBadResponse(f"{self.name}: the request can't be written as JSON")

    def _pause(self, failure: BackendUnavailable, failures: int, deadline: float) -> float | None:
        """How long to wait before the next try; None if there is to be none."""
        if failures == TRIES or failure.status not in _RETRIED or not self._inner.closed:
            return None
        pause = self._jitter(longest_pause(failures))
        if self._clock() + pause >= deadline or not self._budget.take():
            return None
        return pause
