"""Embeddings kept: a text that was asked about before in its namespace needs no model.

A namespace has its own, so that nobody can time what another asks.
"""

from typing import Final

from cachetools import LRUCache

from operators.query.backend_answers import Embedding

_OVERHEAD: Final = 1024
"""Bytes that an entry takes beside its arrays and its text, roughly."""


class CachedEmbeddings:
    """The embeddings of the texts asked about last, by namespace and text, at most `size` bytes of them."""

    def __init__(self, size: int) -> None:
        self._kept: LRUCache[tuple[str, str], tuple[int, Embedding]] = LRUCache(size, getsizeof=lambda entry: entry[0])

    def get(self, namespace: str, text: str) -> Embedding | None:
        """The text's embedding, if it is there."""
        entry = self._kept.get((namespace, text))
        return entry[1] if entry is not None else None

    def put(self, namespace: str, text: str, embedding: Embedding) -> None:
        """Keep a text's embedding, unless it is larger than all that may be kept."""
        size = _OVERHEAD + 4 * (len(namespace) + len(text)) + embedding.vector.nbytes
        if embedding.tokens is not None:
            size += embedding.tokens.nbytes + 64 * len(embedding.token_ids)
        if size <= self._kept.maxsize:
            self._kept[namespace, text] = size, embedding
