"""A soak at saturation: burst after burst, so that as much is in flight as ever may be.

Memory then has what it will ever need from the beginning, and what grows grows with the queries.
"""

import statistics
from collections import Counter
from collections.abc import Sequence
from typing import Any, Final

from rich.console import Console
from rich.progress import track

from bench.figures import Measurement, Phase
from bench.footprint import Samples, sampled
from bench.rig import Rig
from bench.soak import judged
from bench.subject import Subject

BURSTS: Final = 20

STEADY: Final = 0.2
STEADY_CRITERION: Final = (
    f"not steady if, after the first quarter, a burst drains at a rate that is {STEADY:.0%} off their median"
)

_INTERVAL: Final = 1.0
_WARM_UP: Final = Phase(5000)


def saturate(rig: Rig, subject: Subject, queries: int, console: Console) -> dict[str, Any]:
    """Send so many queries in BURSTS bursts, each when the one before is answered, and report. Raises BenchError."""
    burst = Phase(max(queries // BURSTS, 1))
    with rig.running(subject) as running:
        running.measure(_WARM_UP)
        with sampled(running.pid, _INTERVAL, lambda _: None) as samples:
            numbers = track(range(BURSTS), f"bursts of {burst.count}", console=console, disable=not console.is_terminal)
            bursts = [running.measure(burst) for _ in numbers]
    return report(bursts, samples)


def report(bursts: Sequence[Measurement], samples: Samples) -> dict[str, Any]:
    """The figures and the verdicts. Raises BenchError for too few samples."""
    sent, answered = sum(each.sent for each in bursts), sum(each.answered for each in bursts)
    seconds = sum(each.seconds for each in bursts)
    statuses: Counter[str] = Counter()
    for each in bursts:
        statuses.update(each.statuses)
    rates = [each.answered / each.seconds for each in bursts]
    return {
        "sent": sent,
        "answered": answered,
        "lost": sent - answered,
        "twice": sum(each.twice for each in bursts),
        "statuses": dict(statuses),
        "seconds": round(seconds, 3),
        "answered_per_s": round(answered / seconds, 1),
        "bursts": [
            {"answered_per_s": round(rate, 1), "cpu_ms_per_query": round(1000 * each.cpu["subject"] / each.answered, 3)}
            for each, rate in zip(bursts, rates, strict=True)
        ],
        "steady": steady(rates),
        "steady_criterion": STEADY_CRITERION,
        **judged(samples, answered / seconds),
    }


def steady(rates: Sequence[float]) -> bool:
    """The verdict by STEADY_CRITERION."""
    late = rates[len(rates) // 4 :]
    median = statistics.median(late)
    return all(abs(rate - median) <= STEADY * median for rate in late)
