"""Scores kept: what a model said of a query and a text it says again, so that a repeated pair costs nothing."""

import hashlib
from collections.abc import Iterable, Mapping
from typing import Final

from cachetools import LRUCache

from operators.clients.rerankers import Scores

_DIGEST_BYTES: Final = 16

_Kept = dict[bytes, float | None]


class ScoreCache:
    """The scores of one model, at most `size` pairs of query and text, those of the query longest unused leave first.

    A text is known by its hash, whoever's document it is: a score tells of nothing but the query and the text.
    """

    def __init__(self, size: int) -> None:
        self._queries: LRUCache[str, _Kept] = LRUCache(size, getsizeof=len)

    def known(self, query: str, documents: Mapping[str, str]) -> dict[str, float | None]:
        """The scores of those documents whose pair was scored before; None for one that was judged irrelevant."""
        kept = self._queries.get(query)
        if kept is None:
            return {}
        digests = zip(documents, map(_digest, documents.values()), strict=True)
        return {id_: kept[digest] for id_, digest in digests if digest in kept}

    def keep(self, query: str, documents: Mapping[str, str], scores: Scores) -> None:
        """Keep what was said of these documents; one without a score was judged irrelevant."""
        said = _said(documents.items(), scores)
        kept = {**self._queries.get(query, {}), **said}
        if len(kept) <= self._queries.maxsize:
            self._queries[query] = kept


def _said(documents: Iterable[tuple[str, str]], scores: Scores) -> _Kept:
    return {_digest(text): scores.get(id_) for id_, text in documents}


def _digest(text: str) -> bytes:
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=_DIGEST_BYTES).digest()
