"""The resources of a process by the kernel's account: memory, file descriptors and threads."""

import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

HELD: Final = ("rss_mb", "anonymous_mb", "descriptors", "threads")
"""One sample; `anonymous_mb` is the memory that no file backs: heaps and stacks."""

_KB_PER_MB: Final = 1024


@dataclass(frozen=True, slots=True)
class Samples:
    """The resources of a process over time; `seconds` from the first sample."""

    seconds: list[float] = field(default_factory=list)
    held: Mapping[str, list[float]] = field(default_factory=lambda: {name: [] for name in HELD})

    def add(self, seconds: float, held: Mapping[str, float]) -> None:
        """Append one sample."""
        self.seconds.append(round(seconds, 3))
        for name, value in held.items():
            self.held[name].append(value)


def footprint(pid: int) -> dict[str, float]:
    """The process's resources now. Raises OSError if it is gone."""
    process = Path(f"/proc/{pid}")
    fields = dict(line.split(":", 1) for line in (process / "status").read_text().splitlines())
    return {
        "rss_mb": _megabytes(fields["VmRSS"]),
        "anonymous_mb": _megabytes(fields["RssAnon"]),
        "descriptors": sum(1 for _ in (process / "fd").iterdir()),
        "threads": int(fields["Threads"]),
    }


@contextmanager
def sampled(pid: int, interval: float, told: Callable[[float], None]) -> Iterator[Samples]:
    """Sample the process every `interval` seconds until the block or the process ends; `told` the seconds of each."""
    samples = Samples()
    ended = threading.Event()
    start = time.monotonic()

    def sample() -> None:
        while not ended.wait(max(start + len(samples.seconds) * interval - time.monotonic(), 0)):
            try:
                held = footprint(pid)
            except (OSError, KeyError):
                # A process that is gone has no memory; whoever waits for its answers says so.
                return
            now = time.monotonic() - start
            samples.add(now, held)
            told(now)

    thread = threading.Thread(target=sample, name="footprint", daemon=True)
    thread.start()
    try:
        yield samples
    finally:
        ended.set()
        thread.join()


def _megabytes(field: str) -> float:
    number, unit = field.split()
    assert unit == "kB"
    return int(number) / _KB_PER_MB
