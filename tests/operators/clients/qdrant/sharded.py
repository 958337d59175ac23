"""The same documents in a collection of one shard and in one of several, written and searched as the flows do it."""

import asyncio
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Final

from operators.clients.qdrant.client import QdrantClient
from operators.clients.qdrant.collections.catalogue import Catalogue
from operators.clients.qdrant.collections.term_idf import TermIdf
from operators.indexing.apply import Writer
from operators.indexing.collection import ensure
from operators.query.in_flight import Found
from operators.query.search_bodies import Search, Searches
from operators.runtime.dispatcher import BatchKey, Bounds
from operators.stages.leg import Apart, Leg
from operators.text.expression import parse
from schemas.errors import BackendError
from schemas.result import KEYWORD
from schemas.settings import QdrantSettings
from tests.operators.indexing.documents import document
from tests.operators.samples import DIMENSION, query

TIMEOUT: Final = 30.0
Ranking = dict[str, float]
Calls = list[tuple[BatchKey, Sequence[Search | Apart]]]


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
    idf: TermIdf = field(init=False)

    async def open(self) -> None:
        """Create the collection, if it isn't there, and read what it is."""
        await ensure(self.qdrant, self.settings, TIMEOUT)
        await self.read()

    async def read(self) -> None:
        """Read what the collection is."""
        self.catalogue = Catalogue(self.qdrant, self.settings)
        self.idf = TermIdf(self.qdrant)
        assert await self.catalogue.read(TIMEOUT) == {}

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

    async def ask(self, *texts: str, watermark: tuple[str, ...] | None = None, **event: Any) -> list[Any]:
        """The keyword leg's answers, in one batch: each a Ranking, or the error."""
        names = self.settings.vectors
        searches = Searches(names.dense, names.sparse, self.settings.idf == "namespace")
        leg = Leg(KEYWORD, self.qdrant, Bounds(TIMEOUT, 64, 1), self.idf)
        asked: list[tuple[BatchKey, Search | Apart]] = []
        for text in texts:
            each = query(**{"namespace": "public", "limit": 100, **event, "text": text})
            each.retrieval.capabilities = self.catalogue.of(self.collection)
            each.retrieval.parsed = parse(text, MappingProxyType({}))
            each.retrieval.terms = self.catalogue.analyser(self.collection).query(text)
            each.cache.watermark = watermark
            search = searches(each)[KEYWORD, self.collection]
            assert isinstance(search, Search)
            asked.append(leg.request_of(self.collection, search))
        # As the stage makes calls: all that go together in one, and one for each of the others.
        together = [search for _, search in asked if isinstance(search, Search)]
        batches: Calls = [((KEYWORD, self.collection), together)] if together else []
        alone: Calls = [(key, [search]) for key, search in asked if isinstance(search, Apart)]
        answers = await asyncio.gather(*(leg.call(key, batch, TIMEOUT) for key, batch in [*batches, *alone]))
        found = iter(answers[0] if together else ())
        others = iter(answers[len(batches) :])
        return [_ranking(next(found) if isinstance(each, Search) else next(others)[0]) for _, each in asked]


def _ranking(found: Found | BackendError) -> Ranking | BackendError:
    return found if isinstance(found, BackendError) else dict(zip(found.hits.ids, found.hits.scores, strict=True))
