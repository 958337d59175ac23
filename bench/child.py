"""A process of the rig, from its start to its end."""

import contextlib
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Final

from bench.figures import BenchError
from bench.kafka.broker import REPOSITORY

_STOP_TIMEOUT: Final = 40.0
_LOG_LINES: Final = 20


@dataclass(frozen=True, slots=True)
class Child:
    """A process and the file that it logs to."""

    name: str
    process: subprocess.Popen[str]
    log: Path

    def failure(self, what: str) -> BenchError:
        """An error that ends with the last lines of the log."""
        lines = self.log.read_text(errors="replace").splitlines()[-_LOG_LINES:]
        return BenchError("\n".join([f"{self.name}: {what}", *lines]))

    def line(self) -> str:
        """The next line that it prints. Raises BenchError if it ends instead."""
        assert self.process.stdout is not None
        if not (line := self.process.stdout.readline()):
            raise self.failure("ended before its answer")
        return line

    def check(self) -> None:
        """Raise BenchError unless it runs."""
        if (status := self.process.poll()) is not None:
            raise self.failure(f"ended with status {status}")


@contextlib.contextmanager
def running_child(
    name: str, command: Sequence[str], log: Path, env: Mapping[str, str] | None = None, *, talk: bool = False
) -> Iterator[Child]:
    """Run `command` until the block ends, logging to `log`; with `talk`, through pipes and only errors to the log."""
    with log.open("w") as file:
        output: IO[str] | int = subprocess.PIPE if talk else file
        # In a session of its own, so that Ctrl-C ends the bench first and its processes through it.
        process = subprocess.Popen(
            command,
            cwd=REPOSITORY,
            env=env,
            stdin=subprocess.PIPE if talk else subprocess.DEVNULL,
            stdout=output,
            stderr=file,
            text=True,
            start_new_session=True,
        )
    try:
        yield Child(name, process, log)
    finally:
        process.terminate()
        try:
            process.wait(_STOP_TIMEOUT)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        for pipe in (process.stdin, process.stdout):
            if pipe is not None:
                pipe.close()
