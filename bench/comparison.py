"""The comparison of subjects that were measured in one run: ratios to the hand-written service, and the goals."""

from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple

from bench.figures import spread
from bench.subject import ASYNCIO

BURST: Final = "burst"


class Goal(NamedTuple):
    """A bound of one figure of the comparison; `least`: from below."""

    client: str
    load: str
    figure: str
    bound: float
    least: bool = False

    def met(self, value: float) -> bool:
        """True if the value keeps the bound."""
        return value >= self.bound if self.least else value <= self.bound


GOALS: Final = (
    Goal("librdkafka", "100/s", "cpu", 1.0),
    Goal("librdkafka", "350/s", "cpu", 0.6),
    Goal("librdkafka", BURST, "cpu", 0.5),
    Goal("librdkafka", BURST, "answered_per_s", 1.5, least=True),
    Goal("librdkafka", "100/s", "p50_ms_above", 15.0),
    Goal("librdkafka", "350/s", "p50_ms_above", 15.0),
    Goal("kafka-python", "100/s", "cpu", 1.5),
    Goal("kafka-python", "350/s", "cpu", 1.0),
    Goal("kafka-python", BURST, "cpu", 0.7),
    Goal("kafka-python", "100/s", "p50_ms_above", 45.0),
    Goal("kafka-python", "350/s", "p50_ms_above", 45.0),
)
"""The bound on an exactly-once answer's cost, relative to the hand-written service's at-least-once one."""


def rows(report: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    """A subject's figures by load."""
    found = {f"{row['rate']:g}/s": row for row in report["rates"]}
    return {**found, BURST: report["burst"]} if report["burst"] else found


def ratios(subjects: Mapping[str, Mapping[str, Any]]) -> dict[str, dict[str, Any]]:
    """Of each other subject and load, beside the hand-written service's in the same round, or else the first subject's:
    CPU a query and queries a second as ratios, p50 as milliseconds above.
    """
    base = ASYNCIO if ASYNCIO in subjects else next(iter(subjects))
    theirs = rows(subjects[base])
    return {
        name: {load: beside(row, theirs[load]) for load, row in rows(report).items()}
        for name, report in subjects.items()
        if name != base
    }


def goals(compared: Mapping[str, Mapping[str, Any]]) -> list[dict[str, Any]]:
    """The goals whose load was measured, each with its figure and whether the median keeps it."""
    return [
        {**goal._asdict(), "measured": measured, "met": goal.met(measured["median"])}
        for goal in GOALS
        if (measured := compared.get(goal.client, {}).get(goal.load, {}).get(goal.figure)) is not None
    ]


def beside(ours: Mapping[str, Any], theirs: Mapping[str, Any]) -> dict[str, Any]:
    """The figures of one load beside another subject's in the same rounds."""

    def paired(figure: str, make: Callable[[float, float], float]) -> dict[str, Any]:
        return spread([make(*pair) for pair in zip(ours[figure]["rounds"], theirs[figure]["rounds"], strict=True)])

    return {
        "cpu": paired("cpu_ms_per_query", lambda our, their: our / their),
        "answered_per_s": paired("answered_per_s", lambda our, their: our / their),
        "p50_ms_above": paired("p50_ms", lambda our, their: our - their),
    }
