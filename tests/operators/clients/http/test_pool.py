"""Connections: idle ones are given up, and a read doesn't fail for one that was only old."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from operators.clients.admission import OPENS_AFTER
from operators.clients.http.backend import TRIES, Resilient
from operators.clients.http.transport import Call, Endpoint, http_transport
from schemas.errors import BackendError, BackendTimeout, BackendUnavailable
from tests.operators.clients.http.closing import Close, Closing
from tests.operators.clients.http.serving import speaking

OLD = [Close.UNREAD, Close.HEADERS_READ, Close.REQUEST_READ, Close.ANSWER_BEGUN]


@asynccontextmanager
async def asking(server: Closing, *, keep_alive: float = 60.0) -> AsyncIterator[Endpoint]:
    """An endpoint of the server."""
    async with server.served() as url:
        endpoint = Endpoint("backend", url, http_transport(keep_alive=keep_alive))
        try:
            yield endpoint
        finally:
            await endpoint.aclose()


def on(server: Closing, scenario: Callable[[Endpoint], Awaitable[Any]], *, keep_alive: float = 60.0) -> Any:
    """The scenario's result."""

    async def run() -> Any:
        async with asking(server, keep_alive=keep_alive) as endpoint:
            return await scenario(endpoint)

    return asyncio.run(run())


async def read(endpoint: Endpoint) -> Any:
    """One call that only reads."""
    return await endpoint.call("POST", "/", {"a": 1}, timeout=10, repeatable=True)


@pytest.mark.parametrize("close", OLD)
def test_a_read_survives_an_old_connection(close: Close) -> None:
    """Wherever the server closes a connection that it had answered on, a read has its answer from a new one."""
    server = Closing(b"{}", lambda: close)

    async def scenario(endpoint: Endpoint) -> list[Any]:
        return [await read(endpoint) for _ in range(4)]

    assert on(server, scenario) == [{}] * 4
    # The first pooled, its end and the one beside it, and so on.
    assert server.connections == 4


@pytest.mark.parametrize("close", OLD)
def test_every_pooled_connection_may_be_old(close: Close) -> None:
    """The second try never takes a pooled connection: these may be as old as the first one."""
    server = Closing(b"{}", lambda: close)

    async def scenario(endpoint: Endpoint) -> Any:
        await asyncio.gather(*(read(endpoint) for _ in range(8)))
        return await read(endpoint)

    assert on(server, scenario) == {}


def test_a_large_read_survives_an_old_connection() -> None:
    """A body over a mebibyte is sent again whole, on a connection of its own."""
    server = Closing(b"{}", lambda: Close.UNREAD)

    async def scenario(endpoint: Endpoint) -> list[Any]:
        await asyncio.gather(*(read(endpoint) for _ in range(3)))
        body = {"text": "x" * (2 << 20)}
        return [await endpoint.call("POST", "/", body, timeout=10, repeatable=True) for _ in range(3)]

    assert on(server, scenario) == [{}] * 3


@pytest.mark.parametrize("close", OLD)
def test_a_write_is_not_sent_again_by_the_endpoint(close: Close) -> None:
    """A call that isn't repeatable fails with its connection, for the server may have done it."""
    server = Closing(b"{}", lambda: close)

    async def scenario(endpoint: Endpoint) -> None:
        await endpoint.call("POST", "/", {}, timeout=10)
        with pytest.raises(BackendUnavailable, match="the connection broke"):
            await endpoint.call("POST", "/", {}, timeout=10)

    on(server, scenario)


async def test_a_new_connection_that_breaks_is_a_failure() -> None:
    """A server that answers on no connection is asked once, and fails."""
    asked = 0

    async def drop(reader: asyncio.StreamReader, _: asyncio.StreamWriter) -> None:
        nonlocal asked
        await reader.readuntil(b"\r\n\r\n")
        asked += 1

    async with speaking(drop) as url:
        endpoint = Endpoint("backend", url, http_transport())
        with pytest.raises(BackendUnavailable, match="the connection broke"):
            await read(endpoint)
        await endpoint.aclose()
    assert asked == 1


async def test_the_second_try_keeps_the_deadline() -> None:
    """A read that is sent again ends within the time that it was given, whatever the second connection does."""
    connections = 0

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal connections
        connections += 1
        await reader.readuntil(b"\r\n\r\n")
        if connections > 1:
            await asyncio.Event().wait()
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}")
        await reader.readuntil(b"\r\n\r\n")

    async with speaking(serve) as url:
        endpoint = Endpoint("backend", url, http_transport())
        assert await endpoint.call("GET", "/", timeout=10, repeatable=True) == {}
        with pytest.raises(BackendTimeout, match="no answer in time"):
            await endpoint.call("POST", "/", timeout=0.2, repeatable=True)
        await endpoint.aclose()
    assert connections == 2


def test_an_old_connection_costs_no_retry_and_counts_for_no_breaker() -> None:
    """Far more old connections than retries in the budget, and failures that open a breaker: all reads are answered."""
    server = Closing(b"{}", lambda: Close.REQUEST_READ)
    reads = 20 * OPENS_AFTER * TRIES

    async def scenario(endpoint: Endpoint) -> list[Any]:
        layers = Resilient(endpoint)
        call: Call[Any] = Call("/", {}, lambda answer: answer, repeatable=True)
        return [await layers.ask(call, timeout=10) for _ in range(reads)]

    assert on(server, scenario) == [{}] * reads


def test_an_idle_connection_is_given_up() -> None:
    """After `keep_alive` seconds without a request, the next one gets a new connection; before, it doesn't."""
    server = Closing(b"{}")

    async def scenario(endpoint: Endpoint) -> list[int]:
        counts = []
        for pause in (0.0, 0.0, 0.5):
            await asyncio.sleep(pause)
            await endpoint.call("POST", "/", timeout=10)
            counts.append(server.connections)
        return counts

    assert on(server, scenario, keep_alive=0.25) == [1, 1, 2]


def test_a_closed_transport_opens_nothing_new() -> None:
    """After `aclose`, a read is BackendUnavailable on a second connection, too."""
    server = Closing(b"{}", lambda: Close.UNREAD)

    async def scenario(endpoint: Endpoint) -> None:
        await read(endpoint)
        await endpoint.aclose()
        with pytest.raises(BackendError):
            await read(endpoint)

    on(server, scenario)
    assert server.connections == 1
