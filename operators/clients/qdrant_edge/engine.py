"""The embedded Qdrant: a transport that answers Qdrant's REST requests from a directory of this machine.

Above the transport nothing differs from a server: the bodies, the statuses and the words of refusals are those of
Qdrant 1.19. A request that the engine can't serve is refused, never ignored.

Each route takes the collection and the parsed body, returns the `result` of the answer, and raises Refusal. The engine
holds the interpreter while it works, so a long request is worked off in pieces, with other tasks in between.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Any
from urllib.parse import unquote

import httpx
import orjson
from qdrant_edge import EdgeShard, QueryBatchRequest, QueryRequest, UpdateOperation

from operators.clients.qdrant_edge.collection_config import describe_index, describe_params
from operators.clients.qdrant_edge.refusals import Refusal, bad_request, no_path, read_body, read_timeout, reading
from operators.clients.qdrant_edge.requests import (
    Fields,
    Read,
    listed_fields,
    parse_count,
    parse_facet,
    read_delete,
    read_lookup,
    read_of,
    read_scroll,
    read_search,
    read_upsert,
    write_id,
    write_point,
)
from operators.clients.qdrant_edge.shards import Collection, Engine

READY = "all shards are ready"


class EngineTransport(httpx.AsyncBaseTransport):
    """One event loop's access to an `Engine`, which other loops of the process may share.

    Every request is answered, refusals included; only the caller's cancellation is raised. `aclose` flushes the
    engine and leaves it open.
    """

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        if request.method == "GET" and request.url.path == "/readyz":
            return httpx.Response(200, text=READY)
        content = await request.aread()
        try:
            async with asyncio.timeout(read_timeout(request.url.params.get("timeout"))):
                result = await self._answer(request, content)
        except Refusal as refusal:
            return _json(refusal.status, {"status": {"error": str(refusal)}, "time": 0.0})
        except TimeoutError:
            return _json(408, {"status": {"error": "Timeout error: the request took too long"}, "time": 0.0})
        return _json(200, {"result": result, "status": "ok", "time": 0.0})

    async def aclose(self) -> None:
        self._engine.flush()

    async def _answer(self, request: httpx.Request, content: bytes) -> Any:
        path = request.url.raw_path.decode().partition("?")[0]
        match [unquote(part) for part in path.strip("/").split("/")]:
            case ["aliases"] if request.method == "GET":
                return {"aliases": []}
            case ["collections", name, "exists"] if request.method == "GET":
                return {"exists": self._engine.exists(name)}
            case ["collections", name] if request.method == "PUT":
                self._engine.create(name, read_body(content))
                return True
            case ["collections", name, *rest]:
                return await self._on_collection(name, (request.method, "/".join(rest)), content)
        raise no_path()

    async def _on_collection(self, name: str, route: tuple[str, str], content: bytes) -> Any:
        lookup, update = LOOKUPS.get(route), UPDATES.get(route)
        if lookup:
            return await lookup(self._engine.collection(name), None if route[0] == "GET" else read_body(content))
        if update:
            body = read_body(content)
            collection = self._engine.collection(name)
            result = await update(collection, body)
            collection.wrote(len(content))
            return result
        raise no_path()


def _json(status: int, value: object) -> httpx.Response:
    return httpx.Response(status, headers={"content-type": "application/json"}, content=orjson.dumps(value))


SEARCHES_A_CALL = 8

Route = Callable[[Collection, Any], Awaitable[Any]]


async def info(collection: Collection, _: Any) -> dict[str, Any]:
    """The description of the collection."""
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
    return _acknowledge(collection)


async def search_batch(collection: Collection, body: Any) -> list[dict[str, Any]]:
    """Many searches: all are answered, or one that is refused refuses them all."""
    with reading():
        searches = list(body["searches"])
    return await run_searches(collection, searches)


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
    """The number of points that a filter matches."""
    with reading():
        request = parse_count(body)
    return {"count": collection.run(lambda shard: shard.count(request))}


async def facet(collection: Collection, body: Any) -> dict[str, Any]:
    """The number of points with each value of an indexed field, the most frequent first."""
    with reading():
        request = parse_facet(body)
    hits = collection.run(lambda shard: shard.facet(request)).hits
    return {"hits": [{"value": hit.value, "count": hit.count} for hit in hits if hit.count]}


async def upsert(collection: Collection, body: Any) -> dict[str, Any]:
    """Write points."""
    return await apply_update(collection, body, read_upsert)


async def delete(collection: Collection, body: Any) -> dict[str, Any]:
    """Delete points."""
    return await apply_update(collection, body, read_delete)


async def batch(collection: Collection, body: Any) -> list[dict[str, Any]]:
    """Several updates, one after the other; the first that is refused leaves those behind it undone."""
    with reading():
        kinds = [pair for operation in body["operations"] for pair in operation.items()]
    return [await apply_update(collection, inner, read_of(kind)) for kind, inner in kinds]


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


async def run_searches(collection: Collection, bodies: list[Any]) -> list[dict[str, Any]]:
    """The points that each of these searches finds."""
    with reading():
        listed = [listed_fields(body) for body in bodies]
        without = [
            body if fields is None else {**body, "with_payload": False}
            for body, fields in zip(bodies, listed, strict=True)
        ]
        requests = [read_search(body, collection.schema) for body in without]
    results: list[dict[str, Any]] = []
    for start in range(0, len(requests), SEARCHES_A_CALL):
        await asyncio.sleep(0)
        some = slice(start, start + SEARCHES_A_CALL)
        results += collection.run(_search(collection, requests[some], listed[some]))
    return results


def _search(
    collection: Collection, requests: list[QueryRequest], listed: list[Fields | None]
) -> Callable[[EdgeShard], list[dict[str, Any]]]:
    def search(shard: EdgeShard) -> list[dict[str, Any]]:
        found = shard.query_batch(QueryBatchRequest(requests))
        return [
            {
                "points": list(map(write_point, points))
                if fields is None
                else collection.hit_payloads.write(shard, points, fields)
            }
            for points, fields in zip(found, listed, strict=True)
        ]

    return search


async def apply_update(collection: Collection, body: Any, read: Read) -> dict[str, Any]:
    """Apply the operations that `read` makes of the body, one after the other."""
    with reading():
        if not isinstance(body, dict):
            raise bad_request("expected an object")
        operations = await read(body, collection.schema)
    for operation in operations:
        await asyncio.sleep(0)
        collection.run(_apply(operation))
    return _acknowledge(collection)


def _apply(operation: UpdateOperation) -> Callable[[EdgeShard], None]:
    return lambda shard: shard.update(operation)


def _acknowledge(collection: Collection) -> dict[str, Any]:
    return {"operation_id": next(collection.operation_ids), "status": "completed"}
