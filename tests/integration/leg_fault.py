"""A proxy before Qdrant that makes one leg fail, and leaves the other alone."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager

import aiohttp
from aiohttp import web

from bench.stubs import served


@contextmanager
def failing_leg(qdrant: str, using: str, fault: str) -> Iterator[str]:
    """Serve `qdrant` with `fault` (refuse, hang, garbage) for the searches that use the vector `using`."""

    async def forward(request: web.Request) -> web.StreamResponse:
        body = await request.read()
        if f'"using":"{using}"'.encode() in body:
            if fault == "hang":
                await asyncio.Event().wait()
            if fault == "garbage":
                return web.Response(body=b"<html>", content_type="text/html")
            assert request.transport is not None
            request.transport.abort()
            raise web.HTTPBadGateway
        async with (
            aiohttp.ClientSession() as session,
            session.request(
                request.method, qdrant + request.path_qs, data=body, headers={"content-type": "application/json"}
            ) as answer,
        ):
            return web.Response(status=answer.status, body=await answer.read(), content_type="application/json")

    app = web.Application(client_max_size=1 << 26)
    app.router.add_route("*", "/{path:.*}", forward)
    with served(app) as url:
        yield url
