"""CPU time as the kernel accounts for it, in seconds, user and system together."""

import contextlib
import os
from pathlib import Path
from typing import Final

_TICKS_PER_SECOND: Final = os.sysconf("SC_CLK_TCK")


def process_seconds(pid: int) -> float:
    """The process's CPU time, its ended threads included. Raises OSError if it is gone."""
    return process_ticks(Path(f"/proc/{pid}/stat").read_text()) / _TICKS_PER_SECOND


def thread_seconds(pid: int) -> dict[int, tuple[str, float]]:
    """The name and the time of each thread of the process, by its id."""
    found = {}
    for task in Path(f"/proc/{pid}/task").iterdir():
        # A thread may end meanwhile.
        with contextlib.suppress(OSError):
            stat = (task / "stat").read_text()
            name = stat[stat.index("(") + 1 : stat.rindex(")")]
            found[int(task.name)] = name, process_ticks(stat) / _TICKS_PER_SECOND
    return found


def machine_seconds() -> float:
    """The CPU time of all cores together since the machine started."""
    return machine_ticks(Path("/proc/stat").read_text()) / _TICKS_PER_SECOND


def process_ticks(stat: str) -> int:
    """utime + stime of a /proc/PID/stat."""
    # The name before is in parentheses and may have spaces and parentheses of its own.
    fields = stat.rpartition(")")[2].split()
    return int(fields[11]) + int(fields[12])


def machine_ticks(stat: str) -> int:
    """The busy ticks of a /proc/stat: user, nice, system, irq, softirq and steal; not idle, not iowait."""
    _, user, nice, system, _, _, irq, softirq, steal, *_ = stat.split("\n", 1)[0].split()
    return sum(map(int, (user, nice, system, irq, softirq, steal)))
