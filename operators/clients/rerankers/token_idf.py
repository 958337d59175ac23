"""The weights of a query's tokens: the rarer a token is in the documents of the query's namespace, the more.

Every document's payload has the vocabulary ids of its tokens; Qdrant counts them. Promises:
- a query's weights tell of no other namespace's documents, and of none that the firewall hides from it;
- its counts are cached and refreshed as all counts are (operators.clients.qdrant.counts);
- a collection that refuses to count, without an index on the token ids or in strict mode, weighs all tokens alike.
"""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Self

import numpy as np
import orjson
import structlog
from numpy.typing import NDArray

from operators.access.firewall import AccessFilter
from operators.caching.bounded import BoundedCache
from operators.clients.qdrant.client import QdrantClient
from operators.clients.qdrant.counts import TIME_TO_LIVE, Clock, Counts, Watermark, remaining
from schemas.document import NAMESPACE, TOKEN_IDS
from schemas.errors import BackendBadResponse

log = structlog.stdlib.get_logger(__name__)

VOCABULARY: Final = 2**18
"""Vocabulary ids below this are counted: more than any tokenizer in use has."""

NAMESPACES: Final = 256
"""Most counts that are cached, each of a namespace as some sources see it: 120 KB for a vocabulary of 30,000."""

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


class TokenIdf:
    """The weights of tokens by collection, namespace and access filter; `clock` gives seconds."""

    def __init__(self, client: QdrantClient, *, clock: Clock = time.monotonic) -> None:
        self._client = client
        late = "late interaction: no frequencies of tokens in time"
        self._counts: Counts[_Key, Frequencies] = Counts(self._count, NAMESPACES, late, clock)
        self._clock = clock
        self._uncounted: BoundedCache[str, bool] = BoundedCache(NAMESPACES, ttl=TIME_TO_LIVE)
        self._warned: set[str] = set()

    async def weights(
        self,
        collection: str,
        namespace: str,
        token_ids: Sequence[int],
        *,
        access: AccessFilter | None = None,
        watermark: Watermark | None = None,
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
            found = await self._counts.of((collection, orjson.dumps(own)), namespace, watermark, timeout)
        return found.weights(token_ids) if found is not None else np.ones(len(token_ids), np.float32)

    async def _count(self, key: _Key, _: str, timeout: float) -> Frequencies | None:
        collection, conditions = key
        deadline = time.monotonic() + timeout
        own = {"must": orjson.loads(conditions)}
        having = {**own, "must_not": [{"is_empty": {"key": TOKEN_IDS}}]}
        try:
            facet = await self._client.facet(collection, TOKEN_IDS, own, limit=VOCABULARY, timeout=remaining(deadline))
            if not facet.whole:
                self._weigh_alike(collection, _NOT_WHOLE)
                return None
            documents = await self._client.count(collection, having, timeout=remaining(deadline))
        except BackendBadResponse as error:
            if error.status != _NO_INDEX:
                raise
            self._weigh_alike(collection, str(error))
            return None
        return Frequencies.of(documents, facet.counts)

    def _weigh_alike(self, collection: str, reason: str) -> None:
        self._uncounted.put(collection, True, self._clock())
        self._counts.forget(lambda key: key[0] == collection)
        if collection not in self._warned:
            self._warned.add(collection)
            why = {"collection": collection, "field": TOKEN_IDS, "reason": reason}
            log.warning("tokens can't be counted: all weigh the same", **why)
