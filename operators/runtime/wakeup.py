"""The one event that wakes a process: new messages, finished calls, a stop and the sink all set it.

The query source waits on it while the engine has nothing to do, in place of a tick: an idle process sleeps, a busy one
never waits. Exactly one source of a process may wait.
"""

import threading
from typing import Final

LONGEST_WAIT: Final = 0.1
"""Seconds after which a waiting source lets the engine go round: a stalled worker differs from an idle one."""


class Wakeup:
    """Set from any thread, waited on by one."""

    __slots__ = ("_event",)

    def __init__(self) -> None:
        self._event = threading.Event()

    def set(self) -> None:
        """Wake the waiting source, or let its next wait end at once."""
        self._event.set()

    def wait(self) -> None:
        """Wait until somebody has set it since the last wait, at most LONGEST_WAIT."""
        self._event.wait(LONGEST_WAIT)
        self._event.clear()
