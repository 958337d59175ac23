"""The event that wakes a process: new messages, finished calls, a stop and the sink set it.

The message source waits for it while the engine has nothing to do. An idle process therefore sleeps, and a busy one
never waits. Only one source of a process may wait.
"""

import threading
from typing import Final

LONGEST_WAIT: Final = 0.1
"""Seconds after which a waiting source returns to the engine, so that an idle worker can be told from a stalled one."""


class Wakeup:
    """Set from any thread, waited on by one."""

    __slots__ = ("_event",)

    def __init__(self) -> None:
        self._event = threading.Event()

    def set(self) -> None:
        """Wake the waiting source, or let its next wait end at once."""
        self._event.set()

    def wait(self) -> bool:
        """Whether the event was set since the last wait, or is within LONGEST_WAIT."""
        was_set = self._event.wait(LONGEST_WAIT)
        self._event.clear()
        return was_set
