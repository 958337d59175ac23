"""Signals to a real process whose main thread the engine holds: the first drains, a second ends it at once."""

import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator

import pytest

from flows.process.supervision import FORCED_EXIT

PROGRAM = """
import sys, threading, time
from datetime import datetime, timezone

from bytewax import operators as op
from bytewax.dataflow import Dataflow
from bytewax.inputs import DynamicSource, StatelessSourcePartition
from bytewax.run import cli_main
from bytewax.testing import TestingSink

from flows.process.supervision import StopSignals

stop = threading.Event()
drains = sys.argv[1] == "drains"


class Partition(StatelessSourcePartition):
    def next_batch(self):
        print("running", flush=True) if not self.__dict__.setdefault("told", []) else None
        self.told.append(1)
        # The engine's worker waits here, inside one call from Rust, as the query source does.
        stop.wait(0.1)
        if stop.is_set():
            print("stopping", flush=True)
            if drains:
                raise StopIteration
            time.sleep(60)
        return []


class Source(DynamicSource):
    def build(self, step_id, worker_index, worker_count):
        return Partition()


StopSignals(stop.set)
flow = Dataflow("signals")
op.output("out", op.input("in", flow, Source()), TestingSink([]))
cli_main(flow)
print("drained", flush=True)
"""

WITHIN = 20
"""Seconds in which a process must do what it is told."""


def _heard() -> None:
    """The tests' runner may ignore SIGHUP, as nohup does."""
    signal.signal(signal.SIGHUP, signal.SIG_DFL)


class Process:
    """The program, running its flow."""

    def __init__(self, mode: str, before: Callable[[], object] = _heard) -> None:
        self.popen = subprocess.Popen(
            [sys.executable, "-c", PROGRAM, mode],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            preexec_fn=before,
        )
        assert self.said() == "running"

    def said(self) -> str:
        """The next line."""
        assert self.popen.stdout is not None
        return self.popen.stdout.readline().strip()

    def end(self) -> tuple[int, str]:
        """The exit code and the rest of the output."""
        code = self.popen.wait(timeout=WITHIN)
        assert self.popen.stdout is not None
        return code, self.popen.stdout.read().strip()


@pytest.fixture
def processes() -> Iterator[list[Process]]:
    """The processes that a test started; none outlives it."""
    started: list[Process] = []
    yield started
    for process in started:
        process.popen.kill()
        process.popen.wait()
        if process.popen.stdout is not None:
            process.popen.stdout.close()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_the_first_signal_drains(processes: list[Process], number: signal.Signals) -> None:
    """While the engine holds the main thread a signal reaches `stop`, the flow ends by itself, the exit code is 0."""
    processes.append(Process("drains"))
    (process,) = processes
    process.popen.send_signal(number)
    assert process.said() == "stopping"
    assert process.end() == (0, "drained")


@pytest.mark.parametrize("second", [signal.SIGTERM, signal.SIGINT])
def test_a_second_signal_ends_at_once(processes: list[Process], second: signal.Signals) -> None:
    """In a drain that hangs a second signal of either kind ends the process with its own exit code."""
    processes.append(Process("hangs"))
    (process,) = processes
    process.popen.send_signal(signal.SIGTERM)
    assert process.said() == "stopping"
    process.popen.send_signal(second)
    assert process.end() == (FORCED_EXIT, "")
    assert FORCED_EXIT == 130


def test_a_terminal_that_is_gone_ends_no_drain(processes: list[Process]) -> None:
    """However often SIGHUP comes, the drain goes on; a second signal of another kind still ends it."""
    processes.append(Process("hangs"))
    (process,) = processes
    for _ in range(3):
        process.popen.send_signal(signal.SIGHUP)
        time.sleep(0.2)
    assert process.said() == "stopping"
    assert process.popen.poll() is None
    process.popen.send_signal(signal.SIGTERM)
    assert process.end() == (FORCED_EXIT, "")


def test_nohup_is_obeyed(processes: list[Process]) -> None:
    """A process that ignores SIGHUP at the start goes on ignoring it."""
    processes.append(Process("drains", before=lambda: signal.signal(signal.SIGHUP, signal.SIG_IGN)))
    (process,) = processes
    process.popen.send_signal(signal.SIGHUP)
    time.sleep(0.5)
    assert process.popen.poll() is None
    process.popen.send_signal(signal.SIGTERM)
    assert process.said() == "stopping"
    assert process.end() == (0, "drained")
