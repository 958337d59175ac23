"""The embedded Qdrant: a transport that answers Qdrant's REST requests from a directory of this machine.

Above the transport nothing differs from a server: the bodies, the statuses and the words of refusals are those of
Qdrant 1.19. What the engine can't do is refused, never ignored.
"""

import asyncio
from typing import Any
from urllib.parse import unquote

import httpx
import orjson

from operators.clients.qdrant_edge.refusals import Refusal
from operators.clients.qdrant_edge.routes import LOOKUPS, UPDATES
from operators.clients.qdrant_edge.shards import Engine

READY = "all shards are ready"


class EngineTransport(httpx.AsyncBaseTransport):
    """One event loop's way to an `Engine`, which other loops of the process may share.

    Every request is answered, refusals included; nothing is raised but what cancels the caller. `aclose` flushes the
    engine and leaves it open.
    """

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Answer one request, by its path, whatever its host."""
        if request.method == "GET" and request.url.path == "/readyz":
            return httpx.Response(200, text=READY)
        content = await request.aread()
        try:
            async with asyncio.timeout(_timeout(request.url.params.get("timeout"))):
                result = await self._answer(request, content)
        except Refusal as refusal:
            return _json(refusal.status, {"status": {"error": str(refusal)}, "time": 0.0})
        except TimeoutError:
            return _json(408, {"status": {"error": "Timeout error: the request took too long"}, "time": 0.0})
        return _json(200, {"result": result, "status": "ok", "time": 0.0})

    async def aclose(self) -> None:
        """Flush the engine."""
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


def no_path() -> Refusal:
    """A path that isn't there: 404."""
    return Refusal(404, "Not found: there is no such path")


def _timeout(text: str | None) -> float | None:
    if text is None:
        return None
    if not text.isascii() or not text.isdecimal() or int(text) == 0:
        shown = f"integer `{text}`" if text.isdecimal() else f'string "{text}"'
        message = f"invalid value: {shown}, expected a nonzero u64"
        raise Refusal(400, f"Deserialize error in query parameters: {message}")
    return float(text)


def read_body(content: bytes) -> Any:
    """The JSON body of a request; raises Refusal."""
    try:
        return orjson.loads(content)
    except orjson.JSONDecodeError as error:
        ended = error.pos >= len(error.doc)
        message, column = ("EOF while parsing a value", error.colno - 1) if ended else ("expected value", error.colno)
        raise Refusal(400, f"Format error in JSON body: {message} at line {error.lineno} column {column}") from error


def _json(status: int, value: object) -> httpx.Response:
    return httpx.Response(status, headers={"content-type": "application/json"}, content=orjson.dumps(value))
