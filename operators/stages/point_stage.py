"""A stage that reads points of a collection by their ids, those of many queries in one request."""

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import TypeVar

from operators.query.in_flight import InFlight
from operators.query.trace import Attributes
from operators.runtime.dispatcher import BatchKey
from operators.stages.backend_stage import BackendStage

V = TypeVar("V")


class PointStage(BackendStage[list[str], Mapping[str, V]]):
    """What is read of a point, by its id; the batch key is the stage's name and the collection."""

    @abstractmethod
    async def read(self, collection: str, ids: Sequence[str], timeout: float) -> Mapping[str, V]:
        """What these points have, as far as they are there, within `timeout` seconds. Raises BackendError."""

    async def call(self, batch_key: BatchKey, requests: Sequence[list[str]], timeout: float) -> list[Mapping[str, V]]:
        """One request for the candidates of many queries in one collection."""
        assert isinstance(batch_key, tuple)
        ids = list(dict.fromkeys(id_ for wanted in requests for id_ in wanted))
        found = await self.read(batch_key[1], ids, timeout)
        return [{id_: found[id_] for id_ in wanted if id_ in found} for wanted in requests]

    def span(self, query: InFlight) -> tuple[str, Attributes]:
        """By the conventions for databases."""
        collection = query.asked.collection
        return f"retrieve {collection}", {
            "db.system.name": "qdrant",
            "db.operation.name": "retrieve",
            "db.collection.name": collection,
        }
