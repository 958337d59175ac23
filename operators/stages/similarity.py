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
from operators.ranking.pipeline import Vectors
from operators.runtime.dispatcher import BatchKey, Bounds
from operators.runtime.event_loop import EventLoopThread
from operators.stages.backend_stage import Queries, ask
from operators.stages.point_stage import PointStage


@dataclass(frozen=True)
class Comparing(PointStage[NDArray[np.float16]]):
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

    async def read(self, collection: str, ids: Sequence[str], timeout: float) -> Vectors:
        """The vectors of these points, each of length 1."""
        found = await self.qdrant.vectors(collection, ids, self.dense, timeout=timeout)
        return {id_: _unit(vector) for id_, vector in found.items()}

    def take(self, query: InFlight, outcome: Vectors) -> None:
        """Take over the vectors; a document that was deleted since the legs saw it has none."""
        query.outcome.vectors = outcome

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
