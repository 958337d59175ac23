"""Scores kept: what a model said of a query and a text it says again, so that a repeated pair costs nothing."""

from collections.abc import Mapping

from cachetools import LRUCache

from operators.clients.rerankers.digest import digest, digests
from operators.query.backend_answers import Scores


class ScoreCache:
    """The scores of one model, at most `size` pairs of query and text, those of the query longest unused leave first.

    A query is one of a namespace, so that nobody can time what another asks. A text is known by its hash, whatever
    document it is in: a score tells of nothing but the query and the text. That a
    document was left out is not kept, for it was left out beside others; once a model has left one out, a query's
    scores are known all or not at all, so that it always has them before it together.
    """

    def __init__(self, size: int) -> None:
        self._queries: LRUCache[bytes, dict[bytes, float]] = LRUCache(size, getsizeof=len)
        self._selective = False

    def known(self, namespace: str, query: str, documents: Mapping[str, str]) -> dict[str, float]:
        """The scores of those documents whose pair was scored before."""
        kept = self._queries.get(digests(namespace, query))
        if kept is None:
            return {}
        keys = zip(documents, map(digest, documents.values()), strict=True)
        known = {id_: kept[key] for id_, key in keys if key in kept}
        return known if len(known) == len(documents) or not self._selective else {}

    def put(self, namespace: str, query: str, documents: Mapping[str, str], scores: Scores) -> None:
        """Keep what was said of these documents, unless some were left out."""
        if len(scores) < len(documents):
            self._selective = True
            return
        key = digests(namespace, query)
        kept = {**self._queries.get(key, {}), **{digest(text): scores[id_] for id_, text in documents.items()}}
        if len(kept) <= self._queries.maxsize:
            self._queries[key] = kept
