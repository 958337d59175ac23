"""The event that wakes a process: new messages, finished calls, a stop and the sink set it.

The message source waits for it while the engine has nothing to do. An idle process therefore sleeps. Only one source of
a process may wait.

An event loop can be attended: then the waiting thread runs it while it waits, and needs no second one: to wake a
thread costs more than most of the work it is woken for. A wait ends at least PAUSE after the one before, so that under
load all messages of that time are one batch. Where requests wait for a backend that is busy, what it has answered may
be gathered for longer.
"""

import asyncio
import math
import threading
import time
from typing import Final

LONGEST_WAIT: Final = 0.1
"""Seconds after which a waiting source returns to the engine, so that an idle worker can be told from a stalled one."""

PAUSE: Final = 0.002
"""Seconds."""

GATHERING: Final = 0.01
"""The pause, in seconds, behind a backend at which more requests wait than calls are under way."""


class Wakeup:
    """Set from any thread, waited on by one."""

    __slots__ = ("_at", "_due", "_ended", "_event", "_loop", "_thread", "_timer")

    def __init__(self) -> None:
        self._event = threading.Event()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._due = False
        self._ended = 0.0
        # When the present wait is to end, because the event was set.
        self._at = math.inf
        self._timer: asyncio.TimerHandle | None = None
        self._thread = 0

    def attend(self, loop: asyncio.AbstractEventLoop | None) -> None:
        """Have the calling thread, which is the one that waits, run this loop from now on; None: no longer."""
        self._thread = threading.get_ident()
        self._loop = loop
        self._due = True
        self._event.set()

    def set(self, pause: float = PAUSE) -> None:
        """Wake the waiting source, or let its next wait end at once; an attended loop's `pause` after the last wait."""
        if self._loop is None:
            self._event.set()
        elif threading.get_ident() == self._thread:
            self._come(pause)
        else:
            self._loop.call_soon_threadsafe(self._come, pause)

    def wait(self) -> bool:
        """True if the event was set since the last wait, or is within LONGEST_WAIT."""
        if self._loop is None:
            was_set = self._event.wait(LONGEST_WAIT)
            self._event.clear()
            return was_set
        self._at = math.inf
        if self._due:
            self._come(PAUSE)
        timer = self._loop.call_later(LONGEST_WAIT, self._loop.stop)
        self._loop.run_forever()
        timer.cancel()
        self._cancel()
        self._ended = time.monotonic()
        was_set, self._due = self._due, False
        return was_set

    def _come(self, pause: float) -> None:
        assert self._loop is not None
        self._due = True
        at = self._ended + pause
        if at >= self._at:
            return
        self._at = at
        self._cancel()
        left = at - time.monotonic()
        if left > 0:
            self._timer = self._loop.call_later(left, self._loop.stop)
        else:
            self._loop.stop()

    def _cancel(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
