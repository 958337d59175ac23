"""Calls to a reader of watermarks that has to catch up."""

import asyncio
import functools
import time
from collections.abc import Callable, Coroutine

from operators.delivery.table_reader import WatermarkReader
from schemas.errors import BackendTimeout, BackendUnavailable
from tests.operators.delivery.scripted import until

WITHIN = 30.0
NOTICED_WITHIN = 5.0
"""Less than a reader bears with a tail that stands still, after which it notices in any case."""


def on_a_loop(test: Callable[[], Coroutine[None, None, None]]) -> Callable[[], None]:
    """The test, run on an event loop of its own."""

    @functools.wraps(test)
    def run() -> None:
        asyncio.run(test())

    return run


async def recovered(reader: WatermarkReader) -> None:
    """Return once a call gets through."""
    limit = time.monotonic() + WITHIN
    while time.monotonic() < limit:
        try:
            return await reader.caught_up(WITHIN)
        except (BackendTimeout, BackendUnavailable):
            await asyncio.sleep(0.01)
    raise AssertionError("the reader never came back")


def fails_at_once(reader: WatermarkReader) -> bool:
    """True if a call fails before it waits for anything."""
    try:
        reader.caught_up(WITHIN).send(None)
    except BackendUnavailable:
        return True
    return False


async def fallen_behind(reader: WatermarkReader) -> None:
    """Return once calls fail at once; a tail that stands still isn't made anew so soon."""
    limit = time.monotonic() + NOTICED_WITHIN
    while not fails_at_once(reader):
        assert time.monotonic() < limit, "the reader never noticed"
        await asyncio.sleep(0.01)


async def eventually(holds: Callable[[], bool]) -> None:
    """Wait, the loop free, until it holds."""
    await asyncio.to_thread(until, holds)
