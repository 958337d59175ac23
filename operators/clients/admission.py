"""Admission of calls to a backend: circuit breaker, window of calls under way, and retry budget.

All are pure state machines: they make no call and read no clock. Times are seconds of one monotonic clock.

Breaker:
- Closed, a call gets a permit while there is room in the window. OPENS_AFTER failures in a row, in the order in which
  calls end, open the breaker.
- Open, it refuses for REST seconds, or as long as the server asks, LONGEST_REST at most. Then it is half-open: the
  window has room for one call. The first success closes the breaker, a failure opens it again.
- A call that ends without either gives its room back: the next call has it, at once.
- A server that names a time in which not to call (`Retry-After`) is not called before: calls wait, if they have as much
  time. Behind it the window has room for one call, as behind a half-open breaker.
- Calls are judged by the state they began in: the end of one that began before the last opening changes nothing, for
  it tells of a backend as it was.

Window:
- A closed breaker has no bound at first: the stages bound their calls.
- After a half-open breaker's success the window grows by one call for each success, so it doubles with every round of
  calls (slow start): a backend that has just come back is not buried by all that waits for it.
- A throttled call (429) halves the window, once for all calls that were under way together. From there it grows by one
  call for each round (AIMD: additive increase, multiplicative decrease, as TCP's congestion control).
- A throttled call that was alone under way is a failure: there is nothing to lower.
- From WIDE calls on there is no bound again.

Retry budget:
- The budget is a token bucket that begins full. A request's first try puts in 0.2 of a retry, a retry takes 1.
- It has room for 0.2 of a retry for each active request, those begun and not ended, and for 3 at the least; an excess
  is lost. So among n requests there are never more than 0.2 n + 3 retries, however long a failure lasts.
"""

import math
from dataclasses import dataclass
from typing import Final, NamedTuple

OPENS_AFTER: Final = 5

REST: Final = 0.25

LONGEST_REST: Final = 60.0

WIDE: Final = 64

# Counted in fifths of a retry, what a first try puts in, so that every sum is exact.
_RETRY: Final = 5
_RESERVE: Final = 3 * _RETRY


class Permit(NamedTuple):
    """The leave to make one call: the numbers of openings and of narrowings before it."""

    opening: int
    narrowing: int


@dataclass(slots=True, repr=False, eq=False)
class Breaker:
    """The circuit breaker of one backend, closed at first, with the window of calls under way."""

    _opening: int = 0
    _narrowing: int = 0
    _failures: int = 0
    _until: float | None = None
    _paused: float = -math.inf
    _active: int = 0
    _window: float = math.inf
    # Below this the window doubles with each round, above it grows by one call.
    _slow_until: float = math.inf

    def __repr__(self) -> str:
        state = "closed" if self.closed else f"open until {self._until:.1f}"
        return f"<Breaker {state}: {self._failures} failures in a row, {self._active} of {self._window:g} calls>"

    @property
    def closed(self) -> bool:
        """True unless failures have opened it, and no success has closed it since."""
        return self._until is None

    @property
    def room(self) -> float:
        """The number of calls that may begin before another has to end; not positive: none."""
        return self._window - self._active

    def rests(self, now: float) -> bool:
        """True if no call may begin, and none shall wait for it."""
        return self._until is not None and now < self._until

    def pause(self, now: float) -> float:
        """The seconds for which the backend asked not to be called."""
        return max(0.0, self._paused - now)

    def begin(self) -> Permit:
        """A call begins: the breaker doesn't rest or pause, and has room."""
        self._active += 1
        return Permit(self._opening, self._narrowing)

    def end(self, permit: Permit) -> None:
        """The call of `permit` is over; whether it succeeded is said before."""
        if permit.opening == self._opening:
            self._active -= 1

    def succeed(self, permit: Permit) -> None:
        """The call of `permit` showed that the backend works."""
        if permit.opening != self._opening:
            return
        self._failures = 0
        self._until = None
        if self._window < math.inf and permit.narrowing == self._narrowing:
            self._window += 1 if self._window < self._slow_until else 1 / self._window
            if self._window >= WIDE:
                self._window = math.inf

    def fail(self, permit: Permit, now: float, rest: float = 0.0) -> None:
        """The call of `permit` failed, and that was the backend's fault; `rest`: the seconds for which it asks."""
        if permit.opening != self._opening:
            return
        self._wait(now, rest)
        self._failures += 1
        if self._until is not None or self._failures == OPENS_AFTER:
            self._opening += 1
            self._until = now + min(max(rest, REST), LONGEST_REST)
            self._failures = self._active = 0
            self._window, self._slow_until = 1, math.inf

    def throttle(self, permit: Permit, now: float, rest: float = 0.0) -> None:
        """The backend answered the call of `permit` that there are too many."""
        if permit.opening != self._opening:
            return
        if self._active <= 1:
            self.fail(permit, now, rest)
        elif rest:
            self._wait(now, rest)
        elif permit.narrowing == self._narrowing:
            self._narrowing += 1
            self._window = self._slow_until = max(1, min(self._active, self._window) // 2)

    def _wait(self, now: float, rest: float) -> None:
        if rest:
            self._paused = max(self._paused, now + min(rest, LONGEST_REST))
            self._window, self._slow_until = 1, math.inf
            self._narrowing += 1


@dataclass(slots=True, eq=False)
class RetryBudget:
    """Bounds the retries of one backend, so that they never multiply an overload."""

    _active: int = 0
    _fifths: int = _RESERVE

    def begin(self) -> None:
        self._active += 1
        self._fifths = min(self._fifths + 1, max(_RESERVE, self._active))

    def end(self) -> None:
        self._active -= 1
        self._fifths = min(self._fifths, max(_RESERVE, self._active))

    def take(self) -> bool:
        """Take one retry; False if there is none."""
        if self._fifths < _RETRY:
            return False
        self._fifths -= _RETRY
        return True
