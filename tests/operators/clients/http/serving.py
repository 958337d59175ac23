"""Real servers on loopback for the clients' tests."""

import asyncio
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any

import orjson
from aiohttp import web

from operators.clients.http.transport import MIB, Endpoint, http_transport

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]
Serve = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


@asynccontextmanager
async def answering(handler: Handler, *, tls: ssl.SSLContext | None = None) -> AsyncIterator[str]:
    """Serve every method and path by `handler`; gives the base URL."""

    async def handle(request: web.Request) -> web.StreamResponse:
        return await handler(request)

    app = web.Application(client_max_size=64 * MIB)
    app.router.add_route("*", "/{path:.*}", handle)
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", 0, ssl_context=tls).start()
        yield f"{'https' if tls else 'http'}://127.0.0.1:{runner.addresses[0][1]}"
    finally:
        await runner.cleanup()


@asynccontextmanager
async def speaking(serve: Serve) -> AsyncIterator[str]:
    """Give each connection to `serve` and close it afterwards; gives the base URL."""
    connections: set[asyncio.Task[None]] = set()

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        connections.add(task)
        try:
            await serve(reader, writer)
        except (asyncio.CancelledError, ConnectionError):
            pass
        finally:
            writer.transport.abort() if writer.transport.is_closing() else writer.close()
            connections.discard(task)

    server = await asyncio.start_server(connected, "127.0.0.1", 0)
    try:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    finally:
        server.close()
        for task in list(connections):
            task.cancel()
        await asyncio.gather(*connections, return_exceptions=True)


@asynccontextmanager
async def backend(
    url: str, *, headers: Mapping[str, str] | None = None, max_connections: int = 64, max_body: int = 8 * MIB
) -> AsyncIterator[Endpoint]:
    """An endpoint named `backend` for `url`, closed at the end."""
    transport = http_transport(max_connections=max_connections)
    endpoint = Endpoint("backend", url, transport, headers or {}, max_body)
    try:
        yield endpoint
    finally:
        await endpoint.aclose()


def json_response(value: Any, status: int = 200) -> web.Response:
    """`value` as a JSON answer."""
    return web.Response(body=orjson.dumps(value), status=status, content_type="application/json")
