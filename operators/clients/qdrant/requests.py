"""Requests within the limits that the strict mode of a collection sets: batches of searches, points and changes."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Self

import orjson

from operators.query.search import map_filters
from operators.runtime.batching.policy import chunks


@dataclass(frozen=True, slots=True)
class Limits:
    """Bounds on a request to one collection; None is no bound.

    `timeout` is in seconds, the most that a request may name. `searches` are those of one batch, `points` those of one
    upsert, `conditions` those of one filter, `listed` the values of one condition, `hits` those of one search, page or
    facet. Not `exact`: searches and counts may be approximate only. A request for more than a minute's searches or
    points is refused at any time.
    """

    timeout: int | None = None
    searches: int | None = None
    points: int | None = None
    conditions: int | None = None
    hits: int | None = None
    listed: int | None = None
    exact: bool = True

    @classmethod
    def of(cls, strict: Mapping[str, Any]) -> Self:
        """The limits of a collection whose strict mode is on with these settings."""
        return cls(
            timeout=strict.get("max_timeout"),
            # A request for more than a minute's searches or points is refused at any time.
            searches=_least(strict, "search_max_batchsize", "read_rate_limit"),
            points=_least(strict, "upsert_max_batchsize", "write_rate_limit"),
            conditions=strict.get("filter_max_conditions"),
            hits=strict.get("max_query_limit"),
            listed=strict.get("condition_max_size"),
            exact=strict.get("search_allow_exact") is not False,
        )

    def filter(self, where: Mapping[str, Any]) -> Mapping[str, Any]:
        """The filter with each of its lists in parts of as many values as a condition may have."""
        if self.listed is None:
            return where
        return {clause: [self._condition(each, self.listed) for each in where[clause]] for clause in where}

    def search(self, body: Mapping[str, Any]) -> Mapping[str, Any]:
        """The search with filters as `filter` has them, and for no more hits than one request may give."""
        if self.hits is not None and body.get("limit", 0) > self.hits:
            body = {**body, "limit": self.hits}
        return body if self.listed is None else map_filters(body, self.filter)

    def _condition(self, condition: Mapping[str, Any], most: int) -> Mapping[str, Any]:
        match condition:
            case {"has_id": list(values)} if len(values) > most:
                return {"should": [{"has_id": part} for part in chunks(values, most)]}
            case {"match": {"any": list(values)}} if len(values) > most:
                return {"should": [{**condition, "match": {"any": part}} for part in chunks(values, most)]}
            case {"nested": {"key": key, "filter": inner}}:
                return {"nested": {"key": key, "filter": self.filter(inner)}}
        return self.filter(condition) if condition.keys() <= CLAUSES else condition

    def page(self, wanted: int) -> int:
        """The number of records or values to ask for: the wanted one, or the most that one request may give."""
        return wanted if self.hits is None else min(wanted, self.hits)

    def seconds(self, wanted: int) -> int:
        """The time-out to name: the wanted one, or the longest that is allowed."""
        return wanted if self.timeout is None else min(wanted, self.timeout)


CLAUSES: Final = frozenset({"must", "should", "must_not"})
"""The clauses of a filter."""


def _least(strict: Mapping[str, Any], *names: str) -> int | None:
    return min((strict[name] for name in names if name in strict), default=None)


UNLIMITED = Limits()


def split_points(points: Iterable[bytes], limit: int, most: int) -> Iterator[list[orjson.Fragment]]:
    """Encoded points in requests of at most `limit` bytes, or one point, and `most` points."""
    chunk: list[orjson.Fragment] = []
    size = 0
    for point in points:
        if chunk and (size + len(point) > limit or len(chunk) >= most):
            yield chunk
            chunk, size = [], 0
        chunk.append(orjson.Fragment(point))
        size += len(point) + 1
    if chunk:
        yield chunk


@dataclass(frozen=True, slots=True)
class Change:
    """New vectors and payload fields of one point; a vector that is None is removed.

    A point that does not meet all of `conditions` stays as it is. With vectors, the payload must not change what they
    are about. A payload field that is None is removed.
    """

    id: str
    vectors: Mapping[str, Any]
    payload: Mapping[str, Any]
    conditions: Sequence[Mapping[str, Any]] = ()

    @property
    def given(self) -> dict[str, Any]:
        return {name: vector for name, vector in self.vectors.items() if vector is not None}

    @property
    def gone(self) -> list[str]:
        return sorted(name for name, vector in self.vectors.items() if vector is None)

    @property
    def where(self) -> Mapping[str, Any] | None:
        return {"must": [{"has_id": [self.id]}, *self.conditions]} if self.conditions else None

    def operations(self) -> Iterator[Mapping[str, Any]]:
        """The change as Qdrant's operations, the payload last."""
        where = self.where
        chosen = {"points": [self.id]} if where is None else {"filter": where}
        if given := self.given:
            condition = {} if where is None else {"update_filter": where}
            yield {"update_vectors": {"points": [{"id": self.id, "vector": given}], **condition}}
        if gone := self.gone:
            yield {"delete_vectors": {**chosen, "vector": gone}}
        yield {"set_payload": {**chosen, "payload": self.payload}}
