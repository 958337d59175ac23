"""How many calls a reranker's server gets at a time."""

import asyncio
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from operators.clients.transport import Endpoint
from schemas.errors import BackendTimeout


class Slots:
    """At most `limit` calls in flight, over all queries; a limit of 0 or less is none."""

    def __init__(self, limit: int) -> None:
        self._limit = limit if limit > 0 else sys.maxsize
        self._loop: asyncio.AbstractEventLoop | None = None
        self._free = asyncio.Semaphore(self._limit)

    @asynccontextmanager
    async def hold(self, backend: str, *, deadline: float) -> AsyncIterator[float]:
        """Hold a slot for a call to `backend`; gives the seconds that are left until `deadline`, in the loop's time.

        Raises BackendTimeout if no slot came free.
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
            raise BackendTimeout(f"{backend}: no free slot in time") from None
        try:
            yield deadline - loop.time()
        finally:
            free.release()

    async def post(self, endpoint: Endpoint, path: str, body: object, *, deadline: float) -> Any:
        """Post in a free slot and return the parsed answer before `deadline`, in the loop's time.

        Raises BackendError; BackendTimeout too if no slot came free, and then nothing was sent.
        """
        async with self.hold(endpoint.name, deadline=deadline) as left:
            return await endpoint.call("POST", path, body, timeout=left)
