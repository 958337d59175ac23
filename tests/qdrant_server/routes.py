"""Requests to one collection: the bodies, the statuses and the words of refusals are those of Qdrant 1.19.

Each route takes the collection and the parsed body, returns the `result` of the answer, and raises Refusal. The engine
holds the interpreter while it works, so a long request is worked off in pieces, with other tasks in between.
"""

import asyncio
import itertools
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import Any

import orjson
from qdrant_edge import EdgeShard, QueryBatchRequest, ScoredPoint, UpdateOperation

from operators.clients.qdrant_edge.shards import Collection
from tests.qdrant_server.payload_indexes import SHORT, describe_index, index_params
from tests.qdrant_server.refusals import bad_request, reading, run
from tests.qdrant_server.requests import (
    Read,
    parse_count,
    parse_facet,
    read_lookup,
    read_scroll,
    read_search,
    write_id,
    write_point,
)
from tests.qdrant_server.vectors import VectorSchema

SEARCHES_A_CALL = 8

OPERATION_IDS = itertools.count()

Route = Callable[[Collection, Any], Awaitable[Any]]


async def info(collection: Collection, _: Any) -> dict[str, Any]:
    """The description of the collection, without its settings."""
    shard = run(collection, lambda shard: shard.info())
    return {
        "status": "green",
        "optimizer_status": "ok",
        "indexed_vectors_count": shard.indexed_vectors_count,
        "points_count": shard.points_count,
        "segments_count": shard.segments_count,
        "payload_schema": {
            field: describe_index(schema, shard.payload_schema[field].points)
            for field, schema in collection.indexes.items()
        },
        "update_queue": {"length": 0},
    }


async def create_index(collection: Collection, body: Any) -> dict[str, Any]:
    """Index a payload field."""
    with reading():
        field, schema = body["field_name"], body["field_schema"]
        params = index_params(schema)
    # A server shows no parameters of an index that was asked for by its type alone.
    collection.create_index(field, {"type": schema, SHORT: True} if isinstance(schema, str) else schema, params)
    return _acknowledge()


async def scroll(collection: Collection, body: Any) -> dict[str, Any]:
    """Points by id, or by an indexed field."""
    with reading():
        request = read_scroll(body)
    points, following = run(collection, lambda shard: shard.scroll(request))
    return {"points": [write_point(point) for point in points], "next_page_offset": write_id(following)}


async def retrieve(collection: Collection, body: Any) -> list[dict[str, Any]]:
    """The points of these ids that exist."""
    with reading():
        ids, payload, vectors = read_lookup(body)
    return [write_point(point) for point in run(collection, lambda shard: shard.retrieve(ids, payload, vectors))]


async def count(collection: Collection, body: Any) -> dict[str, Any]:
    """The number of points that a filter matches."""
    with reading():
        request = parse_count(body)
    return {"count": run(collection, lambda shard: shard.count(request))}


async def facet(collection: Collection, body: Any) -> dict[str, Any]:
    """The number of points with each value of an indexed field, the most frequent first."""
    with reading():
        request = parse_facet(body)
    hits = run(collection, lambda shard: shard.facet(request)).hits
    return {"hits": [{"value": hit.value, "count": hit.count} for hit in hits if hit.count]}


LOOKUPS: Mapping[tuple[str, str], Route] = {
    ("GET", ""): info,
    ("POST", "points/scroll"): scroll,
    ("POST", "points"): retrieve,
    ("POST", "points/count"): count,
    ("POST", "facet"): facet,
}


async def run_searches(collection: Collection, bodies: list[Any]) -> list[dict[str, Any]]:
    """The points that each of these searches finds."""
    with reading():
        schema = VectorSchema.of(collection.created)
        requests = [read_search(body, schema) for body in bodies]
    results: list[dict[str, Any]] = []
    for start in range(0, len(requests), SEARCHES_A_CALL):
        await asyncio.sleep(0)
        some = QueryBatchRequest(requests[start : start + SEARCHES_A_CALL])
        found = run(collection, partial(_query, some))
        results += [{"points": list(map(write_point, points))} for points in found]
    return results


def _query(request: QueryBatchRequest, shard: EdgeShard) -> list[list[ScoredPoint]]:
    return shard.query_batch(request)


async def apply_update(collection: Collection, body: Any, read: Read) -> dict[str, Any]:
    """Apply the operations that `read` makes of the body, one after the other."""
    with reading():
        if not isinstance(body, dict):
            raise bad_request("expected an object")
        operations = await read(body, VectorSchema.of(collection.created))
    for operation in operations:
        await asyncio.sleep(0)
        run(collection, partial(_apply, operation))
    collection.wrote(len(orjson.dumps(body)))
    return _acknowledge()


def _apply(operation: UpdateOperation, shard: EdgeShard) -> None:
    shard.update(operation)


def _acknowledge() -> dict[str, Any]:
    return {"operation_id": next(OPERATION_IDS), "status": "completed"}
