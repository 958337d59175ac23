"""The event loop: every call of a process to a backend runs there.

It has a thread of its own, except while it is attended: then it runs on the thread that waits for the wake-up event.
"""

import asyncio
import threading
import traceback
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import Final, TypeVar

import structlog

from operators.runtime.wakeup import Wakeup

log = structlog.stdlib.get_logger(__name__)

_PAUSE: Final = 5.0
"""Seconds."""

R = TypeVar("R")


class EventLoopThread:
    """One event loop, on one thread at a time."""

    def __init__(self, wakeup: Wakeup) -> None:
        self.wakeup = wakeup
        self.closing = False
        self.loop = asyncio.new_event_loop()
        self._attended = False
        self._thread = self._start()

    def run(self, work: Awaitable[R], timeout: float) -> R:
        """Run one awaitable from another thread and wait for it."""

        async def wait() -> R:
            return await work

        return asyncio.run_coroutine_threadsafe(wait(), self.loop).result(timeout)

    def keep(self, name: str, work: Callable[[], Awaitable[None]], pause: float = _PAUSE) -> None:
        """Run `work`, which does not end by itself, until the loop closes. From another thread.

        If it fails, the log says so, and it begins again after `pause` seconds.
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
        """Call back on the loop's thread. From the thread that waits for the wake-up event."""
        if self._attended:
            self.loop.call_soon(callback, *arguments)
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
