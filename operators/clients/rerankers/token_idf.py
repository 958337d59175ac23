"""The weights of a query's tokens: the rarer a token is in the documents of the query's namespace, the more.

Every document's payload has the vocabulary ids of its tokens; Qdrant counts them, and the counts are cached.
- A query's weights tell of no other namespace's documents, and of none that the firewall hides from it.
- A collection that refuses to count, without an index on the token ids or in strict mode, weighs all tokens alike.
- Counts are refreshed when the namespace's watermark has moved, after a rest of several times the last lookup's
  duration, and once in a time to live; by one lookup at a time, which goes on when nobody waits for it.
- No query waits where counts are known: the old ones serve until the new ones are there.
- Where none are, all wait for the lookup, each within its own time, and a failed or late one is an error: with other
  weights, replicas would score differently.
"""

import asyncio
import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Self

import numpy as np
import orjson
import structlog
from numpy.typing import NDArray

from operators.access.firewall import AccessFilter
from operators.caching.bounded import BoundedCache
from operators.clients.qdrant.client import QdrantClient
from schemas.document import NAMESPACE, TOKEN_IDS
from schemas.errors import BackendBadResponse, BackendError, BackendTimeout

log = structlog.stdlib.get_logger(__name__)

VOCABULARY: Final = 2**18
"""Vocabulary ids below this are counted: more than any tokenizer in use has."""

NAMESPACES: Final = 256
"""Most counts that are cached, each of a namespace as some sources see it: 120 KB for a vocabulary of 30,000."""

TIME_TO_LIVE: Final = 60.0
"""Seconds after which counts are refreshed."""

REST: Final = 1.0
"""Seconds between two lookups of one key, at least, however often its watermark moves."""

_RESTS: Final = 4
"""Multiple of the duration of the last lookup: counting takes a fifth of the time at most."""

_LOOKUP_TIMEOUT: Final = 10.0
"""Seconds that a lookup may take, however short the time of the queries that wait for it."""

_NO_INDEX: Final = 400
_NOT_WHOLE: Final = "the collection's strict mode allows no exact count of all (search_allow_exact, max_query_limit)"

Weights = NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class Frequencies:
    """The number of `documents` documents with each piece of the vocabulary; pieces beyond `counts` are in none."""

    documents: int
    counts: NDArray[np.uint32]

    @classmethod
    def of(cls, documents: int, facet: Mapping[str | int, int]) -> Self:
        """From Qdrant's counts; a value that is no vocabulary id is no token."""
        found = {piece: count for piece, count in facet.items() if isinstance(piece, int) and 0 <= piece < VOCABULARY}
        counts = np.zeros(max(found, default=-1) + 1, np.uint32)
        # Documents written between the two requests are in one of them only, and no count is that large otherwise.
        counts[list(found)] = np.minimum(list(found.values()), documents)
        return cls(documents, counts)

    def weights(self, token_ids: Sequence[int]) -> Weights:
        """Each token's ln(1 + (N - df + 0.5) / (df + 0.5)), always positive. Source: the IDF of BM25 in Qdrant."""
        frequency = np.array([self.counts[piece] if piece < len(self.counts) else 0 for piece in token_ids], np.float64)
        return np.log1p((self.documents - frequency + 0.5) / (frequency + 0.5)).astype(np.float32)


_Key = tuple[str, bytes]
"""A collection, and the conditions of the documents that are counted, as JSON."""

_Found = Frequencies | BackendError | None
"""None: the collection can't count."""


@dataclass(slots=True)
class _Counted:
    """Counts and their watermark; from `rest` on another watermark makes them stale, from `until` on anything does."""

    frequencies: Frequencies
    watermark: tuple[str, ...] | None
    rest: float
    until: float


