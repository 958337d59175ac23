"""Token vectors of texts of which the index keeps none: computed on the fly, and cached within a bound.

- One batch of a few texts is computed at a time, and the embedder's queue holds no second one: a query that is to be
  embedded waits for one such batch at most.
- The texts of one query are computed before those of the next, so that some queries have all their vectors in time.
- A batch that has begun is finished and cached, even if the query that wanted it has run out of time.
- Each namespace has its own entries, so that nobody can time which texts another one has.
"""

import asyncio
import time
from collections.abc import Iterable, Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from operators.caching.bounded import BoundedCache
from operators.clients.embedders import Embedder
from operators.clients.http.transport import MIB
from operators.clients.model_caches import digests
from schemas.errors import BackendBadResponse, BackendTimeout

DECIMALS: Final = 4
"""Of token vectors as they are sent: a rounding below what 16 bits can tell, at half the bytes."""

TEXTS_A_CALL: Final = 4
"""Few, so that queries to be embedded come in between."""

_LONGEST: Final = 30.0
"""Seconds after which a batch is given up: an embedder that hangs must not stop all batches for ever."""

_OVERHEAD: Final = 512
"""Bytes that an entry takes over its array's, roughly."""

Halves = NDArray[np.float16]


class TokenVectors:
    """The token vectors of texts, by `embedder`; those used last are cached, at most `max_bytes` of them."""

    def __init__(self, embedder: Embedder, *, max_bytes: int = 256 * MIB) -> None:
        self._embedder = embedder
        self._cache: BoundedCache[bytes, Halves] = BoundedCache(max_bytes, lambda _, each: each.nbytes + _OVERHEAD)
        self._lock = asyncio.Lock()
        self._batch: asyncio.Task[dict[str, Halves]] | None = None

    async def of(self, namespace: str, texts: Iterable[str], *, timeout: float) -> dict[str, Halves]:
        """The token vectors of each of a namespace's texts, all within `timeout` seconds.

        Vectors computed by then are cached in any case. A text without tokens has none. Raises BackendError,
        BackendBadResponse if the embedder gives no token vectors.
        """
        deadline = time.monotonic() + timeout
        wanted = list(dict.fromkeys(texts))
        found = self._known(namespace, wanted)
        if len(found) == len(wanted):
            return found
        try:
            async with asyncio.timeout(timeout), self._lock:
                while missing := await self._missing(namespace, wanted, found):
                    if time.monotonic() >= deadline:
                        raise TimeoutError
                    self._batch = asyncio.create_task(self._compute(namespace, missing[:TEXTS_A_CALL]))
                    found |= await asyncio.shield(self._batch)
        except TimeoutError:
            raise BackendTimeout("late interaction: not all documents have token vectors in time") from None
        return found

    async def aclose(self) -> None:
        if self._batch is not None and not self._batch.done():
            self._batch.cancel()
            await asyncio.wait([self._batch])

    async def _missing(self, namespace: str, wanted: Sequence[str], found: dict[str, Halves]) -> list[str]:
        """The texts left to compute, once no batch is under way; `found` gets the vectors that others had computed."""
        if self._batch is not None and not self._batch.done():
            await asyncio.wait([self._batch])
        found |= self._known(namespace, [text for text in wanted if text not in found])
        return [text for text in wanted if text not in found]

    async def _compute(self, namespace: str, texts: Sequence[str]) -> dict[str, Halves]:
        found = {}
        embeddings = await self._embedder.embed(texts, purpose="document", timeout=_LONGEST)
        for text, embedding in zip(texts, embeddings, strict=True):
            if embedding.tokens is None:
                raise BackendBadResponse("late interaction: the embedder gives no token vectors")
            found[text] = to_float16(embedding.tokens)
            self._cache.put(digests(namespace, text), found[text])
        return found

    def _known(self, namespace: str, texts: Sequence[str]) -> dict[str, Halves]:
        cached = ((text, self._cache.get(digests(namespace, text))) for text in texts)
        return {text: vectors for text, vectors in cached if vectors is not None}


def to_float16(tokens: NDArray[np.float32]) -> Halves:
    """A document's token vectors with the 16 bits a component that the index would keep of them."""
    return np.round(tokens, DECIMALS).astype(np.float16)
