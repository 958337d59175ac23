"""The plot of a comparison: CPU a query by thread, and p50, of every subject under every load."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import matplotlib as mpl
from matplotlib.figure import Figure

from bench.comparison import BURST, rows

_LEAST: Final = 0.01
"""Milliseconds a query below which a thread is drawn with the others."""

_OTHERS: Final = "other threads"
_COLOURS: Final = ("steelblue", "lightsteelblue")


def plot(subjects: Mapping[str, Mapping[str, Any]], path: Path) -> None:
    """Write the plot as PNG."""
    loads = list(rows(next(iter(subjects.values()))))
    figure = Figure(figsize=(4.2 * len(loads), 7), layout="constrained")
    axes = figure.subplots(2, len(loads), squeeze=False)
    colours: dict[str, Any] = {}
    palette = mpl.colormaps["tab20"]
    for column, load in enumerate(loads):
        cpu, latency = axes[0][column], axes[1][column]
        for name, report in subjects.items():
            row, bottom = rows(report)[load], 0.0
            for thread, spent in _threads(row["threads_ms_per_query"]).items():
                colour = colours.setdefault(thread, palette(len(colours) % palette.N))
                cpu.bar(name, spent, bottom=bottom, color=colour, label=thread)
                bottom += spent
            figures = ("answered_per_s",) if load == BURST else ("p50_ms", "p99_ms")
            for offset, each in enumerate(figures):
                latency.bar(name, row[each]["median"], width=0.8 - 0.5 * offset, color=_COLOURS[offset])
        cpu.set_title(load)
        cpu.set_ylabel("CPU, ms a query")
        latency.set_ylabel("queries a second" if load == BURST else "p50 (wide) and p99 (narrow), ms")
        for each in (cpu, latency):
            each.tick_params(axis="x", labelrotation=20)
    handles = {
        label: handle for axis in axes[0] for handle, label in zip(*axis.get_legend_handles_labels(), strict=True)
    }
    figure.legend(handles.values(), handles.keys(), fontsize="small", loc="outside lower center", ncols=len(handles))
    figure.savefig(path, dpi=110)


def _threads(spent: Mapping[str, Mapping[str, Any]]) -> dict[str, float]:
    large = {name: each["median"] for name, each in spent.items() if each["median"] >= _LEAST}
    rest = sum(each["median"] for name, each in spent.items() if name not in large)
    return large | ({_OTHERS: rest} if rest else {})
