"""How many of a backend's calls may be second and third tries, so that retries never multiply an overload.

Pure: it makes no call and reads no clock.

Rules
-----
- The budget is a bucket of retries. It begins full; a request's first try puts in 0.2 of a retry, a retry takes 1.
- It holds at most 0.2 of a retry for each active request, those begun and not ended, but room for 3 at the least.
- What is over that is lost: at the time it is put in, or when requests end.

So among n requests there are never more than 0.2 n + 3 retries, however long a failure lasts.
"""

from typing import Final

# Counted in fifths of a retry, what a first try puts in, so that every sum is exact.
_RETRY: Final = 5
_RESERVE: Final = 3 * _RETRY


class RetryBudget:
    """One backend's budget of retries."""

    __slots__ = ("_active", "_fifths")

    def __init__(self) -> None:
        self._active = 0
        self._fifths = _RESERVE

    def begin(self) -> None:
        """A request makes its first try."""
        self._active += 1
        self._fifths = min(self._fifths + 1, self._room)

    def end(self) -> None:
        """A request that has begun is over, whatever became of it."""
        self._active -= 1
        self._fifths = min(self._fifths, self._room)

    def take(self) -> bool:
        """Take one retry; False if there is none."""
        if self._fifths < _RETRY:
            return False
        self._fifths -= _RETRY
        return True

    @property
    def _room(self) -> int:
        return max(_RESERVE, self._active)
