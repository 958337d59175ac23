"""A profile of a process: py-spy's samples, by thread and function."""

import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import orjson

from bench.figures import BenchError

TOP: Final = 25

_SAMPLES_PER_SECOND: Final = 100


@dataclass(frozen=True, slots=True)
class ThreadProfile:
    """One thread: how often it was seen running, and in which functions, or in what these called."""

    name: str
    samples: int
    inclusive: Counter[str]
    self_time: Counter[str]

    def report(self) -> dict[str, Any]:
        """The hottest functions, each with its percentage of the thread's samples."""
        return {
            "thread": self.name,
            "samples": self.samples,
            "inclusive": self._top(self.inclusive),
            "self": self._top(self.self_time),
        }

    def _top(self, counts: Counter[str]) -> list[dict[str, Any]]:
        return [
            {"function": function, "percent": round(100 * count / self.samples, 1)}
            for function, count in counts.most_common(TOP)
        ]


def thread_profiles(collapsed: str) -> list[ThreadProfile]:
    """The threads of py-spy's raw output, whose lines are `thread;frame;...;frame COUNT`; the busiest first."""
    threads: dict[str, ThreadProfile] = {}
    for line in collapsed.splitlines():
        stack, _, number = line.rpartition(" ")
        thread, *frames = stack.split(";")
        if not frames:
            continue
        seen = threads.get(thread) or ThreadProfile(thread, 0, Counter(), Counter())
        count = int(number)
        # A function that calls itself is in the stack once.
        seen.inclusive.update(dict.fromkeys(frames, count))
        seen.self_time[frames[-1]] += count
        threads[thread] = ThreadProfile(thread, seen.samples + count, seen.inclusive, seen.self_time)
    return sorted(threads.values(), key=lambda each: each.samples, reverse=True)


def thread_names(pid: int) -> dict[int, str]:
    """Python's names of the threads of a process, by their ids. Raises BenchError if py-spy is missing or may not."""
    # It stops the process for a moment: ask between two measurements.
    command = [_py_spy(), "dump", "--pid", str(pid), "--json"]
    done = subprocess.run(command, capture_output=True, check=False)
    if done.returncode:
        raise BenchError(f"py-spy: {done.stderr.decode().strip()}")
    return {each["os_thread_id"]: each["thread_name"] for each in orjson.loads(done.stdout) if each["thread_name"]}


def _py_spy() -> str:
    beside = Path(sys.executable).with_name("py-spy")
    found = str(beside) if beside.exists() else shutil.which("py-spy")
    if found is None:
        raise BenchError("py-spy is not installed")
    return found


@contextmanager
def sampling(pid: int, seconds: float, output: Path) -> Iterator[None]:
    """Sample the process for `seconds` from now, collapsed stacks into `output`, which is whole when the block ends.

    Raises BenchError if py-spy is missing or may not.
    """
    command = [_py_spy(), "record", "--pid", str(pid), "--duration", str(max(round(seconds), 1)), "--threads"]
    command += ["--function", "--rate", str(_SAMPLES_PER_SECOND), "--format", "raw", "--output", str(output)]
    # To stop the process for a sample wakes its threads: those that only wait would be seen running.
    command.append("--nonblocking")
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    try:
        yield
        _, errors = process.communicate(timeout=seconds + 30)
    finally:
        if process.poll() is None:
            process.kill()
            process.communicate()
    if process.returncode:
        raise BenchError(f"py-spy: {errors.strip()}")
