"""The growth of a query's cost: with the candidates that it asks for, and with the replicas that share the load."""

from collections.abc import Callable, Sequence
from typing import Any, Final

from bench.figures import Measurement, Phase, summary
from bench.rig import Rig
from bench.subject import Subject

LIMITS: Final = (10, 20, 50, 100)
"""Results a query; each leg is asked for as many candidates as that, and for 50 at least."""

REPLICAS: Final = (1, 2, 3)

_BURST: Final = 2000
_WARM_UP: Final = Phase(500, 200.0)
_SECONDS: Final = 10


def scaling(
    rig: Rig, subject: Subject, rounds: int, rate: float, progress: Callable[[str], None]
) -> dict[str, list[dict[str, Any]]]:
    """A row for each limit, by bursts, and for each number of replicas, by `rate` queries a second for all of them.

    Raises BenchError.
    """
    limits: dict[int, list[Measurement]] = {}
    replicas: dict[int, list[Measurement]] = {}
    for number in range(1, rounds + 1):
        with rig.running(subject) as running:
            running.measure(_WARM_UP)
            for limit in LIMITS:
                progress(f"round {number} of {rounds}: limit {limit}")
                limits.setdefault(limit, []).append(running.measure(Phase(_BURST, limit=limit)))
        for count in REPLICAS:
            progress(f"round {number} of {rounds}: {count} replicas")
            with rig.running(subject, count) as running:
                running.measure(_WARM_UP)
                replicas.setdefault(count, []).append(running.measure(Phase(round(rate * _SECONDS), rate)))
    return {"limits": _rows("limit", limits), "replicas": _rows("replicas", replicas)}


def _rows(name: str, measured: dict[int, list[Measurement]]) -> list[dict[str, Any]]:
    def row(value: int, rounds: Sequence[Measurement]) -> dict[str, Any]:
        return {name: value, **summary(rounds)}

    return [row(value, rounds) for value, rounds in measured.items()]
