"""Collapsed stacks become functions by inclusive and by self time."""

import pytest

from bench.profiling import TOP, thread_profiles

STACKS = """\
thread (7): calls;run (a.py:1);send (b.py:2) 6
thread (7): calls;run (a.py:1);send (b.py:2);send (b.py:2) 3
thread (7): calls;run (a.py:1) 1
thread (1): MainThread;main (c d.py:1) 40
"""


def test_threads_come_busiest_first_with_their_own_percentages() -> None:
    """A recursive function counts once for inclusive time; names may have spaces."""
    main, calls = (each.report() for each in thread_profiles(STACKS))
    assert (main["thread"], main["samples"]) == ("thread (1): MainThread", 40)
    assert main["self"] == [{"function": "main (c d.py:1)", "percent": 100.0}]
    assert calls["samples"] == 10
    assert calls["inclusive"] == [
        {"function": "run (a.py:1)", "percent": 100.0},
        {"function": "send (b.py:2)", "percent": 90.0},
    ]
    assert calls["self"] == [
        {"function": "send (b.py:2)", "percent": 90.0},
        {"function": "run (a.py:1)", "percent": 10.0},
    ]


def test_only_the_hottest_functions_are_reported() -> None:
    """However many there are."""
    (thread,) = thread_profiles("\n".join(f"t;f{number} {number}" for number in range(1, 100)))
    assert [row["function"] for row in thread.report()["self"]] == [f"f{number}" for number in range(99, 99 - TOP, -1)]


@pytest.mark.parametrize("output", ["", "t 5\n"])
def test_no_stacks_are_no_threads(output: str) -> None:
    """An idle process has none."""
    assert thread_profiles(output) == []
