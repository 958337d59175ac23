"""The rarity of a query's terms in collections of several shards: BM25's inverse document frequency.

Qdrant counts the rarity of a term in each shard by itself, so that one document's score would depend on the shard of
another. Every document's payload has its terms' ids; Qdrant counts the documents of each term over all shards, exactly.
Promises:
- scores are those that the same documents have in one shard;
- counts are cached and refreshed as all counts are (operators.clients.qdrant.collections.counts);
- of a search of many terms some are counted, the others have the mean rarity of these, and the answer warns of that;
- namespaces take turns: the counts of one take nothing from the others;
- where documents have no terms in their payload, or may not be counted, the search is as Qdrant weighs it by itself.
"""

import asyncio
import time
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final, NamedTuple, Protocol

import orjson
import structlog

from operators.access.filters import Ask, answers
from operators.caching.bounded import BoundedCache
from operators.clients.qdrant.answers import CollectionInfo
from operators.clients.qdrant.collections.counts import TIME_TO_LIVE, Clock, Counts, remaining
from operators.query.search_bodies import Search
from operators.ranking.coverage import rarity
from operators.runtime.turns import Turns
from operators.text.terms import COUNTED, Corpus, most_telling, weigh
from schemas.document import TERMS
from schemas.errors import BackendBadResponse, BackendError

log = structlog.stdlib.get_logger(__name__)

PER_SHARD: Final = "keyword scores depend on the shard of a document"
"""The warning about a collection whose terms can't be counted."""

CACHED: Final = 2**16
"""Most terms whose counts are cached, some 300 bytes each."""

CORPORA: Final = 256
"""Most corpora that are remembered because they can't be counted."""

BOUNDED: Final = f"the text has many words: of {COUNTED} it was counted how rare they are, the others weigh their mean"

_CALLS: Final = 16
"""Counts under way at once."""

_REFUSED: Final = 400


def why_not_countable(info: CollectionInfo) -> str | None:
    """The reason why the terms of a collection of several shards can't be counted; None if they can."""
    if info.strict.get("search_allow_exact") is False:
        return "the collection's strict mode allows no exact count (search_allow_exact)"
    if Ask.INTEGER not in answers(info.indexes.get(TERMS, {})):
        return f"the payload field {TERMS} has no index of type integer with lookup"
    return None


class CountingClient(Protocol):
    """The part of the Qdrant client that is needed."""

    async def count(self, collection: str, where: Mapping[str, Any] | None, *, timeout: float) -> int:
        """See `QdrantClient.count`."""
        ...


class _Counted(NamedTuple):
    """The documents of a corpus that hold a term; None: all that hold any. `where` has its conditions as JSON."""

    collection: str
    where: bytes
    term: int | None


class TermIdf:
    """Weighs searches by the rarity of their terms; `clock` gives seconds."""

    def __init__(self, client: CountingClient, *, clock: Clock = time.monotonic) -> None:
        self._client = client
        self._counts: Counts[_Counted, int] = Counts(
            self._count, CACHED, "no count of the query's terms in time", clock
        )
        self._clock = clock
        self._uncounted: BoundedCache[tuple[str, bytes], bool] = BoundedCache(CORPORA, ttl=TIME_TO_LIVE)
        self._warned: set[tuple[str, str]] = set()
        self._turns = Turns(_CALLS)

    @property
    def counted(self) -> int:
        """The number of counts that are known."""
        return len(self._counts)

    def knows(self, collection: str, search: Search) -> bool:
        """True if nothing has to be counted before the search."""
        if search.corpus is None:
            return True
        keys = _keys(collection, search, search.corpus)
        return self._leaves(keys[0]) or all(key in self._counts for key in keys)

    async def weigh(self, collection: str, search: Search, timeout: float) -> Search | BackendError:
        """The search with its terms weighted, within `timeout` seconds; or the error of the counts."""
        if search.corpus is None:
            return search
        keys = _keys(collection, search, search.corpus)
        if self._leaves(keys[0]):
            return search
        tenant, watermark = search.corpus.namespace, search.corpus.watermark
        try:
            found = await asyncio.gather(*(self._counts.of(key, tenant, watermark, timeout) for key in keys))
        except BackendError as error:
            return error
        known = [count for count in found if count is not None]
        if len(known) < len(keys):
            return search
        assert search.body is not None
        documents, *frequencies = known
        terms = most_telling(search.body)
        rarities = {term: rarity(documents, each) for term, each in zip(terms, frequencies, strict=True)}
        warnings = (BOUNDED,) if len(terms) < len(search.body["query"]["indices"]) else ()
        return replace(search, body=weigh(search.body, rarities), corpus=None, warnings=warnings)

    async def _count(self, key: _Counted, tenant: str, timeout: float) -> int | None:
        deadline = time.monotonic() + timeout
        where = orjson.loads(key.where)
        async with self._turns.turn(tenant):
            try:
                if key.term is not None:
                    having = [*where, {"key": TERMS, "match": {"value": key.term}}]
                    return await self._client.count(key.collection, {"must": having}, timeout=remaining(deadline))
                without = {"must": [*where, {"is_empty": {"key": TERMS}}]}
                if await self._client.count(key.collection, without, timeout=remaining(deadline)):
                    self._leave(key, f"documents have no {TERMS} in their payload: index them again")
                    return None
                return await self._client.count(key.collection, {"must": where}, timeout=remaining(deadline))
            except BackendBadResponse as error:
                if error.status != _REFUSED:
                    raise
                self._leave(key, str(error))
                return None

    def _leaves(self, key: _Counted) -> bool:
        return self._uncounted.get((key.collection, key.where), self._clock()) is not None

    def _leave(self, key: _Counted, reason: str) -> None:
        self._uncounted.put((key.collection, key.where), True, self._clock())
        self._counts.forget(lambda other: other[:2] == key[:2])
        if (key.collection, reason) not in self._warned:
            self._warned.add((key.collection, reason))
            log.warning(PER_SHARD, collection=key.collection, reason=reason)


def _keys(collection: str, search: Search, corpus: Corpus) -> list[_Counted]:
    assert search.body is not None
    # Qdrant's IDF is over the documents that have the vector.
    where = orjson.dumps([*(corpus.where or {}).get("must", ()), {"has_vector": search.body["using"]}])
    return [_Counted(collection, where, term) for term in (None, *most_telling(search.body))]
