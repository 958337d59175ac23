"""Supervision: the signals that end a process, and several replicas on one machine, a process each.

SIGTERM and SIGINT: the first one drains, a second one ends the process at once. SIGHUP only drains. It says that the
terminal, or the command that supervises this process, is gone; the kernel may say it twice. Where it is ignored, as
with nohup, it stays so.

Rules for replicas:
- A replica that ends by itself, whatever its exit code, is started again after a back-off. The others go on.
- The back-off is FIRST seconds, doubles with each end up to LONGEST, and is FIRST again after HEALTHY seconds of
  running.
- No restart mends a configuration error, exit code 2: the command ends with 2.
- A signal ends the command with 0.
- When the command ends, no replica is started any more, and those that run drain. If one ends otherwise, a 0 becomes 1.
  SIGTERM may end one that has not begun to read; it has nothing to drain. One that takes too long is
  ended by a second signal.
- A replica outlives neither the command nor a second signal to it. A terminal's Ctrl-C reaches the command alone, which
  asks each replica to stop once: a second signal would end it without a drain.

| a replica is | `due` | `ended` | when the command ends |
|---|---|---|---|
| waiting | running, if its time has come | | gone |
| running | | waiting; gone when the command ends | running |
"""

import ctypes
import math
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any, Final

import structlog

log = structlog.stdlib.get_logger(__name__)

FORCED_EXIT: Final = 130
"""Exit code after a second signal."""

FIRST: Final = 1.0
LONGEST: Final = 60.0
HEALTHY: Final = 60.0

FAILED: Final = 1
MISCONFIGURED: Final = 2
"""Exit codes, of a replica and of the command."""

_DRAINED: Final = frozenset({0, -signal.SIGTERM})

_LOOK: Final = 0.1
"""Seconds between two looks at the processes."""

_LIBC: Final = ctypes.CDLL(None)
_PR_SET_PDEATHSIG: Final = 1


class StopSignals:
    """Calls `stop` at the first signal, and `abandon` before it ends the process at a second one.

    Made by the main thread, which the engine then holds: Python would run a handler only after it is done. The
    interpreter's C handler writes the signal's number to a socket at once; a thread reads it there.
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
                # Without a Python handler the C one isn't installed.
                signal.signal(number, lambda *_: None)
        threading.Thread(target=self._read, name="signals", daemon=True).start()

    def _read(self) -> None:
        self._reader.recv(1)
        self._stop()
        while self._reader.recv(1)[0] == signal.SIGHUP:
            pass
        self._abandon()
        os._exit(FORCED_EXIT)


class Supervision:
    """The decisions about `count` replicas, named by their index. `now` is seconds on one monotonic clock."""

    def __init__(self, count: int) -> None:
        self._waiting = dict.fromkeys(range(count), -math.inf)
        self._running: dict[int, float] = {}
        self._delays = [FIRST / 2] * count
        self._exit_code: int | None = None

    @property
    def ending(self) -> bool:
        """True if the command ends; the caller then stops the replicas that run."""
        return self._exit_code is not None

    @property
    def exit_code(self) -> int | None:
        """The command's exit code, once it ends and no replica runs."""
        return None if self._running else self._exit_code

    def due(self, now: float) -> list[int]:
        """The replicas to start now; they run from now on."""
        due = [index for index, moment in self._waiting.items() if moment <= now]
        for index in due:
            del self._waiting[index]
            self._running[index] = now
        return due

    def ended(self, index: int, code: int, now: float) -> float | None:
        """A replica that ran has ended, with this exit code, or by the signal of this number, negative.

        Returns the seconds until its next start; None if there is none, because the command ends.
        """
        ran = now - self._running.pop(index)
        if self._exit_code is not None:
            if code not in _DRAINED:
                self._exit_code = self._exit_code or FAILED
            return None
        if code == MISCONFIGURED:
            self._end(MISCONFIGURED)
            return None
        delay = self._delays[index] = FIRST if ran >= HEALTHY else min(2 * self._delays[index], LONGEST)
        self._waiting[index] = now + delay
        return delay

    def stop(self) -> None:
        """A signal asks the command to end."""
        if self._exit_code is None:
            self._end(0)

    def _end(self, code: int) -> None:
        self._exit_code = code
        self._waiting.clear()


def run_replicas(arguments: Sequence[str], name: str, port: int | None, count: int) -> int:
    """Run `rankstream` with `arguments` as `count` replicas until a signal, or until one cannot run; the exit code.

    Each has a stable name of its own, `name` and its index, so that its successor can end its open transactions, and
    the health port `port` plus its index; None: its own choice.
    """
    replicas = _Replicas(arguments, name, port)
    supervision = Supervision(count)
    signalled = threading.Event()
    StopSignals(signalled.set, replicas.kill)
    asked = False
    try:
        while (code := supervision.exit_code) is None:
            time.sleep(_LOOK)
            now = time.monotonic()
            if signalled.is_set():
                supervision.stop()
            for index, status in replicas.poll_ended():
                expected = supervision.ending
                replicas.forget(index, status, supervision.ended(index, status, now), expected=expected)
            for index in supervision.due(now):
                replicas.start(index)
            if supervision.ending and not asked:
                asked = True
                replicas.terminate()
        return code
    finally:
        replicas.kill()


class _Replicas:
    """The processes that run, by the index of their replica."""

    def __init__(self, arguments: Sequence[str], name: str, port: int | None) -> None:
        self._command = [sys.executable, "-m", "flows.cli", *arguments]
        self._name = name
        self._port = port
        self._processes: dict[int, subprocess.Popen[bytes]] = {}

    def start(self, index: int) -> None:
        own = {"RANKSTREAM_DELIVERY__REPLICA": f"{self._name}-{index}"}
        if self._port:
            own["RANKSTREAM_TELEMETRY__PORT"] = str(self._port + index)
        process = subprocess.Popen(  # noqa: S603  our own command
            self._command,
            env={**os.environ, **own},
            stdin=subprocess.DEVNULL,
            # Not the terminal's: its Ctrl-C would be the first of two signals.
            process_group=0,
            # Safe together with the thread for signals, which holds no lock while it waits.
            preexec_fn=_end_with_parent,
        )
        self._processes[index] = process
        log.info("replica started", **self._fields(index))

    def poll_ended(self) -> list[tuple[int, int]]:
        statuses = ((index, process.poll()) for index, process in self._processes.items())
        return [(index, status) for index, status in statuses if status is not None]

    def forget(self, index: int, status: int, restart_in: float | None, *, expected: bool) -> None:
        outcome = {"exit_code": status} if status >= 0 else {"signal": signal.strsignal(-status)}
        named = self._fields(index) | outcome
        del self._processes[index]
        if restart_in is not None:
            log.warning("replica ended", **named, restart_in_s=restart_in)
        elif expected:
            log.info("replica ended", **named)
        else:
            log.error("replica cannot start: all end", **named)

    def terminate(self) -> None:
        for process in list(self._processes.values()):
            process.terminate()

    def kill(self) -> None:
        """End all at once. From any thread."""
        for process in list(self._processes.values()):
            process.kill()

    def _fields(self, index: int) -> dict[str, Any]:
        return {"replica": f"{self._name}-{index}", "pid": self._processes[index].pid}


def _end_with_parent() -> None:
    """Have this process drain when its parent is gone, where the kernel tells it so, whatever nohup did to the parent.

    The kernel says it for each thread of the parent, so the signal must be one that does no harm when it is repeated.
    """
    signal.signal(signal.SIGHUP, signal.SIG_DFL)
    if sys.platform == "linux":
        _LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGHUP)
