"""The same documents in a collection of one shard and in one of several, written and searched as the flows do it."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Final

from operators.clients.qdrant.client import QdrantClient
from operators.collections.catalogue import Catalogue
from operators.collections.making import ensure
from operators.indexing.apply import Writer
from operators.query.search import Found, Search
from operators.runtime.dispatcher import Bounds
from operators.stages.leg import SearchLeg
from operators.text.expression import parse
from schemas.errors import BackendError
from schemas.result import KEYWORD
from schemas.settings import QdrantSettings
from tests.operators.indexing.documents import document
from tests.operators.samples import DIMENSION, query, searches

TIMEOUT: Final = 30.0
Ranking = dict[str, float]


def settings(shards: int, **changes: Any) -> QdrantSettings:
    """Of a server whose collections have so many shards."""
    own = {"destinations": {"default": f"shards{shards}"}, "create": {"shards": shards}}
    return QdrantSettings(url="http://qdrant", dimension=DIMENSION, **{**own, **changes})


@dataclass
class Searched:
    """One collection, and the flow's ways to write to it and to search it."""

    qdrant: QdrantClient
    settings: QdrantSettings
    catalogue: Catalogue = field(init=False)

    async def open(self) -> None:
        """Create the collection, if it isn't there, and read what it is."""
        await ensure(self.qdrant, self.settings, TIMEOUT)
        await self.read()

    async def read(self) -> None:
        """Read what the collection is."""
        self.catalogue = Catalogue(self.qdrant, self.settings)
        assert await self.catalogue.refresh(TIMEOUT) == {}

    @property
    def collection(self) -> str:
        """Its name."""
        return self.settings.destinations["default"]

    async def write(self, events: Iterable[dict[str, Any]]) -> None:
        """Write documents as the indexing flow does."""
        made = [document(**{"vector": [1.0, 0.0, 0.0], **event}) for event in events]
        for each in made:
            each.collection = self.collection
        writer = Writer(self.qdrant, self.settings.vectors, self.settings.context, self.catalogue, TIMEOUT)
        assert await writer.call("documents", made, TIMEOUT) == [None] * len(made)

    async def ask(self, *texts: str, **event: Any) -> list[Any]:
        """The keyword leg's answers, in one batch: each a Ranking, or the error."""
        names = self.settings.vectors
        written = searches(vectors={"vector": names.dense}, idf_of_namespace=self.settings.idf == "namespace")
        leg = SearchLeg(KEYWORD, self.qdrant, Bounds(TIMEOUT, 64, 1))
        asked: list[Search] = []
        for text in texts:
            each = query(**{"namespace": "public", "limit": 100, **event, "text": text})
            each.retrieval.capabilities = self.catalogue.capabilities_of(self.collection)
            each.retrieval.parsed = parse(text, MappingProxyType({}))
            each.retrieval.terms = self.catalogue.analyser(self.collection).query(text)
            asked.append(written.write(each)[KEYWORD])
        return [_ranking(found) for found in await leg.call((KEYWORD, self.collection), asked, TIMEOUT)]


def _ranking(found: Found | BackendError) -> Ranking | BackendError:
    return found if isinstance(found, BackendError) else dict(zip(found.hits.ids, found.hits.scores, strict=True))
