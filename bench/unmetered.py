"""The command line with metrics that count nothing: beside it is seen what counting costs."""

from typing import Final

from prometheus_client import Counter, Gauge

from flows.cli.__main__ import main
from operators.telemetry.metrics import Histogram

_COUNTING: Final = {Counter: ("inc",), Gauge: ("inc", "dec", "set"), Histogram: ("observe",)}


def uncounted() -> None:
    """Have all metrics of this process count nothing."""
    for kind, methods in _COUNTING.items():
        for method in methods:
            setattr(kind, method, _nothing)


def _nothing(*_: object, **__: object) -> None:
    """Count nothing."""


if __name__ == "__main__":
    uncounted()
    main()