class TokenIdf:
    """The weights of tokens by collection, namespace and access filter; `clock` gives seconds."""

    def __init__(self, client: QdrantClient, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._client = client
        self._clock = clock
        self._known: BoundedCache[_Key, _Counted] = BoundedCache(NAMESPACES)
        self._lookups: dict[_Key, asyncio.Task[_Found]] = {}
        self._uncounted: BoundedCache[str, bool] = BoundedCache(NAMESPACES, ttl=TIME_TO_LIVE)
        self._warned: set[str] = set()

    async def weights(
        self,
        collection: str,
        namespace: str,
        token_ids: Sequence[int],
        *,
        access: AccessFilter | None = None,
        watermark: tuple[str, ...] | None = None,
        timeout: float,
    ) -> Weights:
        """A positive weight for each token, known within `timeout` seconds; raises BackendError.

        `access` says which of the namespace's documents are counted, None is all. `watermark` is the namespace's, None
        if it isn't known.
        """
        found = None
        if self._uncounted.get(collection, self._clock()) is None:
            seen = access.visible() if access is not None else []
            own = [{"key": NAMESPACE, "match": {"value": namespace}}, *seen]
            found = await self._frequencies((collection, orjson.dumps(own)), watermark, timeout)
        if isinstance(found, BackendError):
            raise found
        return found.weights(token_ids) if found is not None else np.ones(len(token_ids), np.float32)

    async def _frequencies(self, key: _Key, watermark: tuple[str, ...] | None, timeout: float) -> _Found:
        """The counts of a key; None where its collection can't count, an error where they are not known in time."""
        known = self._known.get(key)
        if known is not None:
            now = self._clock()
            moved = watermark is not None and watermark != known.watermark
            if now >= known.until or (moved and now >= known.rest):
                self._look_up(key, watermark)
            return known.frequencies
        try:
            async with asyncio.timeout(timeout):
                return await asyncio.shield(self._look_up(key, watermark))
        except TimeoutError:
            return BackendTimeout("late interaction: no frequencies of tokens in time")

    def _look_up(self, key: _Key, watermark: tuple[str, ...] | None) -> asyncio.Task[_Found]:
        """The lookup of a key that is under way, or a new one."""
        if key not in self._lookups:
            self._lookups[key] = lookup = asyncio.create_task(self._refresh(key, watermark))
            lookup.add_done_callback(lambda _: self._lookups.pop(key))
        return self._lookups[key]

    async def _refresh(self, key: _Key, watermark: tuple[str, ...] | None) -> _Found:
        began = self._clock()
        try:
            found = await self._count(*key, time.monotonic() + _LOOKUP_TIMEOUT)
        except BackendError as error:
            # Where old counts serve meanwhile, they are refreshed after another time to live.
            if (known := self._known.get(key)) is not None:
                known.watermark, known.rest, known.until = watermark, math.inf, self._clock() + TIME_TO_LIVE
            return error
        if found is not None:
            now = self._clock()
            rest = now + max(REST, _RESTS * (now - began))
            self._known.put(key, _Counted(found, watermark, rest, now + TIME_TO_LIVE))
        return found

    async def _count(self, collection: str, conditions: bytes, deadline: float) -> Frequencies | None:
        own = {"must": orjson.loads(conditions)}
        having = {**own, "must_not": [{"is_empty": {"key": TOKEN_IDS}}]}
        try:
            left = deadline - time.monotonic()
            facet = await self._client.facet(collection, TOKEN_IDS, own, limit=VOCABULARY, timeout=left)
            if not facet.whole:
                self._weigh_alike(collection, _NOT_WHOLE)
                return None
            documents = await self._client.count(collection, having, timeout=deadline - time.monotonic())
        except BackendBadResponse as error:
            if error.status != _NO_INDEX:
                raise
            self._weigh_alike(collection, str(error))
            return None
        return Frequencies.of(documents, facet.counts)

    def _weigh_alike(self, collection: str, reason: str) -> None:
        self._uncounted.put(collection, True, self._clock())
        self._known.remove(lambda key: key[0] == collection)
        if collection not in self._warned:
            self._warned.add(collection)
            why = {"collection": collection, "field": TOKEN_IDS, "reason": reason}
            log.warning("tokens can't be counted: all weigh the same", **why)
