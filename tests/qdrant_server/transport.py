"""The engine with all that a server has and rankstream or another tool may ask: the stand-in behind its HTTP."""

import asyncio
from collections.abc import Mapping
from typing import Any
from urllib.parse import unquote

import httpx
import orjson

from operators.clients.qdrant_edge.conversions import edge_config
from operators.clients.qdrant_edge.shards import NAME, Engine, Refusal
from tests.qdrant_server.access import (
    OPEN,
    Access,
    Unauthorized,
    check_collection,
    check_manage,
    may_see,
)
from tests.qdrant_server.aliases import Aliases
from tests.qdrant_server.behaviour import Behaviour
from tests.qdrant_server.exchanges import exchanges_of
from tests.qdrant_server.refusals import (
    bad_request,
    no_collection,
    no_path,
    out_of_range,
    read_body,
    read_timeout,
    reading,
    run,
    wrong_input,
)
from tests.qdrant_server.settings import engine_body, patched, read_settings
from tests.qdrant_server.sharding import Sharded
from tests.qdrant_server.strict_mode import Strict

VERSION = "1.19.0"
TEXTS: Mapping[str, str] = {
    "/healthz": "healthz check passed",
    "/livez": "healthz check passed",
    "/readyz": "all shards are ready",
    "/metrics": f'# TYPE app_info gauge\napp_info{{name="qdrant",version="{VERSION}"}} 1\n',
}
ROOT = {"title": "qdrant - vector search engine", "version": VERSION}
TIMED_OUT = (
    "Service internal error: 1 of 1 read operations failed:\n  Timeout error: Operation 'Search' timed out after 0ns"
)
SEARCHES = frozenset({("POST", "points/query"), ("POST", "points/query/batch")})

# Beside a collection of several shards: `~` can't begin a name that a test would choose.
SHARD = "~{number}~{name}"


class ServerTransport(httpx.AsyncBaseTransport):
    """The engine as a server of Qdrant 1.19; aliases are the transport's own.

    Every request is answered, refusals included; only the caller's cancellation is raised.
    """

    def __init__(self, engine: Engine, behaviour: Behaviour | None = None) -> None:
        self._engine = engine
        self._aliases = Aliases()
        self._behaviour = behaviour or Behaviour()
        self._exchanges = exchanges_of(engine)

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Answer one request, and keep the exchange where they are kept."""
        if self._exchanges is None:
            return await self._handle(request)
        began, content = self._exchanges.begin(), await request.aread()
        answer = None
        try:
            answer = await self._handle(request)
        finally:
            self._exchanges.end(began, request, content, self._behaviour, answer)
        return answer

    async def _handle(self, request: httpx.Request) -> httpx.Response:
        path = request.url.path
        if path not in OPEN:
            try:
                self._behaviour.keys.access(request.headers)
            except Unauthorized as refusal:
                return httpx.Response(401, content=str(refusal).encode())
        if request.method == "GET" and path in TEXTS:
            return httpx.Response(200, text=TEXTS[path])
        if request.method == "GET" and path == "/":
            return _json(200, ROOT)
        content = await request.aread()
        try:
            async with asyncio.timeout(read_timeout(request.url.params.get("timeout"))):
                result = await self._answer(request, content)
        except Refusal as refusal:
            return _json(refusal.status, {"status": {"error": str(refusal)}, "time": 0.0})
        except TimeoutError:
            return _json(408, {"status": {"error": "Timeout error: the request took too long"}, "time": 0.0})
        return _json(200, {"result": result, "status": "ok", "time": 0.0})

    async def _answer(self, request: httpx.Request, content: bytes) -> Any:
        access = self._behaviour.keys.access(request.headers)
        path = request.url.raw_path.decode().partition("?")[0]
        match [request.method, *(unquote(part) for part in path.strip("/").split("/"))]:
            case ["POST", "collections", "aliases"]:
                check_manage(access)
                self._aliases.change(read_body(content), self._engine.exists)
                return True
            case ["GET", "aliases"]:
                return {"aliases": self._visible_aliases(access, None)}
            case ["GET", "collections"]:
                return {"collections": [{"name": name} for name in self._names() if may_see(access, name)]}
            case ["GET", "collections", name, "exists"]:
                check_collection(access, name, ("GET", "exists"))
                return {"exists": self._engine.exists(self._aliases.target(name))}
            case ["GET", "collections", name, "aliases"]:
                check_collection(access, name, ("GET", "aliases"))
                return {"aliases": self._visible_aliases(access, name)}
            case ["PUT", "collections", name]:
                check_manage(access)
                return self._create(name, read_body(content))
            case ["PATCH", "collections", name]:
                check_manage(access)
                return self._patch(name, read_body(content))
            case ["DELETE", "collections", name]:
                check_manage(access)
                return self._drop(name)
            case [method, "collections", name, *rest]:
                route = (method, "/".join(rest))
                body = None if method == "GET" else read_body(content)
                check_collection(access, name, route)
                return await self._on_route(name, route, body, request.url.params.get("timeout"))
        raise no_path()

    async def _on_route(self, name: str, route: tuple[str, str], body: Any, timeout: str | None) -> Any:
        sharded = self._sharded(name)
        if self._behaviour.timing_out and route in SEARCHES:
            raise Refusal(500, TIMED_OUT)
        if restrictions := sharded.settings.get("strict_mode_config"):
            points = sum(run(shard, lambda each: each.info()).points_count for shard in sharded.shards)
            strict = Strict(restrictions, sharded.settings, sharded.shards[0].indexes, points)
            with reading():
                strict.check(route, body, None if timeout is None else int(timeout))
        answer = await sharded.answer(route, body)
        if answer is None:
            raise no_path()
        return answer

    def _sharded(self, name: str) -> Sharded:
        target = self._aliases.target(name)
        if not self._engine.exists(target):
            raise no_collection(name)
        first = self._engine.collection(target)
        number = first.created.get("settings", {}).get("shard_number", 1)
        return Sharded(
            [first, *(self._engine.collection(SHARD.format(number=each, name=target)) for each in range(1, number))]
        )

    def _create(self, name: str, body: Any) -> bool:
        if name in self._aliases:
            shown = f"Can't create collection with name {name}. Alias with the same name already exists"
            raise wrong_input(shown)
        with reading():
            settings = read_settings(body)
            created = engine_body(settings)
            edge_config(created)
        if not NAME.fullmatch(name) or name in {".", ".."}:
            raise out_of_range("collection_name", f"collection name `{name}` contains forbidden characters")
        self._engine.create(name, created)
        for number in range(1, settings.get("shard_number", 1)):
            self._engine.create(SHARD.format(number=number, name=name), created)
        return True

    def _patch(self, name: str, body: Any) -> bool:
        sharded = self._sharded(name)
        with reading():
            if not isinstance(body, dict):
                raise bad_request("expected an object")
            sharded.patch(patched(sharded.settings, body))
        return True

    def _drop(self, name: str) -> bool:
        for each in [each for each in self._engine.names() if each.startswith("~") and each.endswith(f"~{name}")]:
            self._engine.drop(each)
        self._aliases.forget(name)
        return self._engine.drop(name)

    def _names(self) -> list[str]:
        return [name for name in self._engine.names() if not name.startswith("~")]

    def _visible_aliases(self, access: Access, collection: str | None) -> list[dict[str, str]]:
        aliases = self._aliases.of(collection)
        return [each for each in aliases if may_see(access, each["alias_name"])]


def _json(status: int, value: object) -> httpx.Response:
    return httpx.Response(status, headers={"content-type": "application/json"}, content=orjson.dumps(value))
