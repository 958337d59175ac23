"""The watchdog: ends the process when a part of it has stood still for too long."""

import logging
import os
import threading
import time
from collections.abc import Callable, Mapping
from typing import Final

import structlog

log = structlog.stdlib.get_logger(__name__)

Check = Callable[[], bool]

_INTERVAL: Final = 0.5

_LAST_WORDS: Final = 5.0
"""Seconds that the log has to take the last lines."""


def watch(checks: Mapping[str, Check]) -> None:
    """Look at these checks from a thread of its own until one does not hold; then end the process with 1."""
    threading.Thread(target=_watch, args=(checks,), name="watchdog", daemon=True).start()


def lasting(check: Check, seconds: float) -> Check:
    """The check that holds until the given one has not held for so many seconds."""
    held = time.monotonic()

    def holds() -> bool:
        nonlocal held
        now = time.monotonic()
        if check():
            held = now
        return now - held < seconds

    return holds


def end() -> None:
    """End the process at once, with 1: threads of a failed flow may hang in a client."""
    logging.shutdown()
    os._exit(1)


def _watch(checks: Mapping[str, Check]) -> None:
    while True:
        time.sleep(_INTERVAL)
        for name, holds in checks.items():
            if not holds():
                # A log that nobody reads any more would keep the process.
                ending = threading.Timer(_LAST_WORDS, os._exit, (1,))
                ending.daemon = True
                ending.start()
                log.error("watchdog: stood still for too long", part=name)
                end()
