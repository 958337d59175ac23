"""Qdrant's JSON requests as the engine's: searches, lookups, updates; and the engine's points back as JSON."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Any
from uuid import UUID

import numpy as np
from qdrant_edge import (
    CountRequest,
    Direction,
    FacetRequest,
    IdfParams,
    OrderBy,
    PayloadSelector,
    Point,
    PointVectors,
    QuantizationSearchParams,
    Query,
    QueryRequest,
    RecommendQuery,
    Record,
    ScoredPoint,
    ScrollRequest,
    SearchParams,
    SparseVector,
    TextQuery,
    UpdateOperation,
)

from tests.qdrant_server.conditions import parse_id, read_filter
from tests.qdrant_server.refusals import out_of_range, wrong_input
from tests.qdrant_server.vectors import VectorSchema

if TYPE_CHECKING:
    # Names of the engine's type stubs only.
    from qdrant_edge import WithPayloadType

DEFAULT_LIMIT = 10

# The engine holds the interpreter while it works: about 1 ms a point that has 60 token vectors.
POINTS_A_CALL = 8

Read = Callable[[Mapping[str, Any], VectorSchema], Awaitable[list[UpdateOperation]]]
"""Reads a body, whole, before any of it is applied. Raises Refusal, KeyError, TypeError or ValueError."""


def read_search(body: Mapping[str, Any], schema: VectorSchema) -> QueryRequest:
    """One search of `/points/query`; raises Refusal, KeyError, TypeError or ValueError."""
    _refuse(body, "prefetch", "lookup_from")
    query = body.get("query")
    if isinstance(query, dict) and "nearest" in query:
        query = query["nearest"]
    using = body.get("using") or ""
    return QueryRequest(
        _limit(body, "internal.limit"),
        offset=body.get("offset") or 0,
        query=_query(query, using, schema),
        with_vector=body.get("with_vector") or False,
        with_payload=_payload(body.get("with_payload"), default=False),
        filter=read_filter(body.get("filter")),
        score_threshold=body.get("score_threshold"),
        params=_params(body.get("params") or {}),
    )


def _query(query: Any, using: str, schema: VectorSchema) -> Query | TextQuery | None:
    match query:
        case None:
            return None
        case {"text": str(text), **rest} if not rest:
            return TextQuery(using, text)
        case {"recommend": {"positive": [*positive], "negative": [*negative], "strategy": strategy}}:
            wanted: list[Any] = [schema.query(each, using) for each in positive]
            unwanted: list[Any] = [schema.query(each, using) for each in negative]
            if strategy == "best_score":
                return Query.RecommendBestScore(RecommendQuery(wanted, unwanted), using)
            if not wanted:
                raise wrong_input("At least one positive example is required for the average vector strategy")
            mean = np.mean(wanted, 0)
            return Query.Nearest((2 * mean - np.mean(unwanted, 0) if unwanted else mean).tolist(), using)
    return Query.Nearest(schema.query(query, using), using)


def read_scroll(body: Mapping[str, Any]) -> ScrollRequest:
    """A `/points/scroll` request; raises Refusal, KeyError, TypeError, ValueError or AttributeError."""
    offset = body.get("offset")
    return ScrollRequest(
        offset=None if offset is None else parse_id(offset),
        limit=_limit(body, "limit"),
        filter=read_filter(body.get("filter")),
        with_payload=_payload(body.get("with_payload"), default=True),
        with_vector=body.get("with_vector") or False,
        order_by=_order(body.get("order_by")),
    )


def parse_count(body: Mapping[str, Any]) -> CountRequest:
    """A `/points/count` request; raises Refusal, KeyError, TypeError or ValueError."""
    return CountRequest(exact=body.get("exact", True), filter=read_filter(body.get("filter")))


def parse_facet(body: Mapping[str, Any]) -> FacetRequest:
    """A `/facet` request; raises Refusal, KeyError, TypeError or ValueError."""
    return FacetRequest(
        body["key"],
        limit=_limit(body, "limit"),
        exact=body.get("exact") or False,
        filter=read_filter(body.get("filter")),
    )


def read_lookup(body: Mapping[str, Any]) -> tuple[list[int | UUID | str], WithPayloadType, bool | list[str]]:
    """The ids, the payload's fields and the vectors that a `/points` request asks for; raises Refusal or KeyError."""
    ids = [parse_id(each) for each in body["ids"]]
    return ids, _payload(body.get("with_payload"), default=False), body.get("with_vector") or False


def write_point(point: ScoredPoint | Record) -> dict[str, Any]:
    """A found point as Qdrant writes it."""
    written: dict[str, Any] = {"id": write_id(point.id)}
    if isinstance(point, ScoredPoint):
        written["version"] = point.version
        written["score"] = point.score
    if point.payload is not None:
        written["payload"] = point.payload
    if point.vector is not None:
        written["vector"] = _write_vectors(point.vector)
    if point.order_value is not None:
        written["order_value"] = point.order_value
    return written


