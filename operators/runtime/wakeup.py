"""The event that wakes a process: new messages, finished calls, a stop and the sink set it.

The message source waits for it while the engine has nothing to do. An idle process therefore sleeps. Only one source of
a process may wait.

An event loop can be attended: then the waiting thread runs it while it waits, and needs no second one: to wake a
thread costs more than most of the work it is woken for. A wait ends at least PAUSE after the one before, so that under
load all messages of that time are one batch. Who sets the event may be more patient: then later ones come along, and
the engine has one turn for them in place of several.
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


class Wakeup:
    """Set from any thread, waited on by one. Without an attended loop, every wait ends as soon as the event is set."""

    __slots__ = ("_ended", "_event", "_loop", "_thread", "_timer", "_until", "_waiting")

    def __init__(self) -> None:
        self._event = threading.Event()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread = 0
        self._ended = 0.0
        # The time at which the wait is to end because the event was set; infinite: it was not.
        self._until = math.inf
        self._waiting = False
        self._timer: asyncio.TimerHandle | None = None

    def attend(self, loop: asyncio.AbstractEventLoop | None) -> None:
        """Have the calling thread, which is the one that waits, run this loop from now on; None: no longer."""
        self._thread = threading.get_ident()
        self._loop = loop
        self._until = 0.0
        self._event.set()

    def set(self, pause: float = PAUSE) -> None:
        """Wake the waiting source, or let its next wait end at once, but `pause` seconds after its last wait at the
        earliest.
        """
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
        self._waiting = True
        self._stop_at(min(self._until, time.monotonic() + LONGEST_WAIT))
        self._loop.run_forever()
        self._waiting = False
        self._ended = time.monotonic()
        was_set, self._until = self._until < math.inf, math.inf
        return was_set

    def _come(self, pause: float) -> None:
        until = self._ended + pause
        if until < self._until:
            self._until = until
            if self._waiting:
                self._stop_at(until)

    def _stop_at(self, until: float) -> None:
        assert self._loop is not None
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self._loop.call_at(until, self._loop.stop)
