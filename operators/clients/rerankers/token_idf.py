"""How much a query's tokens weigh: the rarer a token is in the documents of the query's namespace, the more.

Every document's payload has the vocabulary ids of its tokens; Qdrant counts them. What is promised:
- a namespace's weights tell of no other namespace's documents;
- the counts of a namespace are asked for anew when its watermark has moved, after a rest of several times what the last
  lookup took, and once in a time to live; by one lookup at a time, which goes on when it isn't waited for, and
  what it finds is kept;
- no query waits where counts are known: the old ones serve until the new ones are there;
- where none are, all wait for the lookup, each within its own time, and a failed or late one is an error: other weights
  in its place would make scores differ from replica to replica;
- a collection that refuses to count, without an index on the pieces or in strict mode, weighs all tokens alike.
"""

import asyncio
import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol, Self

import numpy as np
import structlog
from cachetools import LRUCache, TTLCache
from numpy.typing import NDArray

from schemas.document import NAMESPACE, TOKEN_IDS
from schemas.errors import BackendBadResponse, BackendError, BackendTimeout

log = structlog.stdlib.get_logger(__name__)

VOCABULARY: Final = 2**18
"""Vocabulary ids below this are counted: more than any tokenizer in use has."""

NAMESPACES: Final = 256
"""How many namespaces' counts are kept, about 120 KB each for a vocabulary of 30,000."""

TIME_TO_LIVE: Final = 60.0
"""Seconds after which counts are asked for anew."""

LOOKUP_TIMEOUT: Final = 10.0
"""Seconds that a lookup may take, however short the time of those is that wait for it."""

REST: Final = 1.0
"""Seconds between two lookups of one namespace, at least, however often its watermark moves."""

_RESTS: Final = 4
"""Times the duration of the last lookup: counting keeps a fifth of the time at most."""

_NO_INDEX: Final = 400

Weights = NDArray[np.float32]


class Counting(Protocol):
    """The part of the Qdrant client that is needed."""

    async def facet(
        self, collection: str, key: str, where: Mapping[str, Any] | None, *, limit: int, exact: bool, timeout: float
    ) -> dict[str | int, int]:
        """How many points have each value of a field; raises BackendError."""
        ...

    async def count(self, collection: str, where: Mapping[str, Any] | None, *, timeout: float) -> int:
        """How many points the filter matches; raises BackendError."""
        ...


@dataclass(frozen=True, slots=True)
class Frequencies:
    """In how many of `documents` documents each piece of the vocabulary occurs; those beyond `counts` in none."""

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


Watermark = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _Counted:
    """At which watermark a namespace was counted, and until when it isn't counted again for another one."""

    watermark: Watermark | None
    rest: float


_Key = tuple[str, str]
_Lookup = asyncio.Task[Frequencies | BackendError | None]


class TokenIdf:
    """The weights of tokens by collection and namespace; `clock` gives seconds."""

    def __init__(self, client: Counting, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._client = client
        self._clock = clock
        self._known: LRUCache[_Key, Frequencies] = LRUCache(NAMESPACES)
        self._fresh: TTLCache[_Key, _Counted] = TTLCache(NAMESPACES, TIME_TO_LIVE, clock)
        self._unindexed: TTLCache[str, bool] = TTLCache(NAMESPACES, TIME_TO_LIVE, clock)
        self._told: set[str] = set()
        self._lookups: dict[_Key, _Lookup] = {}

    async def weights(
        self,
        collection: str,
        namespace: str,
        token_ids: Sequence[int],
        *,
        watermark: Watermark | None = None,
        timeout: float,
    ) -> Weights:
        """A positive weight a piece, known within `timeout` seconds; raises BackendError.

        `watermark` is how far the namespace is indexed, None if that isn't known.
        """
        key = (collection, namespace)
        found: Frequencies | BackendError | None = self._known.get(key)
        if collection not in self._unindexed:
            if found is None:
                found = await self._waited(self._lookup(key, watermark), timeout)
            elif self._moved(key, watermark):
                self._lookup(key, watermark)
        if isinstance(found, BackendError):
            raise found
        return found.weights(token_ids) if found is not None else np.ones(len(token_ids), np.float32)

    def _moved(self, key: _Key, watermark: Watermark | None) -> bool:
        counted = self._fresh.get(key)
        if counted is None:
            return True
        return watermark is not None and watermark != counted.watermark and self._clock() >= counted.rest

    def _lookup(self, key: _Key, watermark: Watermark | None) -> _Lookup:
        lookup = self._lookups.get(key)
        if lookup is None:
            lookup = self._lookups[key] = asyncio.create_task(self._look_up(*key, watermark))
            lookup.add_done_callback(lambda _: self._lookups.pop(key))
        return lookup

    async def _waited(self, lookup: _Lookup, timeout: float) -> Frequencies | BackendError | None:
        try:
            async with asyncio.timeout(timeout):
                return await asyncio.shield(lookup)
        except TimeoutError:
            return BackendTimeout("late interaction: no frequencies of tokens in time")

    async def _look_up(
        self, collection: str, namespace: str, watermark: Watermark | None
    ) -> Frequencies | BackendError | None:
        began = self._clock()
        deadline = time.monotonic() + LOOKUP_TIMEOUT
        own = {"must": [{"key": NAMESPACE, "match": {"value": namespace}}]}
        having = {**own, "must_not": [{"is_empty": {"key": TOKEN_IDS}}]}
        try:
            facet = await self._client.facet(
                collection, TOKEN_IDS, own, limit=VOCABULARY, exact=True, timeout=deadline - time.monotonic()
            )
            documents = await self._client.count(collection, having, timeout=deadline - time.monotonic())
        except BackendError as error:
            if isinstance(error, BackendBadResponse) and error.status == _NO_INDEX:
                self._weigh_alike(collection, error)
                return None
            # Where old counts serve meanwhile, it is tried again after another time to live.
            if (collection, namespace) in self._known:
                self._fresh[collection, namespace] = _Counted(watermark, math.inf)
            return error
        found = self._known[collection, namespace] = Frequencies.of(documents, facet)
        now = self._clock()
        self._fresh[collection, namespace] = _Counted(watermark, now + max(REST, _RESTS * (now - began)))
        return found

    def _weigh_alike(self, collection: str, error: BackendError) -> None:
        self._unindexed[collection] = True
        for key in [key for key in self._known if key[0] == collection]:
            del self._known[key]
        if collection not in self._told:
            self._told.add(collection)
            log.warning("tokens can't be counted: all weigh the same", collection=collection, reason=str(error))
