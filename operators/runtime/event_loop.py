"""The event loop, where every call of a process to a backend runs, and the event that wakes the process.

New messages, finished calls, a stop and the sink set the event. The message source waits for it while the engine has
nothing to do. An idle process therefore sleeps. Only one source of a process may wait.

The loop has a thread of its own, except while it is attended: then the thread that waits for the event runs it, and
needs no second one: to wake a thread costs more than most of the work it is woken for. A wait ends at least PAUSE after
the one before, so that under load all messages of that time are one batch. Who sets the event may be more patient: then
later ones come along, and the engine has one turn for them in place of several.
"""

import asyncio
import math
import threading
import time
import traceback
from collections.abc import Awaitable, Callable, Coroutine, Iterator
from contextlib import contextmanager
from typing import Any, Final, TypeVar

import structlog

log = structlog.stdlib.get_logger(__name__)

LONGEST_WAIT: Final = 0.1
"""Seconds after which a waiting source returns to the engine, so that an idle worker can be told from a stalled one."""

PAUSE: Final = 0.002
"""Seconds."""

_RETRY: Final = 5.0
"""Seconds until background work that failed begins again."""

R = TypeVar("R")


class Wakeup:
    """Set from any thread, waited on by one. Without an attended loop, every wait ends as soon as the event is set."""

    __slots__ = ("_ended", "_ends_at", "_event", "_loop", "_thread", "_timer", "_until", "_waiting")

    def __init__(self) -> None:
        self._event = threading.Event()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread = 0
        self._ended = 0.0
        # The time at which the wait is to end because the event was set; infinite: it was not.
        self._until = math.inf
        # While a wait lasts, and the time at which it is to end.
        self._waiting = False
        self._ends_at = 0.0
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
        elif threading.get_ident() != self._thread:
            self._loop.call_soon_threadsafe(self.set, pause)
        elif (until := self._ended + pause) < self._until:
            self._until = until
            if self._waiting:
                self._stop_at(until)

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

    def _stop_at(self, until: float) -> None:
        assert self._loop is not None
        self._ends_at = until
        if until <= time.monotonic():
            self._waiting = False
            self._loop.call_soon(self._loop.stop)
        elif self._timer is None or until < self._timer.when():
            if self._timer is not None:
                self._timer.cancel()
            self._timer = self._loop.call_at(until, self._look_again)

    def _look_again(self) -> None:
        # Nearly all waits end before their timer, which is of use to a later one: to set one for each costs more.
        self._timer = None
        if self._waiting:
            self._stop_at(self._ends_at)


class EventLoopThread:
    """One event loop, on one thread at a time."""

    def __init__(self, wakeup: Wakeup) -> None:
        self.wakeup = wakeup
        self.closing = False
        self.loop = asyncio.new_event_loop()
        self._attended = False
        self._thread = self._start()

    def run(self, work: Coroutine[Any, Any, R], timeout: float) -> R:
        """Run one coroutine from another thread and wait for it."""
        return asyncio.run_coroutine_threadsafe(work, self.loop).result(timeout)

    def keep(self, name: str, work: Callable[[], Awaitable[None]], pause: float = _RETRY) -> None:
        """Run `work` again and again until the loop closes, `pause` seconds after it has ended. From another thread.

        If it fails, the log says so, and it begins again after as long.
        """

        async def run() -> None:
            while True:
                try:
                    await work()
                except Exception as error:  # noqa: BLE001  reported; not by its message, which may quote a document
                    where = "".join(traceback.format_tb(error.__traceback__))
                    reason = f"{name}: {type(error).__name__}"
                    log.error("background work failed", reason=reason, retry_in_s=pause, where=where)
                await asyncio.sleep(pause)

        asyncio.run_coroutine_threadsafe(run(), self.loop)

    def submit(self, callback: Callable[..., None], *arguments: object) -> None:
        """Call back on the loop's thread, at once where the calling one attends the loop. From the one that waits for
        the wake-up event.
        """
        if self._attended:
            callback(*arguments)
        else:
            self.loop.call_soon_threadsafe(callback, *arguments)

    @contextmanager
    def attend(self) -> Iterator[None]:
        """The calling thread runs the loop while it waits for the wake-up event, until the block ends."""
        self._stop()
        self._attended = True
        self.wakeup.attend(self.loop)
        try:
            yield
        finally:
            self.wakeup.attend(None)
            self._attended = False
            self._thread = self._start()

    def close(self) -> None:
        """Cancel the running calls and end the thread."""
        self.closing = True
        self._stop()
        tasks = asyncio.all_tasks(self.loop)
        for task in tasks:
            task.cancel()

        async def end_tasks() -> None:
            await asyncio.gather(*tasks, return_exceptions=True)
            await self.loop.shutdown_asyncgens()

        self.loop.run_until_complete(end_tasks())
        self.loop.close()

    def _start(self) -> threading.Thread:
        thread = threading.Thread(target=self.loop.run_forever, name="calls", daemon=True)
        thread.start()
        return thread

    def _stop(self) -> None:
        self.loop.call_soon_threadsafe(self.loop.stop)
        self._thread.join()
