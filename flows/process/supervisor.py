"""Several replicas on one machine: a process each, which is started again when it ends, by the rules of Supervision.

A replica outlives neither the command nor a second signal to it. A terminal's Ctrl-C reaches the command alone, which
asks each replica to stop once: a second signal would end it without a drain.
"""

import ctypes
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from typing import Any, Final

import structlog

from flows.process.signals import StopSignals
from flows.process.supervision import MISCONFIGURED, MOST, WINDOW, Supervision

log = structlog.stdlib.get_logger(__name__)

_LOOK: Final = 0.1
"""Seconds between two looks at the processes."""

_AFTER_DRAIN: Final = 45.0
"""Seconds after `drain_timeout` to close connections and to send spans."""
_LIBC: Final = ctypes.CDLL(None)
_PR_SET_PDEATHSIG: Final = 1


def run_replicas(arguments: Sequence[str], name: str, port: int | None, count: int, drain_timeout: float) -> int:
    """Run `rankstream` with `arguments` as `count` replicas until a signal, or until one cannot run; the exit code.

    Each has a stable name of its own, `name` and its index, so that its successor can end its open transactions, and
    the health port `port` plus its index; None: its own choice.
    """
    replicas = _Replicas(arguments, name, port)
    supervision = Supervision(count, drain_timeout + _AFTER_DRAIN)
    signalled = threading.Event()
    StopSignals(signalled.set, replicas.kill)
    try:
        return _supervise(supervision, replicas, signalled)
    finally:
        replicas.kill()


def _supervise(supervision: Supervision, replicas: "_Replicas", signalled: threading.Event) -> int:
    asked = False
    while (code := supervision.exit_code) is None:
        time.sleep(_LOOK)
        now = time.monotonic()
        if signalled.is_set():
            supervision.stop(now)
        for index, status in replicas.poll_ended():
            expected = supervision.ending
            replicas.forget(index, status, supervision.ended(index, status, now), expected=expected)
        for index in supervision.due(now):
            replicas.start(index)
        if supervision.ending and not asked:
            asked = True
            replicas.terminate()
        if supervision.overdue(now):
            replicas.kill()
    return code


class _Replicas:
    """The processes that run, by the index of their replica."""

    def __init__(self, arguments: Sequence[str], name: str, port: int | None) -> None:
        self._command = [sys.executable, "-m", "flows.cli", *arguments]
        self._name = name
        self._port = port
        self._processes: dict[int, subprocess.Popen[bytes]] = {}

    def start(self, index: int) -> None:
        """Start the process of a replica."""
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
        """The replicas that have ended, each with its exit code."""
        statuses = ((index, process.poll()) for index, process in self._processes.items())
        return [(index, status) for index, status in statuses if status is not None]

    def forget(self, index: int, status: int, restart_in: float | None, *, expected: bool) -> None:
        """Say how a replica ended, and what comes next."""
        named = self._fields(index) | _outcome(status)
        del self._processes[index]
        if restart_in is not None:
            log.warning("replica ended", **named, restart_in_s=restart_in)
        elif expected:
            log.info("replica ended", **named)
        elif status == MISCONFIGURED:
            log.error("replica cannot start: all end", **named)
        else:
            log.error("replica given up: all end", **named, ends=MOST, within_s=WINDOW)

    def terminate(self) -> None:
        """Ask all to drain."""
        for process in list(self._processes.values()):
            process.terminate()

    def kill(self) -> None:
        """End all at once. From any thread."""
        for process in list(self._processes.values()):
            process.kill()

    def _fields(self, index: int) -> dict[str, Any]:
        return {"replica": f"{self._name}-{index}", "pid": self._processes[index].pid}


def _outcome(status: int) -> dict[str, Any]:
    return {"exit_code": status} if status >= 0 else {"signal": signal.strsignal(-status)}


def _end_with_parent() -> None:
    """Have this process drain when its parent is gone, where the kernel tells it so, whatever nohup did to the parent.

    The kernel says it for each thread of the parent, so the signal must be one that does no harm when it is repeated.
    """
    signal.signal(signal.SIGHUP, signal.SIG_DFL)
    if sys.platform == "linux":
        _LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGHUP)
