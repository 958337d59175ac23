"""Python calls a query: a count that shows growth of the flow's work where times would be noise.

The subject is the search flow on librdkafka, with a count of its calls. Its queries and its backends have all the time
they want, so that on a slow machine no query is answered in part, no call fails and none is repeated. It has no caches:
on a slow machine more of what they hold expires, and is asked for again.
"""

import time
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import orjson

from bench.counted import COUNTS_TO
from bench.events import TIMEOUT_MS
from bench.figures import BenchError, Phase
from bench.rig import Rig, Running
from bench.subject import CONCURRENCY, Launch, Subject, Surroundings, launch

ROOMS: Final = ("schemas", "operators", "flows")
LIBRARIES: Final = "libraries"
WARM_UP: Final = Phase(300)
LOADS: Final = {"burst": Phase(3000), "paced": Phase(400, 40.0)}
"""The calls of a query among many, whose batches are full, and of one that comes alone."""

_SLOW: Final = TIMEOUT_MS / 1000
_PAUSE: Final = 0.05
_LATEST: Final = 60.0

Counts = dict[str, float]
"""Function, as FILE:NAME, or room -> calls a query."""


def measure(rig: Rig, directory: Path, loads: Mapping[str, Phase] = LOADS) -> dict[str, Counts]:
    """By load, the calls a query of each function. Raises BenchError if a query is not answered whole."""
    path = directory / "counts"
    figures = {}
    with rig.running(counting(path)) as running:
        running.measure(WARM_UP)
        before = _read(running, path, 1)
        for number, (name, phase) in enumerate(loads.items(), start=2):
            statuses = running.measure(phase).statuses
            if statuses != {"ok": phase.count}:
                raise BenchError(f"{phase.count} queries were answered as {statuses}: other answers take other calls")
            after = _read(running, path, number)
            figures[name] = {function: calls / phase.count for function, calls in (after - before).most_common()}
            before = after
    return figures


def counting(counts: Path) -> Subject:
    """The search flow with a count, which goes to this path."""

    def start(around: Surroundings) -> Launch:
        rerank = {"kind": "cohere", "url": around.rerank, "max_concurrency": CONCURRENCY, "cache": 0, "timeout": _SLOW}
        over = {"limits": {"max_timeout": _SLOW}, "qdrant": {"url": around.qdrant, "timeout": _SLOW}, "rerank": rerank}
        over["cache"] = dict.fromkeys(("exact_mib", "semantic_mib", "payload_mib"), 0)
        return launch("librdkafka", around, over, {COUNTS_TO: str(counts)}, program="bench.counted")

    return Subject("counted", start)


def by_room(functions: Mapping[str, float]) -> Counts:
    """The calls of each room's functions together, and of all libraries' ones."""
    found: Counts = {}
    for function, calls in functions.items():
        file, _, _ = shorten(function).partition(":")
        top, *below = file.split("/")
        room = LIBRARIES if top not in ROOMS else f"{top}.{below[0]}" if len(below) > 1 else top
        found[room] = found.get(room, 0.0) + calls
    return found


def shorten(function: str) -> str:
    """A function's name with the path of its file from the repository on."""
    return function.removeprefix(f"{Path(__file__).parent.parent}/")


def _read(running: Running, path: Path, number: int) -> Counter[str]:
    path.with_name(f"{path.name}.{number}.ask").touch()
    answer, latest = path.with_name(f"{path.name}.{number}"), time.monotonic() + _LATEST
    while not answer.exists():
        if time.monotonic() > latest:
            raise BenchError(f"process {running.pid} does not write its counts")
        time.sleep(_PAUSE)
    return Counter(orjson.loads(answer.read_bytes()))
