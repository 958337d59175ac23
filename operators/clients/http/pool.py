"""The connections of one transport: pooled while they are in use, closed when idle, and known to be new or reused.

A server closes a connection that was idle, and its message may arrive after the next request has been sent. So the pool
gives up idle connections before servers do, and a request can be told to take a connection of its own, which no request
had before and none gets afterwards.

A request's extension MET tells how far it came. There are no redirects and no cookies.
"""

import asyncio
import math
import ssl
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from enum import Enum, auto
from functools import cached_property, partial
from time import monotonic
from typing import Final

import httpx

from operators.clients.http.connection import Connection
from operators.runtime.turns import WaitQueue

OWN_CONNECTION: Final = "own_connection"
"""The extension of an `httpx.Request` that asks for a connection of its own."""

MET: Final = "met"
"""The extension of an `httpx.Request` that tells how far it came."""

_PORTS: Final = {b"http": 80, b"https": 443}

Origin = tuple[bytes, bytes, int | None]
"""Scheme, host and port, None for the scheme's own."""


class Met(Enum):
    """The progress of a request."""

    NO_POOL = auto()
    NO_CONNECTION = auto()
    NEW_CONNECTION = auto()
    REUSED_CONNECTION = auto()


class PooledTransport(httpx.AsyncBaseTransport):
    """Used on one event loop.

    A connection that was idle for `keep_alive` seconds isn't used again. `max_connections` bounds the pool, 0 is no
    bound; connections of their own are beyond it.
    """

    def __init__(self, *, max_connections: int, keep_alive: float, verify: ssl.SSLContext | bool) -> None:
        self._max_connections = max_connections
        self._keep_alive = keep_alive
        self._verify = verify
        self._idle: dict[Origin, list[Connection]] = {}
        self._open: set[Connection] = set()
        self._pooled = 0
        self._waiting = WaitQueue()
        self._sweep: asyncio.TimerHandle | None = None
        self._closed = False

    def __repr__(self) -> str:
        idle = sum(map(len, self._idle.values()))
        return f"<PooledTransport: {len(self._open)} open, {idle} idle, {len(self._waiting)} requests wait>"

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        own = bool(request.extensions.get(OWN_CONNECTION))
        # As it is on the wire: to decode it costs more than all else that finds a pooled connection.
        origin = request.url.raw_scheme, request.url.raw_host, request.url.port
        request.extensions[MET] = Met.NO_CONNECTION
        connection = await (self._connect(origin) if own else self._acquire(origin))
        request.extensions[MET] = Met.REUSED_CONNECTION if connection.reused else Met.NEW_CONNECTION
        try:
            answer = await connection.exchange(request)
        except BaseException:
            self._release(origin, connection, own)
            raise
        body = _Body(connection.body(answer), partial(self._release, origin, connection, own))
        return httpx.Response(answer.status, headers=answer.headers, stream=body)

    async def aclose(self) -> None:
        self._closed = True
        self._idle.clear()
        if self._sweep is not None:
            self._sweep.cancel()
        for connection in list(self._open):
            connection.abort()
        self._waiting.wake(math.inf)
        # For the connections to be gone when this returns.
        await asyncio.sleep(0)

    async def _acquire(self, origin: Origin) -> Connection:
        while not self._closed:
            idle = self._idle.get(origin, [])
            while idle:
                connection = idle.pop()
                if connection.usable and monotonic() - connection.idle_since < self._keep_alive:
                    return connection
                self._discard(connection)
            if not self._max_connections or self._pooled < self._max_connections:
                self._pooled += 1
                try:
                    return await self._connect(origin)
                except BaseException:
                    self._vacate()
                    raise
            # An idle connection to another server makes room.
            if (others := next(filter(None, self._idle.values()), None)) is not None:
                self._discard(others.pop(0))
            else:
                await self._waiting.wait()
        raise httpx.ConnectError("the transport is closed")

    async def _connect(self, origin: Origin) -> Connection:
        scheme, host, port = origin
        tls = self._context if scheme == b"https" else None
        loop = asyncio.get_running_loop()
        if self._closed:
            raise httpx.ConnectError("the transport is closed")
        try:
            _, connection = await loop.create_connection(
                lambda: Connection(self._open.discard), host.decode("ascii"), port or _PORTS[scheme], ssl=tls
            )
        except OSError as error:
            raise httpx.ConnectError("no connection") from error
        self._open.add(connection)
        if self._closed:
            connection.abort()
            raise httpx.ConnectError("the transport was closed")
        return connection

    def _release(self, origin: Origin, connection: Connection, own: bool) -> None:
        again = connection.release()
        if own:
            connection.abort()
        elif again and not self._closed:
            connection.idle_since = monotonic()
            self._idle.setdefault(origin, []).append(connection)
            self._waiting.wake()
            if self._sweep is None:
                self._sweep = asyncio.get_running_loop().call_later(self._keep_alive, self._close_idle)
        else:
            self._vacate()

    def _discard(self, connection: Connection) -> None:
        connection.abort()
        self._vacate()

    def _vacate(self) -> None:
        self._pooled -= 1
        self._waiting.wake()

    def _close_idle(self) -> None:
        self._sweep = None
        oldest = monotonic() - self._keep_alive
        for origin, idle in list(self._idle.items()):
            fresh = [each for each in idle if each.usable and each.idle_since > oldest]
            self._idle[origin] = fresh
            for each in set(idle).difference(fresh):
                self._discard(each)
        if first := min((each.idle_since for idle in self._idle.values() for each in idle), default=None):
            delay = max(first - oldest, 0.0)
            self._sweep = asyncio.get_running_loop().call_later(delay, self._close_idle)

    @cached_property
    def _context(self) -> ssl.SSLContext:
        # It takes 80 ms: only where it is used.
        if isinstance(self._verify, ssl.SSLContext):
            return self._verify
        context = ssl.create_default_context()
        if not self._verify:
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
        return context


@dataclass(slots=True, eq=False)
class _Body(httpx.AsyncByteStream):
    """An answer's body; closing it gives its connection back."""

    chunks: AsyncIterator[bytes]
    release: Callable[[], None]

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self.chunks

    async def aclose(self) -> None:
        self.release()
