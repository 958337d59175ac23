"""Similarity: the dense vectors of the first candidates, for recipes that compare these with each other."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from bytewax.dataflow import Stream, operator
from numpy.typing import NDArray

from operators.clients.qdrant.client import QdrantClient
from operators.query.canonical import Shape
from operators.query.in_flight import InFlight
from operators.query.trace import Attributes
from operators.ranking.pipeline import Vectors
from operators.runtime.dispatcher import BatchKey, Bounds
from operators.runtime.event_loop import EventLoopThread
from operators.stages.backend_stage import BackendStage, Queries, ask


@dataclass(frozen=True)
class Comparing(BackendStage[list[str], Vectors]):
    """Reads the vectors `dense` of each query's first candidates; as unit vectors of 16 bits, which pools record."""

    name: ClassVar = "similarity"

    qdrant: QdrantClient
    dense: str
    bounds: Bounds

    def wanted(self, query: InFlight) -> bool:
        """Whether the recipe compares candidates, and there are two."""
        return bool(self._compared(query))

    def requests(self, query: InFlight) -> Mapping[BatchKey, list[str]]:
        """Ask for the vectors of all of them."""
        ids = self._compared(query)
        return {(self.name, query.asked.collection): ids} if ids else {}

    async def call(self, batch_key: BatchKey, requests: Sequence[list[str]], timeout: float) -> list[Vectors]:
        """One request for the candidates of many queries in one collection."""
        assert isinstance(batch_key, tuple)
        ids = list(dict.fromkeys(id_ for wanted in requests for id_ in wanted))
        read = await self.qdrant.vectors(batch_key[1], ids, self.dense, timeout=timeout)
        vectors = {id_: _unit(vector) for id_, vector in read.items()}
        return [{id_: vectors[id_] for id_ in wanted if id_ in vectors} for wanted in requests]

    def take(self, query: InFlight, outcome: Vectors) -> None:
        """Take over the vectors; a document that was deleted since the legs saw it has none."""
        query.outcome.vectors = outcome

    def span(self, query: InFlight) -> tuple[str, Attributes]:
        """By the conventions for databases."""
        collection = query.asked.collection
        return f"retrieve {collection}", {
            "db.system.name": "qdrant",
            "db.operation.name": "retrieve",
            "db.collection.name": collection,
        }

    def _compared(self, query: InFlight) -> list[str]:
        asked = query.asked.canonical
        first = query.outcome.candidates[: query.asked.plan.recipe.compared]
        if asked.shape is not Shape.SEARCH or asked.reflections_only or len(first) <= 1:
            return []
        return [candidate.id for candidate in first]


def _unit(vector: Sequence[float]) -> NDArray[np.float16]:
    # 16 bits hold no number above 65,504, and those of some models are not of length 1.
    components = np.asarray(vector, np.float64)
    return (components / (np.linalg.norm(components) or 1.0)).astype(np.float16)


@operator
def similarity(step_id: str, up: Stream[Queries], comparing: Comparing, calls: EventLoopThread) -> Stream[Queries]:
    """Queries in and on, with the vectors of the candidates that their recipes compare."""
    return ask("vectors", up, comparing, calls)
