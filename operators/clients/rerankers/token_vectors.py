"""Token vectors of texts of which the index keeps none: computed on the fly, and kept within a bound.

Rules
-----
- One batch of a few texts is computed at a time, and the embedder's queue holds no second one: a query that is to be
  embedded waits for one such batch at most.
- The texts of one query are computed before those of the next, so that some queries have all that they need in time.
- A batch that has begun is finished and kept, even if the query that wanted it has run out of time.
"""

import asyncio
import time
from collections.abc import Iterable, Sequence
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
"""Few, so that queries to be embedded come in between."""

_LONGEST: Final = 30.0
"""Seconds after which a batch is given up: an embedder that hangs must not stop all batches for ever."""

_OVERHEAD: Final = 512
"""Bytes that an entry takes beside its array's, roughly."""

Halves = NDArray[np.float16]


class TokenVectors:
    """The token vectors of texts, by `embedder`; those used last are kept, at most `max_bytes` of them."""

    def __init__(self, embedder: Embedder, *, max_bytes: int = 256 * MIB) -> None:
        self._embedder = embedder
        self._kept: LRUCache[bytes, Halves] = LRUCache(max_bytes, getsizeof=_size)
        self._turn = asyncio.Lock()
        self._batch: asyncio.Task[dict[str, Halves]] | None = None

    async def of(self, texts: Iterable[str], *, timeout: float) -> dict[str, Halves]:
        """Each text's token vectors, all within `timeout` seconds; what was computed by then is kept in any case.

        A text without tokens has none. Raises BackendError, BackendBadResponse if the embedder gives no token vectors.
        """
        deadline = time.monotonic() + timeout
        wanted = list(dict.fromkeys(texts))
        found = self._known(wanted)
        if len(found) == len(wanted):
            return found
        try:
            async with asyncio.timeout(timeout), self._turn:
                while missing := await self._missing(wanted, found):
                    if time.monotonic() >= deadline:
                        raise TimeoutError
                    self._batch = asyncio.create_task(self._computed(missing[:TEXTS_A_CALL]))
                    found |= await asyncio.shield(self._batch)
        except TimeoutError:
            raise BackendTimeout("late interaction: not all documents have token vectors in time") from None
        return found

    async def aclose(self) -> None:
        """Give up what is being computed."""
        if self._batch is not None and not self._batch.done():
            self._batch.cancel()
            await asyncio.wait([self._batch])

    async def _missing(self, wanted: Sequence[str], found: dict[str, Halves]) -> list[str]:
        """What is left to be computed, once no batch is under way; `found` gets what others had computed."""
        if self._batch is not None and not self._batch.done():
            await asyncio.wait([self._batch])
        found |= self._known([text for text in wanted if text not in found])
        return [text for text in wanted if text not in found]

    async def _computed(self, texts: Sequence[str]) -> dict[str, Halves]:
        found = {}
        for text, embedding in zip(texts, await self._embedder.embed(texts, timeout=_LONGEST), strict=True):
            if embedding.tokens is None:
                raise BackendBadResponse("late interaction: the embedder gives no token vectors")
            found[text] = self._keep(text, to_float16(embedding.tokens))
        return found

    def _known(self, texts: Sequence[str]) -> dict[str, Halves]:
        kept = ((text, self._kept.get(digest(text))) for text in texts)
        return {text: vectors for text, vectors in kept if vectors is not None}

    def _keep(self, text: str, vectors: Halves) -> Halves:
        if _size(vectors) <= self._kept.maxsize:
            self._kept[digest(text)] = vectors
        return vectors


def _size(vectors: Halves) -> int:
    return vectors.nbytes + _OVERHEAD
