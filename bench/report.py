"""Reports: the machine that was measured on, and tables for a terminal."""

import os
import platform
from collections.abc import Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any, Final
from xml.etree import ElementTree

from rich.box import SIMPLE
from rich.table import Table

from tests.kafka.broker import POM

_PACKAGES: Final = (
    "aiohttp",
    "bytewax",
    "confluent-kafka",
    "httpx",
    "kafka-python",
    "numpy",
    "orjson",
    "pydantic",
    "rankstream",
)


def machine() -> dict[str, Any]:
    """What the figures depend on; `load_average` is of the minute before, and above 0.2 they mean little."""
    return {
        "cores": len(os.sched_getaffinity(0)),
        "cpu": _cpu_model(),
        "system": platform.system() + " " + platform.release(),
        "python": platform.python_version(),
        "versions": {"kafka": _kafka_version(), **{name: version(name) for name in _PACKAGES}},
        "load_average": round(os.getloadavg()[0], 2),
    }


def figures_table(report: Mapping[str, Any]) -> Table:
    """A row a load: medians, with the range over the rounds beneath."""
    shown = _table("CPU a query and latency, ms", "load", "CPU", "p50", "p99", "p99.9", "a second", "answers")
    for row in _rows(report):
        answers = [f"{count} {status}" for status, count in sorted(row["statuses"].items())]
        answers += [f"{count} lost" for count in (row["sent"] - row["answered"],) if count]
        answers += [f"{count} twice" for count in (row["twice"],) if count]
        shown.add_row(
            _load(row),
            _ranged(row["cpu_ms_per_query"], 2),
            *(_ranged(row[name], 0) for name in ("p50_ms", "p99_ms", "p999_ms", "answered_per_s")),
            "\n".join(answers),
        )
    return shown


def busy_table(report: Mapping[str, Any]) -> Table:
    """What else could bound the figures: cores that each process kept busy, and how late (p99) the load was sent."""
    shown = _table("Cores busy", "load", "subject", "stubs", "generator", "machine", "late, ms")
    for row in _rows(report):
        shown.add_row(
            _load(row),
            *(_ranged(row[f"cores_{name}"], 2) for name in ("subject", "stubs", "load", "machine")),
            # Of a burst everything but the first is late by definition.
            _ranged(row["late_send_p99_ms"], 1) if "rate" in row else "",
        )
    return shown


def profile_tables(threads: Sequence[Mapping[str, Any]]) -> list[Table]:
    """A table a thread: functions by inclusive time beside functions by self time."""
    tables = []
    for thread in threads:
        shown = Table(
            "inclusive %", "function", "self %", "function", title=f"{thread['thread']}, {thread['samples']} samples"
        )
        for inclusive, own in _side_by_side(thread["inclusive"], thread["self"]):
            shown.add_row(*inclusive, *own)
        tables.append(shown)
    return tables


def _table(title: str, *columns: str) -> Table:
    shown = Table(title=title, box=SIMPLE)
    for column in columns:
        shown.add_column(column, no_wrap=True)
    return shown


def _rows(report: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    return [*report["rates"], *([report["burst"]] if report["burst"] else [])]


def _load(row: Mapping[str, Any]) -> str:
    return f"{row['rate']:g}/s" if "rate" in row else "burst"


def _side_by_side(
    left: Sequence[Mapping[str, Any]], right: Sequence[Mapping[str, Any]]
) -> list[tuple[tuple[str, str], tuple[str, str]]]:
    def cell(rows: Sequence[Mapping[str, Any]], number: int) -> tuple[str, str]:
        return (f"{rows[number]['percent']:.1f}", rows[number]["function"]) if number < len(rows) else ("", "")

    return [(cell(left, number), cell(right, number)) for number in range(max(len(left), len(right)))]


def _ranged(figure: Mapping[str, Any], digits: int) -> str:
    shown = f"{figure['median']:.{digits}f}"
    if len(figure["rounds"]) > 1:
        shown += f"\n{figure['min']:.{digits}f}..{figure['max']:.{digits}f}"
    return shown


def _cpu_model() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.machine()


def _kafka_version() -> str:
    for dependency in ElementTree.parse(POM).findall(".//{*}dependency"):
        if (dependency.findtext("{*}artifactId") or "").startswith("kafka_"):
            return dependency.findtext("{*}version") or ""
    return ""
