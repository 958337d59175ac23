"""Pauses that a test makes itself, in place of `asyncio.sleep`."""

import asyncio
import threading
from collections.abc import Awaitable, Callable

import pytest


def replace_sleep(monkeypatch: pytest.MonkeyPatch, pause: Callable[[float], Awaitable[None]]) -> None:
    """Have `asyncio.sleep` be `pause` in this thread. Servers of other tests, in threads beside it, sleep as before."""
    sleep, thread = asyncio.sleep, threading.get_ident()

    async def sleeping(seconds: float) -> None:
        await (pause if threading.get_ident() == thread else sleep)(seconds)

    monkeypatch.setattr(asyncio, "sleep", sleeping)
