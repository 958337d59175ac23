"""The stand-in over HTTP: the application, and its connections, which the server closes as it likes."""

import asyncio
import random
import time
from collections.abc import Iterator
from contextlib import contextmanager
from email.utils import formatdate
from pathlib import Path
from weakref import WeakSet

import httpx
from aiohttp import hdrs, web

from bench.qdrant_server import named, started
from bench.stubs import served
from operators.clients.qdrant_edge.shards import Engine
from tests.qdrant_server.behaviour import Behaviour
from tests.qdrant_server.transport import ServerTransport

# As Qdrant's own server has it.
BODY_LIMIT = 32 * 1024 * 1024


def application(engine: Engine, behaviour: Behaviour | None = None) -> web.Application:
    """The engine's transport as a web application."""
    behaviour = behaviour or Behaviour()
    transport = ServerTransport(engine, behaviour)
    reused: WeakSet[asyncio.Transport] = WeakSet()
    chance = random.Random(0)

    async def answer(request: web.Request) -> web.Response:
        connection = request.transport
        assert connection is not None
        if connection in reused and chance.random() < behaviour.closing:
            connection.close()
            # Nothing of the request is read or answered: the client sees the end of a connection, no more.
            raise asyncio.CancelledError
        reused.add(connection)
        content = await request.read()
        url = httpx.URL(f"http://engine{request.raw_path}")
        asked = httpx.Request(request.method, url, content=content, headers=_keys(request))
        answered = await transport.handle_async_request(asked)
        headers = {name: answered.headers[name] for name in ("content-type",) if name in answered.headers}
        headers["date"] = formatdate(time.time() + behaviour.ahead, usegmt=True)
        return web.Response(status=answered.status_code, body=answered.content, headers=headers)

    async def untyped(_: web.Request, response: web.StreamResponse) -> None:
        if response.status == 401:
            # The server gives the words of this refusal without their type.
            response.headers.popall(hdrs.CONTENT_TYPE, None)

    app = web.Application(client_max_size=BODY_LIMIT)
    app.on_response_prepare.append(untyped)
    app.router.add_route("*", "/{path:.*}", answer)
    return app


@contextmanager
def serve(path: Path, behaviour: Behaviour | None = None, port: int = 0) -> Iterator[str]:
    """Serve the engine over `path` from a thread of its own on a free port, or this one; yields the base URL."""
    behaviour = behaviour or Behaviour()
    with Engine(path) as engine, served(application(engine, behaviour), port, behaviour.keep_alive) as url:
        yield url


@contextmanager
def running(path: Path) -> Iterator[str]:
    """A Qdrant over `path` for tests that hold for the server and its stand-in alike; yields the base URL."""
    binary = named()
    with serve(path) if binary is None else started(binary, path) as url:
        yield url


def _keys(request: web.Request) -> dict[str, str]:
    return {name: request.headers[name] for name in ("api-key", "authorization") if name in request.headers}
