"""Verdicts kept: what a reranker said of a query's candidates together, so that their further pages cost no call."""

import threading
from collections.abc import Mapping

from cachetools import LRUCache

from operators.clients.rerankers.digest import digests
from operators.query.backend_answers import Scores


class VerdictCache:
    """The verdicts of one reranker on at most `size` candidates in all, those longest unused leave first.

    A verdict holds for the same namespace and query, and for the same texts in the same order, whatever documents they
    are in: a reranker that compares its candidates, or leaves some out, may judge a text otherwise beside others. Any
    thread may use it.
    """

    def __init__(self, size: int) -> None:
        self._verdicts: LRUCache[bytes, tuple[float | None, ...]] = LRUCache(size, getsizeof=len)
        self._lock = threading.Lock()

    def known(self, namespace: str, query: str, documents: Mapping[str, str]) -> Scores | None:
        """What was said of these documents, without those that were left out; None: nothing was yet."""
        if not self._verdicts:
            return None
        key = digests(namespace, query, *documents.values())
        with self._lock:
            verdict = self._verdicts.get(key)
        if verdict is None:
            return None
        return {id_: score for id_, score in zip(documents, verdict, strict=True) if score is not None}

    def put(self, namespace: str, query: str, documents: Mapping[str, str], scores: Scores) -> None:
        """Keep what was said of these documents; more than `size` are not kept."""
        if len(documents) <= self._verdicts.maxsize:
            key = digests(namespace, query, *documents.values())
            with self._lock:
                self._verdicts[key] = tuple(map(scores.get, documents))
