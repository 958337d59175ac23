"""The event that wakes a process: new messages, finished calls, a stop and the sink set it.

The message source waits for it while the engine has nothing to do. An idle process therefore sleeps. Only one source of
a process may wait.

An event loop can be attended: then the waiting thread runs it while it waits, and needs no second one: to wake a
thread costs more than most of the work it is woken for. A wait ends at least PAUSE after the one before, so that under
load all messages of that time are one batch.
"""

import asyncio
import threading
import time
from typing import Final

LONGEST_WAIT: Final = 0.1
"""Seconds after which a waiting source returns to the engine, so that an idle worker can be told from a stalled one."""

PAUSE: Final = 0.002
"""Seconds."""


class Wakeup:
    """Set from any thread, waited on by one."""

    __slots__ = ("_due", "_ended", "_event", "_loop", "_stopping", "_thread")

    def __init__(self) -> None:
        self._event = threading.Event()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._due = self._stopping = False
        self._ended = 0.0
        self._thread = 0

    def attend(self, loop: asyncio.AbstractEventLoop | None) -> None:
        """Have the calling thread, which is the one that waits, run this loop from now on; None: no longer."""
        self._thread = threading.get_ident()
        self._loop = loop
        self._due = True
        self._event.set()

    def set(self) -> None:
        """Wake the waiting source, or let its next wait end at once."""
        if self._loop is None:
            self._event.set()
        elif threading.get_ident() == self._thread:
            self._come()
        else:
            self._loop.call_soon_threadsafe(self._come)

    def wait(self) -> bool:
        """True if the event was set since the last wait, or is within LONGEST_WAIT."""
        if self._loop is None:
            was_set = self._event.wait(LONGEST_WAIT)
            self._event.clear()
            return was_set
        self._stopping = False
        if self._due:
            self._come()
        timer = self._loop.call_later(LONGEST_WAIT, self._loop.stop)
        self._loop.run_forever()
        timer.cancel()
        self._ended = time.monotonic()
        was_set, self._due = self._due, False
        return was_set

    def _come(self) -> None:
        assert self._loop is not None
        self._due = True
        if self._stopping:
            return
        self._stopping = True
        left = self._ended + PAUSE - time.monotonic()
        if left > 0:
            self._loop.call_later(left, self._loop.stop)
        else:
            self._loop.stop()
