"""What a Qdrant server answers beyond what rankstream asks: for the stand-in of a server."""

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, ClassVar
from urllib.parse import unquote

import httpx
import orjson
from qdrant_edge import PointVectors, UpdateOperation

from operators.clients.qdrant_edge.conditions import read_filter, read_id
from operators.clients.qdrant_edge.engine import EngineTransport
from operators.clients.qdrant_edge.refusals import malformed, not_found, reading
from operators.clients.qdrant_edge.routes import LOOKUPS, UPDATES, Route, searched, updated
from operators.clients.qdrant_edge.shards import Collection, Engine
from operators.clients.qdrant_edge.updates import read_delete, read_upsert
from operators.clients.qdrant_edge.vectors import VectorSchema

VERSION = "1.19.0"
TEXTS: Mapping[str, str] = {
    "/healthz": "healthz check passed",
    "/livez": "healthz check passed",
    "/metrics": f'# TYPE app_info gauge\napp_info{{name="qdrant",version="{VERSION}"}} 1\n',
}
ROOT = {"title": "qdrant - vector search engine", "version": VERSION}


async def search(collection: Collection, body: Any) -> dict[str, Any]:
    """One search."""
    return (await searched(collection, [body]))[0]


async def _read_payload(body: Mapping[str, Any], _: VectorSchema) -> list[UpdateOperation]:
    payload, key = body["payload"], body.get("key")
    condition = read_filter(body.get("filter"))
    if condition is not None:
        return [UpdateOperation.set_payload_by_filter(condition, payload, key)]
    return [UpdateOperation.set_payload([read_id(each) for each in body["points"]], payload, key)]


async def _read_vectors(body: Mapping[str, Any], schema: VectorSchema) -> list[UpdateOperation]:
    points = [PointVectors(read_id(each["id"]), schema.stored(each["vector"])) for each in body["points"]]
    return [UpdateOperation.update_vectors(points)]


def _updating(read: Callable[..., Awaitable[list[UpdateOperation]]], *, of_points: bool = False) -> Route:
    """The route of an update; `of_points`: those that it names must exist."""

    async def update(collection: Collection, body: Any) -> dict[str, Any]:
        if of_points and isinstance(body, dict):
            with reading():
                points = body.get("points") or []
                wanted = [read_id(each["id"] if isinstance(each, dict) else each) for each in points]
            found = {point.id for point in collection.run(lambda shard: shard.retrieve(wanted, False, False))}
            for identity in wanted:
                if identity not in found:
                    raise not_found(f"No point with id {identity} found")
        return await updated(collection, body, read)

    return update


_KINDS: Mapping[str, Route] = {
    "upsert": _updating(read_upsert),
    "delete": _updating(read_delete),
    "set_payload": _updating(_read_payload, of_points=True),
    "update_vectors": _updating(_read_vectors, of_points=True),
}


async def update_batch(collection: Collection, body: Any) -> list[dict[str, Any]]:
    """Updates one after the other, until one is refused."""
    with reading():
        operations = [(kind, inner) for operation in body["operations"] for kind, inner in operation.items()]
    results = []
    for kind, inner in operations:
        if kind not in _KINDS:
            raise malformed(f"the engine has no update `{kind}`")
        results.append(await _KINDS[kind](collection, inner))
    return results


class ServerTransport(EngineTransport):
    """The engine with all that the recorded server was asked."""

    lookups: ClassVar = {**LOOKUPS, ("POST", "points/query"): search}
    updates: ClassVar = {
        **UPDATES,
        ("POST", "points/payload"): _KINDS["set_payload"],
        ("PUT", "points/vectors"): _KINDS["update_vectors"],
        ("POST", "points/batch"): update_batch,
    }

    def __init__(self, engine: Engine) -> None:
        super().__init__(engine)
        self._aliases: dict[str, str] = {}

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Answer one request."""
        if request.method == "GET" and request.url.path in TEXTS:
            return httpx.Response(200, text=TEXTS[request.url.path])
        if request.method == "GET" and request.url.path == "/":
            return httpx.Response(200, headers={"content-type": "application/json"}, content=orjson.dumps(ROOT))
        return await super().handle_async_request(request)

    async def _answer(self, request: httpx.Request, content: bytes) -> Any:
        path = request.url.raw_path.decode().partition("?")[0]
        match [request.method, *(unquote(part) for part in path.strip("/").split("/"))]:
            case ["POST", "collections", "aliases"]:
                for action in orjson.loads(content)["actions"]:
                    created = action["create_alias"]
                    self._aliases[created["alias_name"]] = created["collection_name"]
                return True
            case ["GET", "collections"]:
                return {"collections": [{"name": name} for name in self._engine.names()]}
            case ["DELETE", "collections", name]:
                return self._engine.drop(name)
        return await super()._answer(request, content)

    async def _on_collection(self, name: str, route: tuple[str, str], content: bytes) -> Any:
        return await super()._on_collection(self._aliases.get(name, name), route, content)
