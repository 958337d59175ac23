"""The event-loop thread: every call of a process to a backend runs there."""

import asyncio
import threading
from collections.abc import Awaitable
from typing import TypeVar

from operators.runtime.wakeup import Wakeup

R = TypeVar("R")


class EventLoopThread:
    """One thread with one event loop."""

    def __init__(self, wakeup: Wakeup) -> None:
        self.wakeup = wakeup
        self.closing = False
        self.loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, name="calls", daemon=True)
        self._thread.start()

    def run(self, work: Awaitable[R], timeout: float) -> R:
        """Run one awaitable from another thread and wait for it."""

        async def awaited() -> R:
            return await work

        return asyncio.run_coroutine_threadsafe(awaited(), self.loop).result(timeout)

    def close(self) -> None:
        """Cancel the running calls and end the thread."""
        self.closing = True
        self.loop.call_soon_threadsafe(self.loop.stop)
        self._thread.join()

    def _run(self) -> None:
        asyncio.set_event_loop(self.loop)
        self.loop.run_forever()
        tasks = asyncio.all_tasks(self.loop)
        for task in tasks:
            task.cancel()
        self.loop.run_until_complete(asyncio.gather(*tasks, return_exceptions=True))
        self.loop.run_until_complete(self.loop.shutdown_asyncgens())
        self.loop.close()
