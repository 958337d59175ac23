"""Token vectors of texts of which the index keeps none: computed on the fly, and kept within a bound."""

import time
from collections.abc import Iterable
from typing import Final

import numpy as np
from cachetools import LRUCache
from numpy.typing import NDArray

from operators.clients.embedders import Embedder
from operators.clients.http.transport import MIB
from operators.clients.rerankers.digest import digest
from operators.clients.rerankers.max_sim import to_float16
from schemas.errors import BackendBadResponse, BackendTimeout

TEXTS_A_CALL: Final = 4
"""Few, so that what a call has computed when time is up is lost at most, and queries to be embedded come in between."""

_OVERHEAD: Final = 512
"""Bytes that an entry takes beside its array's, roughly."""

Halves = NDArray[np.float16]


class TokenVectors:
    """The token vectors of texts, by `embedder`; those used last are kept, at most `max_bytes` of them."""

    def __init__(self, embedder: Embedder, *, max_bytes: int = 256 * MIB) -> None:
        self._embedder = embedder
        self._kept: LRUCache[bytes, Halves] = LRUCache(max_bytes, getsizeof=_size)

    async def of(self, texts: Iterable[str], *, timeout: float) -> dict[str, Halves]:
        """Each text's token vectors, all within `timeout` seconds; what was computed by then is kept in any case.

        A text without tokens has none. Raises BackendError, BackendBadResponse if the embedder gives no token vectors.
        """
        deadline = time.monotonic() + timeout
        found: dict[str, Halves] = {}
        missing = []
        for text in dict.fromkeys(texts):
            kept = self._kept.get(digest(text))
            if kept is None:
                missing.append(text)
            else:
                found[text] = kept
        for start in range(0, len(missing), TEXTS_A_CALL):
            left = deadline - time.monotonic()
            if left <= 0:
                raise BackendTimeout("late interaction: not all documents have token vectors in time")
            asked = missing[start : start + TEXTS_A_CALL]
            for text, embedding in zip(asked, await self._embedder.embed(asked, timeout=left), strict=True):
                if embedding.tokens is None:
                    raise BackendBadResponse("late interaction: the embedder gives no token vectors")
                found[text] = self._keep(text, to_float16(embedding.tokens))
        return found

    def _keep(self, text: str, vectors: Halves) -> Halves:
        if _size(vectors) <= self._kept.maxsize:
            self._kept[digest(text)] = vectors
        return vectors


def _size(vectors: Halves) -> int:
    return vectors.nbytes + _OVERHEAD
