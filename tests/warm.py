"""Commands in processes that are forked from one that has imported everything.

An import of the flows takes a second of CPU time or two, and the tests start some hundreds of processes. In all else a
process is as one of `python -m flows.cli`: its environment, its output, its signals and its exit code are its own.
Tests of a start itself, and processes whose command line or environment others read in /proc, use subprocess.
"""

import atexit
import gc
import multiprocessing
import os
import runpy
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from multiprocessing.reduction import DupFd
from typing import IO, Any, Final

_FORKING: Final = multiprocessing.get_context("forkserver")
_FORKING.set_forkserver_preload(
    ["tests.warm", "flows.cli.main", "flows.process.serve", "flows.search", "flows.indexing", "flows.feedback"]
)


class WarmProcess:
    """A running command, with the methods of subprocess.Popen that tests use."""

    def __init__(self, arguments: Sequence[str], environment: Mapping[str, str], files: Sequence[IO[Any]]) -> None:
        self.args = list(map(str, arguments))
        duplicates = [DupFd(file.fileno()) for file in files]
        self._process = _FORKING.Process(target=_run, args=(self.args, dict(environment), os.getcwd(), duplicates))
        self._process.start()

    @property
    def pid(self) -> int:
        """The number of the process."""
        assert self._process.pid is not None
        return self._process.pid

    @property
    def returncode(self) -> int | None:
        """The exit code, negative for a signal; None while it runs."""
        return self._process.exitcode

    def poll(self) -> int | None:
        """The exit code; None while it runs."""
        return self._process.exitcode

    def wait(self, timeout: float | None = None) -> int:
        """Its exit code. Raises subprocess.TimeoutExpired."""
        self._process.join(timeout)
        if self._process.exitcode is None:
            raise subprocess.TimeoutExpired(self.args, timeout or 0.0)
        return self._process.exitcode

    def send_signal(self, number: int) -> None:
        """Send a signal, unless it has ended."""
        if self._process.exitcode is None:
            os.kill(self.pid, number)

    def kill(self) -> None:
        """End it at once."""
        self._process.kill()

    def terminate(self) -> None:
        """Ask it to end."""
        self._process.terminate()


Running = WarmProcess | subprocess.Popen[bytes]


def start(arguments: Sequence[str], environment: Mapping[str, str], out: IO[Any]) -> Running:
    """Start `rankstream` with these arguments, and all that it prints to a file.

    What is of another interpreter, by a variable such as PYTHONPATH, is started by it.
    """
    if _interpreter(environment) != _interpreter(os.environ):
        command = [sys.executable, "-m", "flows.cli", *arguments]
        return subprocess.Popen(command, env=environment, stdin=subprocess.DEVNULL, stdout=out, stderr=out)
    with open(os.devnull, "rb") as nothing:
        return WarmProcess(arguments, environment, (nothing, out, out))


def run(
    arguments: Sequence[str], environment: Mapping[str, str], timeout: float, given: bytes = b""
) -> subprocess.CompletedProcess[str]:
    """Run `rankstream` with these arguments, and `given` to read, to its end. Raises subprocess.TimeoutExpired."""
    with tempfile.TemporaryFile() as read, tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        read.write(given)
        read.seek(0)
        process = WarmProcess(arguments, environment, (read, out, err))
        try:
            code = process.wait(timeout)
        finally:
            process.kill()
        printed = [os.pread(file.fileno(), os.fstat(file.fileno()).st_size, 0).decode() for file in (out, err)]
    return subprocess.CompletedProcess(process.args, code, *printed)


def _interpreter(environment: Mapping[str, str]) -> Mapping[str, str]:
    return {name: value for name, value in environment.items() if name.startswith("PYTHON")}


def _run(arguments: list[str], environment: dict[str, str], directory: str, files: list[Any]) -> None:
    # What was imported before the fork stays shared: a search for garbage would write to each of its pages.
    gc.freeze()
    os.environ.clear()
    os.environ.update(environment)
    os.chdir(directory)
    for number, file in enumerate(files):
        detached = file.detach()
        os.dup2(detached, number)
        os.close(detached)
    sys.stdin, sys.stdout = os.fdopen(0, closefd=False), os.fdopen(1, "w", closefd=False)
    sys.stderr = os.fdopen(2, "w", buffering=1, errors="backslashreplace", closefd=False)
    sys.argv = ["rankstream", *arguments]
    try:
        runpy.run_module("flows.cli", run_name="__main__")
    finally:
        # multiprocessing ends a process without them.
        atexit._run_exitfuncs()
