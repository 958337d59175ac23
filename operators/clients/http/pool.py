"""The connections of one transport: pooled while they are in use, given up when idle, and known to be new or reused.

A server closes a connection that was idle, and its message may arrive after the next request has been sent. So the pool
gives up idle connections before servers do, and a request can be told to take a connection of its own, which no request
had before and none gets afterwards.

`met` tells what the latest request of this task met: whoever sends a request in the same task reads it afterwards.
"""

import asyncio
import ssl
from contextvars import ContextVar
from enum import Enum, auto
from typing import TYPE_CHECKING, Final
from weakref import WeakSet

import aiohttp
import httpx
from aiohttp.client_proto import ResponseHandler
from httpx_aiohttp import AiohttpTransport

if TYPE_CHECKING:
    from aiohttp.client_reqrep import ClientRequest
    from aiohttp.connector import Connection
    from aiohttp.tracing import Trace

OWN_CONNECTION: Final = "own_connection"
"""The extension of an `httpx.Request` that asks for a connection of its own."""


_LARGE: Final = 1024 * 1024


class Met(Enum):
    """How far a request came."""

    NO_POOL = auto()
    NO_CONNECTION = auto()
    NEW_CONNECTION = auto()
    REUSED_CONNECTION = auto()


met: Final[ContextVar[Met]] = ContextVar("met", default=Met.NO_POOL)


class _Pool(aiohttp.TCPConnector):
    """Says in `met` what connection a request got."""

    def __init__(self, *, keep_alive: float | None, max_connections: int, verify: ssl.SSLContext | bool) -> None:
        if keep_alive is None:
            super().__init__(limit=max_connections, ssl=verify, force_close=True)
        else:
            super().__init__(limit=max_connections, ssl=verify, keepalive_timeout=keep_alive)
        self._taken: WeakSet[ResponseHandler] = WeakSet()

    async def connect(
        self, req: "ClientRequest", traces: "list[Trace]", timeout: aiohttp.ClientTimeout
    ) -> "Connection":
        met.set(Met.NO_CONNECTION)
        connection = await super().connect(req, traces, timeout)
        protocol = connection.protocol
        assert protocol is not None
        if protocol in self._taken:
            met.set(Met.REUSED_CONNECTION)
        else:
            met.set(Met.NEW_CONNECTION)
            self._taken.add(protocol)
        return connection


class _Answer(aiohttp.ClientResponse):
    """An answer without its reason phrase: httpx-aiohttp fails on one that isn't UTF-8 and leaks the connection."""

    async def start(self, connection: "Connection") -> aiohttp.ClientResponse:
        await super().start(connection)
        self.reason = None
        return self


class PooledTransport(AiohttpTransport):
    """Opened at its first request, on the loop that makes it.

    A connection that was idle for `keep_alive` seconds isn't used again. `max_connections` bounds the pool, 0 is no
    bound; connections of their own are beyond it.
    """

    def __init__(self, *, max_connections: int, keep_alive: float, verify: ssl.SSLContext | bool) -> None:
        def session(keep_alive: float | None, max_connections: int) -> aiohttp.ClientSession:
            connector = _Pool(keep_alive=keep_alive, max_connections=max_connections, verify=verify)
            jar = aiohttp.DummyCookieJar()
            return aiohttp.ClientSession(connector=connector, cookie_jar=jar, response_class=_Answer)

        # `verify` would build a second TLS context, in 80 ms, for connections that these transports never open.
        super().__init__(client=lambda: session(keep_alive, max_connections), verify=False)
        self._unpooled = AiohttpTransport(client=lambda: session(None, 0), verify=False)

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Send one request. Raises httpx.TransportError, aiohttp.ClientError and OSError."""
        own = request.extensions.get(OWN_CONNECTION)
        if len(request.content) > _LARGE:
            # aiohttp warns of large bodies given as bytes.
            body = httpx.ByteStream(request.content)
            request = httpx.Request(request.method, request.url, headers=request.headers, stream=body)
        if self._closed():
            raise httpx.ConnectError("the transport is closed")
        try:
            if own:
                return await self._unpooled.handle_async_request(request)
            return await super().handle_async_request(request)
        except asyncio.CancelledError:
            # A closing pool cancels those that wait for a connection; their tasks were not cancelled.
            task = asyncio.current_task()
            if self._closed() and task is not None and not task.cancelling():
                raise httpx.ConnectError("the transport was closed") from None
            raise

    async def aclose(self) -> None:
        """Close all connections."""
        await super().aclose()
        await self._unpooled.aclose()

    def _closed(self) -> bool:
        return isinstance(self.client, aiohttp.ClientSession) and self.client.closed
