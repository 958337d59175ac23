"""Collapsed stacks become a tree of functions, and the tree a picture."""

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.figures import BenchError
from bench.flame import TORN, Frame, draw, flames
from bench.profiling import thread_profiles

STACKS = """\
thread (7): calls;run (a.py:1);send (lib/b.py:2) 6
thread (1): MainThread;<module> (<frozen runpy>:8);invoke (typer/core.py:9);run (a.py:1);send (lib/b.py:2) 50
thread (1): MainThread;<module> (<frozen runpy>:8);invoke (typer/core.py:9);run (a.py:1);send (lib/b.py:3) 20
thread (1): MainThread;<module> (<frozen runpy>:8);invoke (typer/core.py:9);run (a.py:1);send (lib/b.py:3);w 5
thread (1): MainThread;<module> (<frozen runpy>:8);invoke (typer/core.py:9);run (a.py:4) 10
thread (1): MainThread;send (lib/b.py:3) 15
thread (1): MainThread 3
"""

# Fewer than a thousand samples, so that a frame that holds 99.9 % of its caller holds all.
FRAMES = ["f (a.py:1)", "f (a.py:2)", "g (lib/a.py:1)", "h (<string>:-5)", "x"]
LINES = st.tuples(st.sampled_from("ab"), st.lists(st.sampled_from(FRAMES), max_size=6), st.integers(1, 100))
COLLAPSED = st.lists(LINES, max_size=9).map(
    lambda lines: "\n".join(f"{';'.join([t, *frames])} {n}" for t, frames, n in lines)
)
PNG = b"\x89PNG\r\n\x1a\n"


def paths(frame: Frame, above: str = "") -> Iterator[tuple[str, int]]:
    """The names from below the frame down to each of those below it, and its samples."""
    for each in frame.calls:
        yield above + each.function, each.count
        yield from paths(each, above + each.function)


def test_a_thread_is_a_tree_of_functions() -> None:
    """By hand: it starts at the function that branches, one frame stands for all its lines, and torn stacks are one."""
    main, calls = flames(STACKS, 0.06)
    send, torn = Frame("send", "lib.b", 75), Frame(*TORN, 15)
    assert main == Frame("thread (1): MainThread", "", 100, (Frame("run", "a", 85, (send,)), torn))
    assert calls == Frame("thread (7): calls", "", 6, (Frame("send", "lib.b", 6),))


def test_a_box_is_under_its_caller() -> None:
    """Boxes of one caller begin where the one before them ends."""
    leaf = Frame("leaf", "", 2)
    pair = Frame("pair", "", 5, (leaf, leaf))
    assert list(Frame("thread", "", 9, (leaf, pair)).boxes()) == [
        (leaf, 0, 0),
        (pair, 2, 0),
        (leaf, 2, 1),
        (leaf, 4, 1),
    ]


@given(COLLAPSED, st.floats(0, 1))
def test_a_frame_is_no_wider_than_its_caller(collapsed: str, least: float) -> None:
    """A called frame has no more samples than its caller, and no frame has fewer than the least share."""
    for thread in flames(collapsed, least):
        for frame in (thread, *(each for each, _, _ in thread.boxes())):
            assert sum(each.count for each in frame.calls) <= frame.count
            assert frame.count >= least * thread.count


@given(COLLAPSED)
def test_no_sample_is_lost(collapsed: str) -> None:
    """The threads, in their order, have the samples that the profile has, and without a least share all are drawn."""
    threads, profiles = flames(collapsed, 0), thread_profiles(collapsed)
    assert [(each.function, each.count) for each in threads] == [(each.name, each.samples) for each in profiles]
    for thread in threads:
        assert sum(each.count for each in thread.calls) == thread.count


@given(st.lists(st.tuples(st.text("fgh", max_size=5), st.integers(1, 100)), max_size=20))
def test_a_frame_has_the_samples_of_the_stacks_that_begin_so(stacks: list[tuple[str, int]]) -> None:
    """Under an entry that branches every path of functions is there, once, with the samples that went through it."""
    (thread,) = flames("\n".join(["t;run 100", *(f"{';'.join(['t', 'run', *stack])} {n}" for stack, n in stacks)]), 0)
    expected = Counter[str]()
    for stack, count in stacks:
        for cut in range(1, len(stack) + 1):
            expected[stack[:cut]] += count
    found = list(paths(thread.calls[0]))
    assert dict(found) == expected
    assert len(found) == len(expected)


@pytest.mark.parametrize("depth", [1, 60])
def test_the_picture_is_written(tmp_path: Path, depth: int) -> None:
    """It is a PNG of some size, whatever the depth, and whatever the names."""
    path = tmp_path / "flame.png"
    deep = ";".join(f"C.<locals>.$f{level}$ (pkg/m.py:{level})" for level in range(depth))
    draw(f"{STACKS}t;run (a.py:1);{deep} 300\nt;run (a.py:1);other (b.py:1) 9\n", path)
    written = path.read_bytes()
    assert written.startswith(PNG)
    assert len(written) > 5000


@pytest.mark.parametrize("collapsed", ["", "t 5\n"])
def test_no_stacks_are_no_picture(tmp_path: Path, collapsed: str) -> None:
    """An idle process has none, and the bench says so."""
    assert flames(collapsed) == []
    with pytest.raises(BenchError, match="no thread"):
        draw(collapsed, tmp_path / "flame.png")
    assert not list(tmp_path.iterdir())
