"""Hits of the engine, and a cache of the fields of payloads that searches list."""

from collections.abc import Mapping, Sequence
from typing import Any, Final
from uuid import UUID

import orjson
from qdrant_edge import EdgeShard, PayloadSelector, ScoredPoint

from operators.caching.bounded import OVERHEAD, BoundedCache
from operators.clients.http.dialect import fit_float32
from operators.query.backend_answers import Hits

_HIT_PAYLOADS: Final = 16 * 1024 * 1024

Fields = tuple[str, ...]

_Hit = tuple[int, int, Fields]


class HitPayloads:
    """The fields of hits' payloads that a search lists: read once for each version of a point.

    The engine parses a payload whole, whatever fields are asked for, and the legs of a query find the same points: to
    read a hundred payloads takes longer than to find their points. Those used last are kept, within `max_bytes`. A
    search without a vector gives every point the version 0: nothing of that is kept.
    """

    def __init__(self, max_bytes: int = _HIT_PAYLOADS) -> None:
        self._cache: BoundedCache[_Hit, bytes] = BoundedCache(max_bytes, lambda _, payload: len(payload) + OVERHEAD)

    def read(self, shard: EdgeShard, points: Sequence[ScoredPoint], fields: Fields) -> list[Mapping[str, Any]]:
        """These fields of points that the shard found without their payloads."""
        ids = [point.id for point in points]
        keys = [(_number(id_), point.version, fields) for id_, point in zip(ids, points, strict=True)]
        hits = {key: hit for key in keys if key[1] and (hit := self._cache.get(key)) is not None}
        if missing := {key: id_ for key, id_ in zip(keys, ids, strict=True) if key not in hits}:
            records = shard.retrieve(list(missing.values()), PayloadSelector.Include(list(fields)), False)
            read = {_number(record.id): orjson.dumps(record.payload) for record in records}
            for key in missing:
                hits[key] = read[key[0]]
                if key[1]:
                    self._cache.put(key, hits[key])
        return [orjson.loads(hits[key]) for key in keys]


def columns(points: Sequence[ScoredPoint], payloads: list[Mapping[str, Any]]) -> Hits:
    """The points as hits. Raises ValueError for a score that isn't finite."""
    scores = [point.score for point in points]
    if not fit_float32(scores):
        raise ValueError("a score is no finite number of 32 bits")
    return Hits([str(point.id) for point in points], scores, payloads, [point.version for point in points])


def _number(identity: int | UUID | str) -> int:
    """A number that no other point's id has: to hash a UUID takes several times as long."""
    if isinstance(identity, int):
        return identity
    return -1 - (identity if isinstance(identity, UUID) else UUID(identity)).int
