"""SIGTERM and SIGINT: the first one drains, a second one ends the process at once. SIGHUP only drains.

SIGHUP says that the terminal, or the command that supervises this process, is gone; the kernel may say it twice. Where
it is ignored, as with nohup, it stays so.

The engine holds the main thread, where Python would run a handler only after it is done. The interpreter's C handler
writes the signal's number to a socket at once; a thread reads it there.
"""

import os
import signal
import socket
import threading
from collections.abc import Callable
from types import FrameType
from typing import Final

FORCED_EXIT: Final = 130
"""Exit code after a second signal."""


class StopSignals:
    """Calls `stop` at the first signal, and `abandon` before it ends the process at a second one.

    Made by the main thread, before the engine starts.
    """

    def __init__(self, stop: Callable[[], None], abandon: Callable[[], None] = lambda: None) -> None:
        self._stop = stop
        self._abandon = abandon
        # Both ends are kept: a collected socket would leave the descriptor to another user.
        self._reader, self._writer = socket.socketpair()
        self._writer.setblocking(False)
        signal.set_wakeup_fd(self._writer.fileno(), warn_on_full_buffer=False)
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            if number != signal.SIGHUP or signal.getsignal(number) != signal.SIG_IGN:
                signal.signal(number, _left_to_the_thread)
        threading.Thread(target=self._read, name="signals", daemon=True).start()

    def _read(self) -> None:
        self._reader.recv(1)
        self._stop()
        while self._reader.recv(1)[0] == signal.SIGHUP:
            pass
        self._abandon()
        os._exit(FORCED_EXIT)


def _left_to_the_thread(number: int, frame: FrameType | None) -> None:
    """Handle nothing: without a Python handler the C one isn't installed."""
