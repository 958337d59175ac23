"""A soak: one long load below saturation; whether every query was answered once, and whether anything grows."""

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Final

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from bench.figures import Measurement, Phase, percentile
from bench.footprint import Samples, sampled
from bench.growth import COUNT_CRITERION, MEMORY_CRITERION, Growth
from bench.rig import Rig
from bench.subject import Subject

WINDOWS: Final = 20
"""Latencies are told apart in so many parts of the load."""

CRITERIA: Final = {"rss_mb": MEMORY_CRITERION, "descriptors": COUNT_CRITERION, "threads": COUNT_CRITERION}
"""The resources that must not grow, each with its criterion; all other samples explain it."""

STEADY_CRITERION: Final = (
    "not steady if, in a window after the first quarter, more than twice as many queries were in flight as in the "
    "median window: memory then follows the load"
)

_INTERVAL: Final = 1.0
_WARM_UP: Final = Phase(500, 100.0, namespaces=500)


@dataclass(frozen=True, slots=True)
class Soak:
    """The load: queries, their rate a second, and the number of namespaces that they ask.

    As many other namespaces have a watermark, whose table is then as large. Those that are asked have none: their
    answers are not cached, so that memory does not grow with the caches.
    """

    queries: int
    rate: float
    namespaces: int


def soak(rig: Rig, subject: Subject, plan: Soak, console: Console) -> dict[str, Any]:
    """Load the subject and report. Raises BenchError if it ends, or the load is too short to judge."""
    columns = (TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn(), TimeRemainingColumn())
    seconds = plan.queries / plan.rate
    bar = Progress(*columns, console=console, disable=not console.is_terminal)
    others = [f"indexed-{number}" for number in range(plan.namespaces)]
    with rig.running(subject, watermarks=others) as running, bar:
        running.measure(_WARM_UP)
        task = bar.add_task(f"{plan.queries} queries at {plan.rate:g}/s", total=seconds)
        with sampled(running.pid, _INTERVAL, lambda now: bar.update(task, completed=now)) as samples:
            measurement = running.measure(Phase(plan.queries, plan.rate, namespaces=plan.namespaces))
    return report(measurement, samples, plan.rate)


def report(measurement: Measurement, samples: Samples, rate: float) -> dict[str, Any]:
    """The figures and the verdicts. Raises BenchError for too few samples."""
    over_time = windows(measurement.latencies_ms, rate)
    return {
        "rate": rate,
        "sent": measurement.sent,
        "answered": measurement.answered,
        "lost": measurement.sent - measurement.answered,
        "twice": measurement.twice,
        "statuses": measurement.statuses,
        "seconds": round(measurement.seconds, 3),
        **{name: round(value, 3) for name, value in measurement.figures().items()},
        "windows": over_time,
        "steady": steady(over_time),
        "steady_criterion": STEADY_CRITERION,
        **judged(samples, rate),
    }


def judged(samples: Samples, rate: float) -> dict[str, Any]:
    """The process's resources, a verdict on growth, and the samples. Raises BenchError for too few."""
    held = {}
    for name, values in samples.held.items():
        growth = Growth.of(samples.seconds, values)
        held[name] = growth.report(rate)
        if criterion := CRITERIA.get(name):
            flat = growth.flat_memory() if criterion == MEMORY_CRITERION else growth.flat_count()
            held[name] |= {"flat": flat, "criterion": criterion}
    return {
        "held": held,
        "flat": all(held[name]["flat"] for name in CRITERIA),
        "samples": {"seconds": samples.seconds, **{name: _rounded(values) for name, values in samples.held.items()}},
    }


def sound(report: dict[str, Any]) -> bool:
    """True if every query was answered once and nothing grew."""
    return not report["lost"] and not report["twice"] and bool(report["flat"])


def windows(latencies_ms: Sequence[float | None], rate: float) -> list[dict[str, Any]]:
    """The latencies over time, by when queries were due: WINDOWS parts, or as many as there are queries."""
    count = min(WINDOWS, len(latencies_ms))
    edges = [len(latencies_ms) * number // count for number in range(count + 1)]
    found = []
    for begin, end in pairwise(edges):
        answered = sorted(each for each in latencies_ms[begin:end] if each is not None)
        found.append(
            {
                "from_s": round(begin / rate, 3),
                "sent": end - begin,
                "answered": len(answered),
                # Little's law: the rate times the mean time that a query spends.
                "in_flight": round(rate * sum(answered) / (1000 * (end - begin)), 3),
                "p50_ms": round(percentile(answered, 500), 3) if answered else None,
                "p99_ms": round(percentile(answered, 990), 3) if answered else None,
            }
        )
    return found


def steady(windows: Sequence[Mapping[str, Any]]) -> bool:
    """The verdict by STEADY_CRITERION."""
    in_flight: list[float] = [window["in_flight"] for window in windows]
    return max(in_flight[len(in_flight) // 4 :]) <= 2 * statistics.median(in_flight)


def _rounded(values: Sequence[float]) -> list[float]:
    return [round(value, 2) for value in values]
