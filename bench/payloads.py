"""The worth of the payload cache, by simulation: queries by Zipf's law, each with documents of its own.

No flow runs: the cache itself is asked, on a clock that the simulation moves. A text finds the same documents each
time, as long as none of them is written. A fetch is spared when all documents of a query are known.
"""

import random
from collections.abc import Sequence
from itertools import accumulate
from typing import Any, Final

from bench.stubs import text
from operators.caching.bounded import PayloadCache
from operators.clients.http.transport import MIB
from schemas.settings import CacheSettings

CORPORA: Final = (1_000, 10_000, 100_000)
"""Documents that the texts' answers are drawn from."""

TEXTS: Final = 10_000
DEPTH: Final = 50
"""Documents that a query's reranker reads."""

RATE: Final = 100.0
"""Queries a second."""

_QUERIES: Final = 20_000
_WARM: Final = _QUERIES // 2


def figures(writes: Sequence[float]) -> list[dict[str, Any]]:
    """A row for each size of the corpus and each of `writes`, documents written a second: what is known of the second
    half of the queries, as shares.
    """
    return [_row(corpus, rate) for corpus in CORPORA for rate in writes]


def _row(corpus: int, writes: float) -> dict[str, Any]:
    chance = random.Random(corpus)
    popularity = list(accumulate(1 / rank for rank in range(1, TEXTS + 1)))
    found = [[str(number) for number in chance.sample(range(corpus), DEPTH)] for _ in range(TEXTS)]
    versions: dict[str, int] = {}
    cache = PayloadCache(CacheSettings().payload_mib * MIB)
    known = spared = 0
    for number, [query] in enumerate(chance.choices(range(TEXTS), cum_weights=popularity) for _ in range(_QUERIES)):
        now = number / RATE
        if chance.random() < writes / RATE:
            written = str(chance.randrange(corpus))
            versions[written] = versions.get(written, 0) + 1
        seen = [(id_, versions.get(id_, 0), None) for id_ in found[query]]
        there = cache.known(("documents", 0), seen, now)
        missing = [each for each in seen if each[0] not in there]
        cache.add(("documents", 0), missing, {id_: _payload(id_) for id_, _, _ in missing}, now)
        if number >= _WARM:
            known += len(there)
            spared += not missing
    return {
        "documents": corpus,
        "writes_per_s": writes,
        "payloads_known": known / (DEPTH * (_QUERIES - _WARM)),
        "fetches_spared": spared / (_QUERIES - _WARM),
        "payloads_kept": len(cache),
    }


def _payload(id_: str) -> dict[str, Any]:
    return {"text": text(int(id_)), "id": f"doc-{id_}", "namespace": "public"}
