"""The requests on one collection that the embedded engine answers, by method and the path below the collection's.

Each route is given the collection and the parsed body, returns the `result` of the answer, and raises Refusal. The
engine holds the interpreter while it works, so a long request is worked off in pieces, with other tasks in between.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from qdrant_edge import EdgeShard, QueryBatchRequest, QueryRequest, UpdateOperation

from operators.clients.qdrant_edge.collection_config import describe_index, describe_params
from operators.clients.qdrant_edge.refusals import malformed, reading
from operators.clients.qdrant_edge.searches import (
    read_count,
    read_facet,
    read_lookup,
    read_scroll,
    read_search,
    write_id,
    write_point,
)
from operators.clients.qdrant_edge.shards import Collection
from operators.clients.qdrant_edge.updates import Read, read_delete, read_of, read_upsert

SEARCHES_A_CALL = 8

Route = Callable[[Collection, Any], Awaitable[Any]]


async def info(collection: Collection, _: Any) -> dict[str, Any]:
    """What the collection was created with and holds."""
    shard = collection.run(lambda shard: shard.info())
    return {
        "status": "green",
        "optimizer_status": "ok",
        "indexed_vectors_count": shard.indexed_vectors_count,
        "points_count": shard.points_count,
        "segments_count": shard.segments_count,
        "config": describe_params(collection.created),
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
    collection.create_index(field, schema)
    return _completed(collection)


async def search_batch(collection: Collection, body: Any) -> list[dict[str, Any]]:
    """Many searches: all are answered, or one that is refused refuses them all."""
    with reading():
        searches = list(body["searches"])
    return await searched(collection, searches)


async def scroll(collection: Collection, body: Any) -> dict[str, Any]:
    """Points by id, or by an indexed field."""
    with reading():
        request = read_scroll(body)
    points, following = collection.run(lambda shard: shard.scroll(request))
    return {"points": [write_point(point) for point in points], "next_page_offset": write_id(following)}


async def retrieve(collection: Collection, body: Any) -> list[dict[str, Any]]:
    """The points of these ids that exist."""
    with reading():
        ids, payload, vectors = read_lookup(body)
    return [write_point(point) for point in collection.run(lambda shard: shard.retrieve(ids, payload, vectors))]


async def count(collection: Collection, body: Any) -> dict[str, Any]:
    """How many points a filter matches."""
    with reading():
        request = read_count(body)
    return {"count": collection.run(lambda shard: shard.count(request))}


async def facet(collection: Collection, body: Any) -> dict[str, Any]:
    """How many points have each value of an indexed field, the most frequent first."""
    with reading():
        request = read_facet(body)
    hits = collection.run(lambda shard: shard.facet(request)).hits
    return {"hits": [{"value": hit.value, "count": hit.count} for hit in hits if hit.count]}


async def upsert(collection: Collection, body: Any) -> dict[str, Any]:
    """Write points."""
    return await updated(collection, body, read_upsert)


async def delete(collection: Collection, body: Any) -> dict[str, Any]:
    """Delete points."""
    return await updated(collection, body, read_delete)


async def batch(collection: Collection, body: Any) -> list[dict[str, Any]]:
    """Several updates, one after the other; the first that is refused leaves those behind it undone."""
    with reading():
        kinds = [pair for operation in body["operations"] for pair in operation.items()]
    return [await updated(collection, inner, read_of(kind)) for kind, inner in kinds]


LOOKUPS: Mapping[tuple[str, str], Route] = {
    ("GET", ""): info,
    ("POST", "points/query/batch"): search_batch,
    ("POST", "points/scroll"): scroll,
    ("POST", "points"): retrieve,
    ("POST", "points/count"): count,
    ("POST", "facet"): facet,
}
UPDATES: Mapping[tuple[str, str], Route] = {
    ("PUT", "index"): create_index,
    ("PUT", "points"): upsert,
    ("POST", "points/delete"): delete,
    ("POST", "points/batch"): batch,
}


async def searched(collection: Collection, bodies: list[Any]) -> list[dict[str, Any]]:
    """What each of these searches finds."""
    with reading():
        requests = [read_search(body, collection.schema) for body in bodies]
    results: list[dict[str, Any]] = []
    for start in range(0, len(requests), SEARCHES_A_CALL):
        await asyncio.sleep(0)
        found = collection.run(_batch(requests[start : start + SEARCHES_A_CALL]))
        results.extend({"points": [write_point(point) for point in points]} for points in found)
    return results


def _batch(requests: list[QueryRequest]) -> Callable[[EdgeShard], list[Any]]:
    return lambda shard: shard.query_batch(QueryBatchRequest(requests))


async def updated(collection: Collection, body: Any, read: Read) -> dict[str, Any]:
    """Apply the operations that `read` makes of the body, one after the other."""
    with reading():
        if not isinstance(body, dict):
            raise malformed("expected an object")
        operations = await read(body, collection.schema)
    for operation in operations:
        await asyncio.sleep(0)
        collection.run(_applied(operation))
    return _completed(collection)


def _applied(operation: UpdateOperation) -> Callable[[EdgeShard], None]:
    return lambda shard: shard.update(operation)


def _completed(collection: Collection) -> dict[str, Any]:
    return {"operation_id": next(collection.operation_ids), "status": "completed"}
