"""Servers that a whole run shares: the worker that needs one first starts it, in a process that ends with the run.

The process enters the server's context manager and writes the handle, pickled, beside its lock; every worker reads it.
It looks each second whether the run's first process lives, so that the server ends with the run however that one ends.
"""

import fcntl
import os
import pickle
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from functools import partial
from pathlib import Path
from typing import Final

import pytest

from bench.kafka.broker import Broker

SERVERS: Final[Mapping[str, Callable[[], AbstractContextManager[Broker]]]] = {
    "plain": Broker,
    "secure": partial(Broker, secure=True),
}

_started: Final[list[subprocess.Popen[bytes]]] = []
"""Kept: a process that is forgotten while it runs is a warning."""


def shared(factory: pytest.TempPathFactory, name: str) -> Broker:
    """The run's server of this name in SERVERS, started if no worker has needed it before.

    Raises RuntimeError with the process's output if it doesn't start.
    """
    worker = "PYTEST_XDIST_WORKER" in os.environ
    own = factory.getbasetemp()
    directory, run = (own.parent, os.getppid()) if worker else (own, os.getpid())
    handle, output = directory / f"{name}.pickle", directory / f"{name}.log"
    with (directory / f"{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not handle.exists():
            with output.open("wb") as log:
                process = subprocess.Popen(
                    [sys.executable, "-m", "tests.servers", name, str(handle), str(run)],
                    cwd=Path(__file__).parents[1],
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    # Ctrl-C ends the tests first, and the server through them.
                    start_new_session=True,
                )
            _started.append(process)
            while not handle.exists():
                if process.poll() is not None:
                    raise RuntimeError(f"{name}: {output.read_text()}")
                time.sleep(0.05)
    server: Broker = pickle.loads(handle.read_bytes())
    return server


def main(name: str, handle: Path, run: int) -> None:
    """Run a server until the process `run` has ended, or until SIGTERM."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    with SERVERS[name]() as server:
        written = handle.with_suffix(".new")
        written.write_bytes(pickle.dumps(server))
        written.rename(handle)
        while Path(f"/proc/{run}").exists():
            server.check()
            time.sleep(1)


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), int(sys.argv[3]))
