"""A soak's report: what grew, when it was slow, and the verdict."""

import os
import subprocess
import sys
import time
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.figures import BenchError
from bench.footprint import HELD, Samples, footprint, sampled
from bench.soak import CRITERIA, WINDOWS, report, sound, windows
from tests.bench.test_figures import measurement


def held(**changes: Sequence[float]) -> Samples:
    """Forty seconds in which nothing changed, but for what is given."""
    flat = {name: [100.0] * 40 for name in HELD}
    return Samples([float(second) for second in range(40)], {**flat, **{n: list(v) for n, v in changes.items()}})


def test_a_sound_run() -> None:
    """All answered once, nothing grew."""
    found = report(measurement([5.0] * 400), held(), 10)
    assert (found["sent"], found["lost"], found["twice"], found["flat"]) == (400, 0, 0, True)
    assert sound(found)


@pytest.mark.parametrize("name", CRITERIA)
def test_whatever_grows_fails_the_run(name: str) -> None:
    """Memory, descriptors or threads: the report says which and by which criterion."""
    found = report(measurement([5.0] * 400), held(**{name: range(100, 140)}), 10)
    assert not sound(found)
    assert {each for each in CRITERIA if not found["held"][each]["flat"]} == {name}
    assert "quarter" in found["held"][name]["criterion"]


def test_lost_or_doubled_queries_fail_the_run() -> None:
    """Even if nothing grew."""
    assert not sound(report(measurement([5.0] * 399 + [None]), held(), 10))
    assert not sound(report(measurement([5.0] * 400, twice=1), held(), 10))


def test_a_process_that_was_hardly_seen_is_not_judged() -> None:
    """A report needs samples."""
    with pytest.raises(BenchError, match="too few"):
        report(measurement([5.0] * 400), Samples(), 10)


@given(st.lists(st.none() | st.floats(0, 1e6), min_size=1, max_size=200))
def test_windows_hold_every_query_once(latencies: list[float | None]) -> None:
    """In order, none empty; a lost query counts as sent where it was due."""
    found = windows(latencies, 10)
    assert len(found) == min(WINDOWS, len(latencies))
    assert sum(each["sent"] for each in found) == len(latencies)
    assert sum(each["answered"] for each in found) == sum(each is not None for each in latencies)
    assert [each["from_s"] for each in found] == sorted({each["from_s"] for each in found})


def test_a_slow_window_is_seen() -> None:
    """A slow window is found, and the time at which it starts."""
    found = windows([5.0] * 1000 + [900.0] * 50 + [5.0] * 950, 10)
    assert [number for number, each in enumerate(found) if each["p99_ms"] > 5] == [10]
    assert found[10]["from_s"] == 100


def test_queries_in_flight_follow_littles_law() -> None:
    """100 a second that take half a second each are 50 at a time; lost ones aren't counted."""
    (first, *_) = windows([500.0] * 2000, 100)
    assert first["in_flight"] == 50
    assert windows([None] * 20, 100)[0]["in_flight"] == 0


@pytest.mark.parametrize(
    ("latencies", "expected"),
    [
        ([5.0] * 2000, True),
        ([90.0] * 400 + [5.0] * 1600, True),
        ([5.0] * 1000 + [9.0] * 1000, True),
        ([5.0] * 1900 + [11.0] * 100, False),
    ],
)
def test_a_load_that_piled_up_is_not_steady(latencies: list[float], expected: bool) -> None:
    """More than twice the usual number in flight after the warm-up: what then grows may be the load itself."""
    assert report(measurement(latencies), held(), 100)["steady"] is expected


TAKES = """
import os, sys, threading
print("before", flush=True)
sys.stdin.readline()
block = bytearray(b"x") * (64 << 20)
threading.Thread(target=threading.Event().wait, daemon=True).start()
opened = open(os.devnull)
print("after", flush=True)
sys.stdin.readline()
"""


def test_a_footprint_is_one_process() -> None:
    """Growth shows: memory, a descriptor and a thread."""
    # Not this process: what earlier tests left may go at any moment.
    with subprocess.Popen([sys.executable, "-c", TAKES], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stdout.readline() == b"before\n"
        before = footprint(process.pid)
        process.stdin.write(b"\n")
        process.stdin.flush()
        assert process.stdout.readline() == b"after\n"
        after = footprint(process.pid)
    assert 60 < after["rss_mb"] - before["rss_mb"] < 80
    assert 60 < after["anonymous_mb"] - before["anonymous_mb"] < 80
    assert after["descriptors"] == before["descriptors"] + 1
    assert after["threads"] == before["threads"] + 1


def test_samples_come_until_the_block_ends() -> None:
    """One at once, then at the interval; none afterwards."""
    told: list[float] = []
    with sampled(os.getpid(), 0.01, told.append) as samples:
        while len(samples.seconds) < 5:
            time.sleep(0.005)
    count = len(samples.seconds)
    assert len(told) == count
    assert all(len(values) == count for values in samples.held.values())
    assert samples.seconds == sorted(samples.seconds)


def test_sampling_ends_with_its_process() -> None:
    """A process that is gone is no error here: whoever waits for its answers says so."""
    with sampled(2**22 + 1, 0.01, lambda _: None) as samples:
        time.sleep(0.05)
    assert samples.seconds == []
