"""The arithmetic of a measurement: what a phase counts, and how several rounds of it become one figure."""

import statistics
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Self

PAGE: Final = 10
"""Results a query: each leg is asked for 50 candidates, and 50 are reranked."""


class BenchError(Exception):
    """A measurement that can't be made, and why."""


@dataclass(frozen=True, slots=True)
class Phase:
    """A load: `count` queries at `rate` a second, or all at once (None).

    No two are alike, unless their `texts` are given, as numbers: equal numbers, identical queries. `limit`: results a
    query, where no texts are given. They ask so many `namespaces`; 0: the default one. `ranked`: the measurement has
    the results, too.
    """

    count: int
    rate: float | None = None
    texts: Sequence[int] | None = None
    limit: int = PAGE
    namespaces: int = 0
    ranked: bool = False


@dataclass(frozen=True, slots=True)
class Measurement:
    """The outcome of one phase.

    The time, `seconds`, is from the first send to the last answer; so is the CPU time of each process in `cpu`.
    Latencies are in the order of sending, None for a query that was lost. Of a load with given texts, `served` is how
    the answers came about, and `result_bytes` what the results took. `threads`: the subject's CPU time by thread.
    `ranked`: of a load that asks for it, the ids that each query found, best first, in the order of sending.
    """

    sent: int
    answered: int
    twice: int
    statuses: dict[str, int]
    seconds: float
    cpu: dict[str, float]
    latencies_ms: list[float | None]
    lateness_ms: list[float]
    served: dict[str, int] = field(default_factory=dict)
    result_bytes: int = 0
    threads: dict[str, float] = field(default_factory=dict)
    ranked: list[list[str]] = field(default_factory=list)

    @classmethod
    def of(cls, fields: dict[str, Any]) -> Self:
        """A measurement from its own fields as JSON has them."""
        return cls(**fields)

    def figures(self) -> dict[str, float]:
        """The figures that are compared. Raises BenchError if no query was answered."""
        if not self.answered:
            raise BenchError(f"none of {self.sent} queries was answered")
        latencies = sorted(each for each in self.latencies_ms if each is not None)
        return {
            "cpu_ms_per_query": 1000 * self.cpu["subject"] / self.answered,
            "p50_ms": percentile(latencies, 500),
            "p99_ms": percentile(latencies, 990),
            "p999_ms": percentile(latencies, 999),
            "answered_per_s": self.answered / self.seconds,
            "late_send_p99_ms": percentile(sorted(self.lateness_ms), 990),
            **{f"cores_{process}": spent / self.seconds for process, spent in self.cpu.items()},
        }


def percentile(ordered: Sequence[float], per_mille: int) -> float:
    """The smallest value that `per_mille` thousandths of `ordered` do not exceed. Raises ValueError if it is empty."""
    if not ordered:
        raise ValueError("no values")
    # In whole numbers: 0.07 * 100 is more than 7.
    rank = -(-per_mille * len(ordered) // 1000)
    return ordered[max(rank, 1) - 1]


def spread(values: Sequence[float]) -> dict[str, Any]:
    """The median over the rounds, the range, and the rounds themselves, in their order."""
    rounded = [round(value, 3) for value in values]
    return {
        "median": round(statistics.median(values), 3),
        "min": min(rounded),
        "max": max(rounded),
        "rounds": rounded,
    }


def summary(rounds: Sequence[Measurement]) -> dict[str, Any]:
    """One phase over its rounds: counts added up, figures as spreads. Raises BenchError."""
    statuses: dict[str, int] = {}
    for measurement in rounds:
        for status, count in measurement.statuses.items():
            statuses[status] = statuses.get(status, 0) + count
    figures = [measurement.figures() for measurement in rounds]
    return {
        "sent": sum(measurement.sent for measurement in rounds),
        "answered": sum(measurement.answered for measurement in rounds),
        "twice": sum(measurement.twice for measurement in rounds),
        "statuses": statuses,
        **{name: spread([each[name] for each in figures]) for name in figures[0]},
        "threads_ms_per_query": _threads(rounds),
    }


def _threads(rounds: Sequence[Measurement]) -> dict[str, Any]:
    names = {name for each in rounds for name in each.threads}
    spent = {name: [1000 * each.threads.get(name, 0.0) / each.answered for each in rounds] for name in names}
    return {name: spread(values) for name, values in sorted(spent.items(), key=lambda item: -max(item[1]))}
