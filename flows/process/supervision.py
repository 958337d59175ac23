"""Supervision of replicas: when each is started, and with which exit code the command ends. Pure: time is an argument.

Rules
-----
- A replica that ends by itself, whatever its exit code, is started again after a back-off. The others go on.
- The back-off is FIRST seconds, doubles with each end up to LONGEST, and is FIRST again after HEALTHY seconds of
  running.
- A replica that ends MOST times within WINDOW seconds is given up: the command ends with 1.
- No restart mends a configuration error, exit code 2: the command ends with 2.
- A signal ends the command with 0.
- When the command ends, no replica is started any more, and those that run drain. If one ends otherwise, a 0 becomes 1.
  SIGTERM may end one that has not begun to read; it has nothing to drain. One that takes too long is overdue.

| a replica is | `due` | `ended` | when the command ends |
|---|---|---|---|
| waiting | running, if its time has come | | gone |
| running | | waiting; gone when the command ends | running |
"""

import math
import signal
from collections import deque
from dataclasses import dataclass, field
from typing import Final

FIRST: Final = 1.0
LONGEST: Final = 60.0
HEALTHY: Final = 60.0
MOST: Final = 10
WINDOW: Final = 1200.0
"""So long that a replica which is never healthy is given up, however long it lives: each of its ends comes within
LONGEST + HEALTHY of the one before."""

FAILED: Final = 1
MISCONFIGURED: Final = 2
"""Exit codes, of a replica and of the command."""

_DRAINED: Final = frozenset({0, -signal.SIGTERM})


@dataclass(slots=True)
class _History:
    """The latest ends of a replica, and their number since it was healthy."""

    ends: deque[float] = field(default_factory=deque)
    unhealthy: int = 0

    def ended(self, now: float, ran: float) -> float | None:
        """Seconds until the next start; None: it is given up."""
        self.ends.append(now)
        while now - self.ends[0] > WINDOW:
            self.ends.popleft()
        self.unhealthy = self.unhealthy + 1 if ran < HEALTHY else 1
        if len(self.ends) >= MOST:
            return None
        return min(FIRST * 2.0 ** (self.unhealthy - 1), LONGEST)


class Supervision:
    """`count` replicas, named by their index, which have `patience` seconds to drain.

    `now` is seconds on one monotonic clock.
    """

    def __init__(self, count: int, patience: float) -> None:
        self._patience = patience
        self._waiting = dict.fromkeys(range(count), -math.inf)
        self._running: dict[int, float] = {}
        self._histories = [_History() for _ in range(count)]
        self._exit_code: int | None = None
        self._ending_since = math.inf

    @property
    def ending(self) -> bool:
        """True if the command ends; the caller then stops the replicas that run."""
        return self._exit_code is not None

    @property
    def exit_code(self) -> int | None:
        """The command's exit code, once it ends and no replica runs."""
        return None if self._running else self._exit_code

    def overdue(self, now: float) -> bool:
        """True if the replicas that still run have had their time to drain; the caller then kills them."""
        return now - self._ending_since > self._patience

    def due(self, now: float) -> list[int]:
        """The replicas to start now; they run from now on."""
        due = [index for index, moment in self._waiting.items() if moment <= now]
        for index in due:
            del self._waiting[index]
            self._running[index] = now
        return due

    def ended(self, index: int, code: int, now: float) -> float | None:
        """A replica that ran has ended, with this exit code, or by the signal of this number, negative.

        Returns the seconds until its next start; None if there is none, because the command ends.
        """
        ran = now - self._running.pop(index)
        if self._exit_code is not None:
            if code not in _DRAINED:
                self._exit_code = self._exit_code or FAILED
            return None
        if code == MISCONFIGURED:
            self._end(MISCONFIGURED, now)
            return None
        delay = self._histories[index].ended(now, ran)
        if delay is None:
            self._end(FAILED, now)
            return None
        self._waiting[index] = now + delay
        return delay

    def stop(self, now: float) -> None:
        """A signal asks the command to end."""
        if self._exit_code is None:
            self._end(0, now)

    def _end(self, code: int, now: float) -> None:
        self._exit_code = code
        self._ending_since = now
        self._waiting.clear()
