"""The flame graph of a profile: the functions that a thread was seen in, and what called them."""

import re
import sys
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import matplotlib as mpl
from matplotlib.figure import Figure
from matplotlib.patches import Patch

from bench.figures import BenchError

LEAST: Final = 0.003
"""Share of a thread's samples below which a frame is dropped."""

TORN: Final = ("torn stacks", "read in part")
"""Stands for the stacks without the thread's outermost frame: py-spy reads a stack while it changes."""

_Stacks = Counter[tuple[tuple[str, str], ...]]
"""The number of samples of each stack; its frames are a function and a module, the outermost first."""

_HOLDS_ALL: Final = 0.999
_FRAME: Final = re.compile(r"(.+) \((.+?)(?:\.py)?(?::-?\d+)?\)")

# In pixels; the rows are as high as the picture allows, within bounds.
_WIDTH: Final = 1600
_HEIGHT: Final = 900
_SIDE: Final = 12
_TITLE: Final = 34
_LEGEND: Final = 50
_ROW: Final = (26, 40)
_DPI: Final = 100
_POINTS: Final = (8.5, 7.5)  # a function's name, and its module's
_EM: Final = 0.602  # width of a monospaced character, as a share of its size
_PLAIN: Final[dict[str, Any]] = {"va": "center", "parse_math": False}


@dataclass(frozen=True, slots=True)
class Frame:
    """A thread, or a function under its callers: the samples that it was seen in, and what it called, widest first."""

    function: str
    module: str
    count: int
    calls: tuple["Frame", ...] = ()

    def boxes(self, left: int = 0, depth: int = 0) -> Iterator[tuple["Frame", int, int]]:
        """Every frame below this one, each with the sample that it begins at and its depth."""
        for each in self.calls:
            yield each, left, depth
            yield from each.boxes(left, depth + 1)
            left += each.count


def flames(collapsed: str, least: float = LEAST) -> list[Frame]:
    """The threads of py-spy's raw output as trees; the busiest first.

    All lines of a function are one frame. A frame with less than `least` of its thread's samples is dropped, and so
    are the outermost frames, up to the one that branches.
    """
    threads: defaultdict[str, _Stacks] = defaultdict(Counter)
    for line in collapsed.splitlines():
        stack, _, number = line.rpartition(" ")
        thread, *frames = stack.split(";")
        if frames:
            threads[thread][tuple(map(_named, frames))] += int(number)
    found = [_thread(name, stacks, least * stacks.total()) for name, stacks in threads.items()]
    return sorted(found, key=lambda each: each.count, reverse=True)


def _named(frame: str) -> tuple[str, str]:
    match = _FRAME.fullmatch(frame)
    return (match[1], match[2].replace("/", ".")) if match else (frame, "")


def _thread(name: str, stacks: _Stacks, fewest: float) -> Frame:
    outermost = _calls(stacks, fewest)
    torn = stacks.total() - outermost[0].count if outermost else 0
    calls = [_branching(entry) for entry in outermost[:1]]
    if torn and torn >= fewest:
        calls.append(Frame(*TORN, torn))
    return Frame(name, "", stacks.total(), tuple(calls))


def _calls(stacks: _Stacks, fewest: float) -> tuple[Frame, ...]:
    below: defaultdict[tuple[str, str], _Stacks] = defaultdict(Counter)
    for stack, count in stacks.items():
        if stack:
            below[stack[0]][stack[1:]] += count
    wide = {name: inner for name, inner in below.items() if inner.total() >= fewest}
    frames = [Frame(*name, inner.total(), _calls(inner, fewest)) for name, inner in wide.items()]
    return tuple(sorted(frames, key=lambda each: (-each.count, each.function, each.module)))


def _branching(frame: Frame) -> Frame:
    while len(frame.calls) == 1 and frame.calls[0].count >= _HOLDS_ALL * frame.count:
        frame = frame.calls[0]
    return frame


def draw(collapsed: str, path: Path, least: float = LEAST) -> None:
    """Write the busiest thread as PNG, callers above what they call. Raises BenchError if there is none."""
    thread = next(iter(flames(collapsed, least)), None)
    if thread is None:
        raise BenchError("py-spy saw no thread run")
    boxes = list(thread.boxes())
    rows = 1 + max((depth for _, _, depth in boxes), default=0)
    row = min(max((_HEIGHT - _TITLE - _LEGEND) / rows, _ROW[0]), _ROW[1])
    height, side = rows * row + _TITLE + _LEGEND, _SIDE / _WIDTH
    figure = Figure(figsize=(_WIDTH / _DPI, height / _DPI), dpi=_DPI)
    axes = figure.add_axes((side, _LEGEND / height, 1 - 2 * side, rows * row / height))
    axes.set(xlim=(0, thread.count), ylim=(rows, 0))
    axes.set_axis_off()
    pixels = (_WIDTH - 2 * _SIDE) / thread.count
    palette = [*mpl.colormaps["Set3"](range(12)), *mpl.colormaps["Pastel1"](range(9))]
    colours: dict[str, Any] = {}
    for frame, left, depth in boxes:
        colour = colours.setdefault(_room(frame.module), palette[len(colours) % len(palette)])
        axes.barh(depth, frame.count, 1, left, align="edge", color=colour, edgecolor="white", linewidth=1)
        names = _shorter(frame.function.replace(".<locals>", ""))
        names.insert(0, f"{names[0]}  {frame.count / thread.count:.1%}")
        for texts, place, points in zip((names, _shorter(frame.module)), (0.3, 0.73), _POINTS, strict=True):
            text = _fitting(texts, frame.count * pixels / (points * _DPI / 72 * _EM) - 1)
            if not text:
                break
            axes.text(left + 4 / pixels, depth + place, text, family="monospace", size=points, **_PLAIN)
    title = f"{thread.function}, {thread.count} samples; callers above callees; frames under {least:.1%} are left out"
    figure.text(side, 1 - _TITLE / 2 / height, title, size=11, **_PLAIN)
    handles = [Patch(color=colour, label=room) for room, colour in colours.items()]
    figure.legend(handles=handles, fontsize="small", loc="lower center", ncols=8, frameon=False)
    figure.savefig(path)


def _room(module: str) -> str:
    package = module.split(".")[:-1] or [module]
    return "Python's own" if package[0] in sys.stdlib_module_names or module[:1] == "<" else ".".join(package[:2])


def _shorter(name: str) -> list[str]:
    return [name.split(".", cut)[-1] for cut in range(name.count(".") + 1)]


def _fitting(texts: list[str], characters: float) -> str:
    cut = f"{texts[-1][: int(characters) - 1]}…" if characters >= 4 else ""
    return next((text for text in texts if len(text) <= characters), cut)
