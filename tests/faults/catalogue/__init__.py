"""The catalogue: importing it defines every scenario."""

from tests.faults.catalogue import backend, broker, clock, input, late, load, process, storage, topics  # noqa: A004
from tests.faults.scenario import CATALOGUE, Scenario

__all__ = [
    "CATALOGUE",
    "Scenario",
    "backend",
    "broker",
    "clock",
    "input",
    "late",
    "load",
    "process",
    "storage",
    "topics",
]
