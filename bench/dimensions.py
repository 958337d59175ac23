"""The dimensions along which a query's cost may grow, each varied by itself: its values, its loads, and how the rig is
set up for a value.

Backends are the stubs, except for documents: these are in Qdrant's engine in the process. Two dimensions are of
replicas. `replicas` starts so many; the machine's cores bound them. `simulated-replicas` starts one, as one of so many.
The simulation assumes that

- replicas share nothing but the broker and the backends, and neither becomes slower with their number,
- queries and partitions are spread evenly, so that each replica has the same part of both,
- no replica joins or leaves: a query pays for no rebalancing.

The one then costs a query what all cost, and has as much memory as each. What all hold is its memory times their
number.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from bench.embedded_index import SLOW, engine_settings, index_path
from bench.figures import PAGE, Phase
from bench.peers.backends import CANDIDATES
from bench.stubs import POOL, TENANT, Collection
from bench.subject import CONCURRENCY, Launch, Subject, Surroundings, launch

_PARTITIONS: Final = 64
"""Of the topic that replicas share: one each for as many as are simulated."""

_POINTS: Final = 10_000
"""Points of which two legs that find 1,000 each find mostly different ones."""


@dataclass(frozen=True, slots=True)
class Setup:
    """A value of a dimension: a subject and its surroundings.

    Queries ask so many `namespaces` in turn, each of which has a watermark; 0: the default one, which has none.
    `share`: the load is divided by it, as if the subject were one of so many.
    """

    subject: Subject
    replicas: int = 1
    partitions: int | None = None
    namespaces: int = 0
    limit: int = PAGE
    share: int = 1

    @property
    def watermarks(self) -> Sequence[str]:
        """The namespaces that have one."""
        return [f"{TENANT}{number}" for number in range(self.namespaces)]

    def phase(self, count: int, rate: float | None = None) -> Phase:
        """A load of so many queries at a rate, or at once."""
        return Phase(count, rate, limit=self.limit, namespaces=self.namespaces)

    def part(self, count: float, rate: float | None = None) -> Phase:
        """The part of such a load that the subject gets."""
        return self.phase(max(round(count / self.share), 1), None if rate is None else rate / self.share)


@dataclass(frozen=True, slots=True)
class Dimension:
    """A quantity, its values in ascending order, and the loads: a rate a second, and a burst.

    `setup` is given a Kafka client, a value, and a directory that has an index for each value if it is `indexed`.
    """

    name: str
    unit: str
    values: Sequence[int]
    rate: float
    burst: int
    warm_up: int
    setup: Callable[[str, int, Path], Setup]
    indexed: bool = False


def _documents(client: str, value: int, directory: Path) -> Setup:
    subject = _subject(client, lambda around: engine_settings(around, index_path(directory, value)))
    return Setup(replace(subject, corpus=True))


def _partitions(client: str, value: int, _: Path) -> Setup:
    return Setup(_on_stubs(client), partitions=value)


def _namespaces(client: str, value: int, _: Path) -> Setup:
    # With the caches of answers as they are by default.
    return Setup(_on_stubs(client, {"cache": {}}), namespaces=value)


def _candidates(client: str, value: int, _: Path) -> Setup:
    profiles = {"balanced": {"over_sample": value, "rerank_top": CANDIDATES}}
    return Setup(_on_stubs(client, {"profiles": profiles}, points=_POINTS))


def _results(client: str, value: int, _: Path) -> Setup:
    return Setup(_on_stubs(client), limit=value)


def _text(client: str, value: int, _: Path) -> Setup:
    return Setup(_on_stubs(client, characters=value))


def _replicas(client: str, value: int, _: Path) -> Setup:
    return Setup(_on_stubs(client), replicas=value, partitions=_PARTITIONS)


def _simulated_replicas(client: str, value: int, _: Path) -> Setup:
    return Setup(_on_stubs(client), partitions=_PARTITIONS // value, share=value)


def _on_stubs(client: str, over: Mapping[str, Any] | None = None, points: int = POOL, characters: int = 0) -> Subject:
    """The search flow on a collection of the stub, other sections of its settings from `over`."""
    name = Collection(points, characters).name

    def settings(around: Surroundings) -> dict[str, Any]:
        index = {"url": around.qdrant, "timeout": SLOW, "destinations": {"default": name}}
        return {"qdrant": index, **(over or {})}

    return _subject(client, settings)


def _subject(client: str, settings: Callable[[Surroundings], Mapping[str, Any]]) -> Subject:
    def start(around: Surroundings) -> Launch:
        rerank = {"kind": "cohere", "url": around.rerank, "max_concurrency": CONCURRENCY, "cache": 0, "timeout": SLOW}
        return launch(client, around, {"rerank": rerank, **settings(around)})

    return Subject(client, start)


DIMENSIONS: Final = {
    each.name: each
    for each in (
        Dimension(
            "documents",
            "documents in the engine in the process",
            (1_000, 5_000, 20_000, 50_000, 200_000),
            rate=4.0,
            burst=100,
            warm_up=20,
            setup=_documents,
            indexed=True,
        ),
        Dimension("partitions", "partitions of the topic of queries", (4, 16, 64, 256), 50.0, 2000, 500, _partitions),
        Dimension("namespaces", "namespaces", (10, 100, 1_000, 10_000, 100_000), 50.0, 2000, 500, _namespaces),
        Dimension("candidates", "candidates of each leg", (50, 100, 200, 500, 1_000), 10.0, 200, 100, _candidates),
        Dimension("results", "results of a query", (10, 20, 50, 100), 50.0, 2000, 500, _results),
        Dimension("text", "bytes of a document's text", (200, 500, 2_000, 5_000, 20_000), 5.0, 100, 50, _text),
        Dimension("replicas", "replicas", (1, 2), 100.0, 6400, 500, _replicas),
        Dimension(
            "simulated-replicas", "replicas, simulated", (1, 2, 4, 16, 64), 100.0, 6400, 1600, _simulated_replicas
        ),
    )
}
"""By their names."""
