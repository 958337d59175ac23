"""Caches of what models computed: embeddings of texts, scores of pairs, and verdicts on a query's candidates.

Each namespace has its own entries for its queries, so that nobody can time what another asks.
"""

import hashlib
from collections.abc import Mapping
from typing import Final, TypeVar

from operators.caching.bounded import BoundedCache
from operators.query.backend_answers import Embedding, Scores
from operators.text.terms import SparseVector

Vector = TypeVar("Vector", bound=Embedding | SparseVector)

_OVERHEAD: Final = 1024
"""Bytes that an embedding takes over its arrays and its text, roughly."""


def _digest(text: str) -> bytes:
    """16 bytes that no other text has; any string is one, lone surrogates included."""
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).digest()


def digests(*texts: str) -> bytes:
    """16 bytes that no other texts, and these in no other order, have."""
    return hashlib.blake2b(b"".join(map(_digest, texts)), digest_size=16).digest()


class EmbeddingCache(BoundedCache[tuple[str, str], Vector]):
    """Vectors of one model by namespace and text; they take at most `max_bytes`."""

    def __init__(self, max_bytes: int) -> None:
        super().__init__(max_bytes, _embedding_size)


def _embedding_size(key: tuple[str, str], vector: Embedding | SparseVector) -> int:
    size = _OVERHEAD + 4 * sum(map(len, key))
    if isinstance(vector, SparseVector):
        return size + 72 * len(vector.indices)
    size += vector.vector.nbytes
    return size if vector.tokens is None else size + vector.tokens.nbytes + 64 * len(vector.token_ids)


class ScoreCache:
    """The scores of one model, at most `size` pairs of query and text; the queries longest unused leave first.

    A text is known by its hash, in any document: a score depends on the query and the text alone. The omission of a
    document depends on the others of its call, and is not cached; once a model has left one out, a query's scores are
    known all or not at all, so that it always judges them together.
    """

    def __init__(self, size: int) -> None:
        self._queries: BoundedCache[bytes, dict[bytes, float]] = BoundedCache(size, lambda _, scores: len(scores))
        self._selective = False

    def known(self, namespace: str, query: str, documents: Mapping[str, str]) -> dict[str, float]:
        """The scores of those documents whose pair was scored before."""
        cached = self._queries.get(digests(namespace, query))
        if cached is None:
            return {}
        keys = zip(documents, map(_digest, documents.values()), strict=True)
        known = {id_: cached[key] for id_, key in keys if key in cached}
        return known if len(known) == len(documents) or not self._selective else {}

    def put(self, namespace: str, query: str, documents: Mapping[str, str], scores: Scores) -> None:
        """Cache the scores of these documents, unless some were left out."""
        if len(scores) < len(documents):
            self._selective = True
            return
        key = digests(namespace, query)
        cached = {**(self._queries.get(key) or {}), **{_digest(text): scores[id_] for id_, text in documents.items()}}
        # More than the cache holds would displace the query's earlier scores, too.
        if len(cached) <= self._queries.max_size:
            self._queries.put(key, cached)


class VerdictCache:
    """The verdicts of one reranker on at most `size` candidates in all; those longest unused leave first.

    A verdict holds for the same namespace and query, and for the same texts in the same order, in any documents: a
    reranker that compares its candidates, or leaves some out, may judge a text otherwise among others. With a cached
    verdict, further pages cost no call.
    """

    def __init__(self, size: int) -> None:
        self._verdicts: BoundedCache[bytes, tuple[float | None, ...]] = BoundedCache(size, lambda _, all_: len(all_))

    def known(self, namespace: str, query: str, documents: Mapping[str, str]) -> Scores | None:
        """The scores of these documents, without those that were left out; None if there is no verdict on them."""
        if not len(self._verdicts):
            return None
        key = digests(namespace, query, *documents.values())
        verdict = self._verdicts.get(key)
        if verdict is None:
            return None
        return {id_: score for id_, score in zip(documents, verdict, strict=True) if score is not None}

    def put(self, namespace: str, query: str, documents: Mapping[str, str], scores: Scores) -> None:
        """Cache the verdict on these documents; one on more than `size` is not cached."""
        if len(documents) <= self._verdicts.max_size:
            key = digests(namespace, query, *documents.values())
            self._verdicts.put(key, tuple(map(scores.get, documents)))
