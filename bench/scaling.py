"""The growth of a query's CPU and of the process's memory along one dimension, in interleaved rounds.

Each value is measured from a fresh start: a warm-up, a load at a rate, and a burst. Memory is taken after the burst.
"""

import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, FuncFormatter, LogLocator, NullLocator

from bench.comparison import rows
from bench.dimensions import Dimension, Setup
from bench.embedded_index import write_indexes
from bench.exponent import CRITERION, Exponent
from bench.figures import spread
from bench.rig import Rig
from bench.rounds import WARM_UP_RATE, Outcome, Progress

MEMORY: Final = "memory"
SECONDS: Final = 10.0
"""At the rate."""

_QUICK: Final = 0.1


def quick(dimension: Dimension) -> Dimension:
    """The two least values under a tenth of the loads: does the bench work?"""
    loads = {name: max(round(_QUICK * getattr(dimension, name)), 1) for name in ("burst", "warm_up")}
    return replace(dimension, values=dimension.values[:2], **loads)


@dataclass(slots=True)
class Value:
    """The measurements of one value of a dimension, one a round."""

    setup: Setup
    outcome: Outcome = field(default_factory=Outcome)
    memory_mb: list[float] = field(default_factory=list)

    def report(self) -> dict[str, Any]:
        """The figures over all rounds; memory is that of all replicas, simulated ones as well."""
        return {**self.outcome.report(), "memory_mb": spread(self.memory_mb)}


def scaling(rig: Rig, client: str, dimension: Dimension, rounds: int, progress: Progress) -> dict[str, Any]:
    """The figures of each value, and the exponents by which they grow. Raises BenchError."""
    with tempfile.TemporaryDirectory(prefix="rankstream-bench-indexes-") as scratch:
        directory = Path(scratch)
        if dimension.indexed:
            write_indexes(rig, client, dimension.values, directory, progress)
        values = {value: Value(dimension.setup(client, value, directory)) for value in dimension.values}
        for number in range(1, rounds + 1):
            for value, measured in values.items():
                progress(f"round {number} of {rounds}: {value} {dimension.unit}")
                _measure(rig, dimension, measured)
    return report(dimension, values)


def report(dimension: Dimension, values: Mapping[int, Value]) -> dict[str, Any]:
    """The figures of the values in their order, and the growth of each figure.

    `not_ok` counts queries that were lost or not answered in full: they cost less than others.
    """
    measured = [{"value": value, **each.report()} for value, each in values.items()]
    return {
        "dimension": dimension.name,
        "unit": dimension.unit,
        "rounds": len(next(iter(values.values())).memory_mb),
        "not_ok": sum(row["sent"] - row["statuses"].get("ok", 0) for each in measured for row in rows(each).values()),
        "rows": measured,
        "growth": {name: Exponent.of(costs).report() for name, costs in costs(measured).items()},
        "criterion": CRITERION,
    }


def costs(measured: Sequence[Mapping[str, Any]]) -> dict[str, dict[int, list[float]]]:
    """The rounds of each figure by value: the CPU of a query under each load, by the load's name, and the memory."""
    found: dict[str, dict[int, list[float]]] = {}
    for each in measured:
        for load, row in rows(each).items():
            found.setdefault(load, {})[each["value"]] = row["cpu_ms_per_query"]["rounds"]
        found.setdefault(MEMORY, {})[each["value"]] = each["memory_mb"]["rounds"]
    return found


def plot(figures: Mapping[str, Any], path: Path) -> None:
    """Write a PNG: CPU a query under both loads, and memory, over the dimension; medians and ranges."""
    figure = Figure(figsize=(8, 3.2), layout="constrained")
    cpu, memory = figure.subplots(1, 2)
    for name, by_value in costs(figures["rows"]).items():
        spreads = [spread(rounds) for rounds in by_value.values()]
        medians = [each["median"] for each in spreads]
        below = [each["median"] - each["min"] for each in spreads]
        above = [each["max"] - each["median"] for each in spreads]
        label = f"{name}: exponent {figures['growth'][name]['cost']['estimate']:.2f}"
        axes = memory if name == MEMORY else cpu
        axes.errorbar(list(by_value), medians, [below, above], marker="o", capsize=3, label=label)
    for axes, label in ((cpu, "CPU, ms a query"), (memory, "memory, MB")):
        axes.set_xscale("log")
        axes.set_yscale("log")
        least, most = axes.get_ylim()
        # A figure that hardly grows has ticks, and looks flat.
        axes.set_ylim(least / 2, 2 * most)
        axes.xaxis.set_major_locator(FixedLocator([each["value"] for each in figures["rows"]]))
        axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        for axis in (axes.xaxis, axes.yaxis):
            axis.set_major_formatter(FuncFormatter(lambda each, _: f"{each:,g}"))
            axis.set_minor_locator(NullLocator())
        axes.set_xlabel(figures["unit"])
        axes.set_ylabel(label)
        axes.legend(fontsize="small")
    figure.savefig(path, dpi=110)


def _measure(rig: Rig, dimension: Dimension, value: Value) -> None:
    setup = value.setup
    with rig.running(setup.subject, setup.replicas, setup.watermarks, setup.partitions) as running:
        running.measure(setup.phase(dimension.warm_up, WARM_UP_RATE))
        at_rate = running.measure(setup.part(SECONDS * dimension.rate, dimension.rate))
        value.outcome.rates.setdefault(dimension.rate, []).append(at_rate)
        value.outcome.burst.append(running.measure(setup.part(dimension.burst)))
        value.memory_mb.append(setup.share * running.resident_mb())