def write_id(identity: int | UUID | str | None) -> int | str | None:
    """A point's id as Qdrant writes it."""
    return str(identity) if isinstance(identity, UUID) else identity


def _limit(body: Mapping[str, Any], field: str) -> int:
    limit = body.get("limit")
    if limit is None:
        return DEFAULT_LIMIT
    if limit == 0:
        raise out_of_range(field, "value 0 invalid, must be 1 or larger")
    checked: int = limit
    return checked


def _payload(wanted: object, *, default: bool) -> WithPayloadType:
    match wanted:
        case None:
            return default
        case {"include": list(fields)}:
            return PayloadSelector.Include(fields)
        case {"exclude": list(fields)}:
            return PayloadSelector.Exclude(fields)
        case bool() | list():
            return wanted
    raise TypeError("data did not match any variant of untagged enum WithPayloadInterface")


def _order(body: str | Mapping[str, Any] | None) -> OrderBy | None:
    if body is None:
        return None
    if isinstance(body, str):
        return OrderBy(body)
    direction = Direction.Desc if body.get("direction") == "desc" else Direction.Asc
    return OrderBy(body["key"], direction, start_from=body.get("start_from"))


def _params(body: Mapping[str, Any]) -> SearchParams:
    idf = body.get("idf")
    quantization = body.get("quantization")
    return SearchParams(
        hnsw_ef=body.get("hnsw_ef"),
        exact=body.get("exact") or False,
        indexed_only=body.get("indexed_only") or False,
        quantization=quantization and QuantizationSearchParams(**quantization),
        idf=idf and IdfParams(corpus=read_filter(idf.get("corpus"))),
    )


def _write_vectors(vectors: Any) -> Any:
    if isinstance(vectors, SparseVector):
        return {"indices": vectors.indices, "values": vectors.values}
    if isinstance(vectors, dict):
        return {name: _write_vectors(vector) for name, vector in vectors.items()}
    return vectors


async def read_upsert(body: Mapping[str, Any], schema: VectorSchema) -> list[UpdateOperation]:
    """The body of an upsert."""
    _refuse(body, "batch", "update_mode")
    condition = read_filter(body.get("update_filter"))
    operations = []
    for start in range(0, len(body["points"]), POINTS_A_CALL):
        await asyncio.sleep(0)
        points = [_point(each, schema) for each in body["points"][start : start + POINTS_A_CALL]]
        operations.append(UpdateOperation.upsert_points(points, condition))
    return operations


def _point(body: Mapping[str, Any], schema: VectorSchema) -> Point:
    return Point(parse_id(body["id"]), schema.of_point(body["vector"]), body.get("payload") or {})


async def read_delete(body: Mapping[str, Any], _: VectorSchema) -> list[UpdateOperation]:
    """The body of a deletion, by filter or by ids."""
    condition = read_filter(body.get("filter"))
    if condition is not None:
        return [UpdateOperation.delete_points_by_filter(condition)]
    return [UpdateOperation.delete_points([parse_id(each) for each in body["points"]])]


async def read_new_vectors(body: Mapping[str, Any], schema: VectorSchema) -> list[UpdateOperation]:
    """New vectors of points; those that it doesn't name stay."""
    points = [PointVectors(parse_id(each["id"]), schema.of_point(each["vector"])) for each in body["points"]]
    return [UpdateOperation.update_vectors(points, read_filter(body.get("update_filter")))]


async def read_no_vectors(body: Mapping[str, Any], _: VectorSchema) -> list[UpdateOperation]:
    """Vectors to remove from points, by a filter or by their ids."""
    condition = read_filter(body.get("filter"))
    if condition is not None:
        return [UpdateOperation.delete_vectors_by_filter(condition, body["vector"])]
    return [UpdateOperation.delete_vectors([parse_id(each) for each in body["points"]], body["vector"])]


async def read_payload(body: Mapping[str, Any], _: VectorSchema) -> list[UpdateOperation]:
    """New payload fields of points, by a filter or by their ids; those that it doesn't name stay."""
    payload, key = body["payload"], body.get("key")
    condition = read_filter(body.get("filter"))
    if condition is not None:
        return [UpdateOperation.set_payload_by_filter(condition, payload, key)]
    return [UpdateOperation.set_payload([parse_id(each) for each in body["points"]], payload, key)]


KINDS: Mapping[str, Read] = {
    "upsert": read_upsert,
    "delete": read_delete,
    "update_vectors": read_new_vectors,
    "delete_vectors": read_no_vectors,
    "set_payload": read_payload,
}
"""The updates that a batch may have."""


def _refuse(body: Mapping[str, Any], *unsupported: str) -> None:
    for name in unsupported:
        if body.get(name):
            raise wrong_input(f"the engine has no `{name}`")
