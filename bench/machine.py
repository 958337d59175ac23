"""The machine that was measured on."""

import os
import platform
from importlib.metadata import version
from pathlib import Path
from typing import Any, Final
from xml.etree import ElementTree

from bench.kafka.broker import POM

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
    """The machine behind the figures; `load_average` is of the minute before, and above 0.2 they mean little."""
    return {
        "cores": len(os.sched_getaffinity(0)),
        "cpu": _cpu_model(),
        "system": platform.system() + " " + platform.release(),
        "python": platform.python_version(),
        "versions": {"kafka": _kafka_version(), **{name: version(name) for name in _PACKAGES}},
        "load_average": round(os.getloadavg()[0], 2),
    }


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
