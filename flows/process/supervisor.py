"""Several replicas on one machine: a process each, stopped together."""

import os
import subprocess
import sys
import time
from collections.abc import Sequence
from typing import Final

from flows.process.signals import StopSignals

_POLL: Final = 0.2


def run_replicas(arguments: Sequence[str], name: str, port: int | None, count: int) -> int:
    """Run `rankstream` with `arguments` `count` times until a signal, or until one ends; the worst exit code.

    Each gets a stable name of its own, `name` and its index, so that its successor can end what it left open, and the
    health port `port` plus its index.
    """
    processes: list[subprocess.Popen[bytes]] = []
    for index in range(count):
        own = {"RANKSTREAM_DELIVERY__REPLICA": f"{name}-{index}"}
        if port:
            own["RANKSTREAM_TELEMETRY__PORT"] = str(port + index)
        command = [sys.executable, "-m", "flows.cli", *arguments]
        processes.append(subprocess.Popen(command, env={**os.environ, **own}))  # noqa: S603  our own command

    def stop() -> None:
        for process in processes:
            process.terminate()

    StopSignals(stop)
    while any(process.poll() is None for process in processes):
        if any(process.returncode for process in processes):
            stop()
        time.sleep(_POLL)
    return max(abs(process.wait()) for process in processes)
