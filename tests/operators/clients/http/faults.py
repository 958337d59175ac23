"""One call to a server that misbehaves, and the error it comes to."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from operators.clients.http.transport import MIB, Endpoint
from schemas.errors import BackendError
from tests.operators.clients.http.serving import Handler, Serve, answering, backend, speaking

KEY = "sk-do-not-tell"


TEXT = "the query"


HEADERS = {"authorization": f"Bearer {KEY}"}


OK = b"HTTP/1.1 200 OK\r\n"


async def call(endpoint: Endpoint, *, body: object = None, timeout: float = 5.0) -> Any:
    """Post `body`, or a small one, to /path."""
    return await endpoint.call("POST", "/path", {"query": TEXT} if body is None else body, timeout=timeout)


def fail(scenario: Callable[[], Coroutine[Any, Any, None]]) -> BackendError:
    """The error of a call that must fail with one of the tree's."""
    with pytest.raises(BackendError) as caught:
        asyncio.run(scenario())
    return caught.value


def failure_of(handler: Handler, *, timeout: float = 5.0, max_body: int = 8 * MIB) -> BackendError:
    """The error of one call to an HTTP server of `handler`."""

    async def scenario() -> None:
        async with answering(handler) as url, backend(url, headers=HEADERS, max_body=max_body) as endpoint:
            await call(endpoint, timeout=timeout)

    return fail(scenario)


def raw_failure_of(serve: Serve, *, timeout: float = 5.0, body: object = None) -> BackendError:
    """The error of one call to a TCP server of `serve`."""

    async def scenario() -> None:
        async with speaking(serve) as url, backend(url, headers=HEADERS) as endpoint:
            await call(endpoint, timeout=timeout, body=body)

    return fail(scenario)


def sending(data: bytes, *, then_hang: bool = False) -> Serve:
    """A TCP server that reads a request, sends `data` and closes, or stays."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(data)
        await writer.drain()
        if then_hang:
            await asyncio.Event().wait()

    return serve
