"""How many calls a reranker's server gets at a time."""

import asyncio
import sys
from typing import Any

from operators.clients.transport import Endpoint
from schemas.errors import BackendTimeout


class Slots:
    """At most `limit` calls in flight, over all queries; a limit of 0 or less is none."""

    def __init__(self, limit: int) -> None:
        self._limit = limit if limit > 0 else sys.maxsize
        self._loop: asyncio.AbstractEventLoop | None = None
        self._free = asyncio.Semaphore(self._limit)

    async def post(self, endpoint: Endpoint, path: str, body: object, *, deadline: float) -> Any:
        """Post in a free slot and return the parsed answer before `deadline`, in the loop's time.

        Raises BackendError; BackendTimeout too if no slot came free, and then nothing was sent.
        """
        loop = asyncio.get_running_loop()
        if loop is not self._loop:
            # A semaphore belongs to the loop that first waited on it.
            self._loop = loop
            self._free = asyncio.Semaphore(self._limit)
        free = self._free
        try:
            async with asyncio.timeout_at(deadline):
                await free.acquire()
        except TimeoutError:
            raise BackendTimeout(f"{endpoint.name}: no free slot in time") from None
        try:
            return await endpoint.call("POST", path, body, timeout=deadline - loop.time())
        finally:
            free.release()
