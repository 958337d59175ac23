"""A TCP proxy on loopback, between a client and its server, that misbehaves on demand."""

import asyncio
import random
import socket
import struct
import threading
from enum import StrEnum
from typing import Self

GARBAGE = random.Random(0).randbytes(256)
CHUNK = 65_536
STOP_TIMEOUT_S = 5.0


class Mode(StrEnum):
    """The proxy's treatment of bytes and connections."""

    PASS = "pass"  # forwards
    REFUSE = "refuse"  # nothing listens, and what was connected is reset
    HANG = "hang"  # takes every byte and answers none
    SLOW = "slow"  # forwards each chunk after `latency` seconds, in both directions
    GARBAGE = "garbage"  # answers each chunk with bytes of no protocol, and forwards none


FORWARDING = (Mode.PASS, Mode.SLOW)


class Proxy:
    """Forwards 127.0.0.1:`port` to one target, in a thread of its own, and switches modes for open connections too.

    A connection that lost bytes to `hang` or `garbage` is reset when forwarding resumes: no network makes such holes.
    """

    def __init__(self, target_host: str, target_port: int, latency: float = 0.2) -> None:
        self._target = (target_host, target_port)
        self._latency = latency
        self._mode = Mode.PASS
        self._connections: set[Connection] = set()
        self._listening: asyncio.Task[None] | None = None
        self._serving: set[asyncio.Task[None]] = set()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="proxy", daemon=True)
        # Bound and never listening: refuses while the listener is closed, and keeps the port for it.
        self._reserved = _bound(0)
        self.port: int = self._reserved.getsockname()[1]
        self.requests = 0
        """Chunks that clients have sent."""

    def switch(self, mode: str) -> None:
        """Change to the mode of that name; on return every connection, old or new, is treated by it."""
        asyncio.run_coroutine_threadsafe(self._switch(Mode(mode)), self._loop).result()

    def __enter__(self) -> Self:
        self._thread.start()
        self.switch(Mode.PASS)
        return self

    def __exit__(self, *_: object) -> None:
        self.switch(Mode.REFUSE)
        asyncio.run_coroutine_threadsafe(_others_end(), self._loop).result()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()
        self._reserved.close()

    async def _switch(self, mode: Mode) -> None:
        self._mode = mode
        for connection in list(self._connections):
            if mode is Mode.REFUSE or (mode in FORWARDING and connection.spoiled):
                connection.reset()
        if mode is Mode.REFUSE and self._listening is not None:
            self._listening.cancel()
            await asyncio.wait([self._listening])
            self._listening = None
        elif mode is not Mode.REFUSE and self._listening is None:
            listener = _bound(self.port)
            listener.listen()
            listener.setblocking(False)
            self._listening = asyncio.create_task(self._listen(listener))

    async def _listen(self, listener: socket.socket) -> None:
        # Not asyncio's server: closed while it accepts a connection, it leaves that one open and unserved.
        with listener:
            while True:
                client, _ = await asyncio.get_running_loop().sock_accept(listener)
                task = asyncio.create_task(self._serve(client))
                self._serving.add(task)
                task.add_done_callback(self._serving.discard)

    async def _serve(self, client: socket.socket) -> None:
        reader, writer = await asyncio.open_connection(sock=client)
        connection = Connection(writer)
        self._connections.add(connection)
        try:
            if self._mode is Mode.REFUSE:
                connection.reset()
            elif self._mode in FORWARDING:
                server_reader, connection.server = await asyncio.open_connection(*self._target)
                if writer.transport.is_closing():
                    connection.reset()
                await asyncio.gather(
                    self._pump(connection, reader, connection.server), self._pump(connection, server_reader, writer)
                )
            else:
                connection.spoiled = True
                await self._pump(connection, reader, None)
        except OSError:
            connection.reset()
        finally:
            self._connections.discard(connection)
            connection.close()

    async def _read(self, source: asyncio.StreamReader) -> bytes:
        """The next piece of what is sent; empty at the end."""
        return await source.read(CHUNK)

    async def _passed(self, connection: "Connection", chunk: bytes, *, answer: bool) -> bytes:
        """The forwarded part of a piece, a client's or an `answer`; may take its time, and break the connection."""
        return chunk

    async def _pump(
        self, connection: "Connection", source: asyncio.StreamReader, sink: asyncio.StreamWriter | None
    ) -> None:
        while chunk := await self._read(source):
            self.requests += sink is not connection.client
            if self._mode is Mode.SLOW:
                await asyncio.sleep(self._latency)
            # Read again: the mode may have changed while the chunk was held back.
            if self._mode in FORWARDING and sink is not None:
                sink.write(await self._passed(connection, chunk, answer=sink is connection.client))
                await sink.drain()
                continue
            connection.spoiled = True
            if self._mode is Mode.GARBAGE and sink is not connection.client:
                connection.client.write(GARBAGE)
                await connection.client.drain()
        if self._mode in FORWARDING and sink is not None:
            sink.write_eof()


class Connection:
    """One client's connection and, where there is one, the proxy's own to the target."""

    def __init__(self, client: asyncio.StreamWriter) -> None:
        self.client = client
        self.server: asyncio.StreamWriter | None = None
        self.spoiled = False

    def reset(self) -> None:
        """Break both ends off, with a RST to the client."""
        client: socket.socket = self.client.get_extra_info("socket")
        if client.fileno() >= 0:
            client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.client.transport.abort()
        if self.server is not None:
            self.server.transport.abort()

    def close(self) -> None:
        """Close both ends once what was written is sent."""
        self.client.close()
        if self.server is not None:
            self.server.close()


def _bound(port: int) -> socket.socket:
    bound = socket.socket()
    bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    bound.bind(("127.0.0.1", port))
    return bound


async def _others_end() -> None:
    # Not cancelled: asyncio logs the cancellation of a connection's task as an error.
    if others := asyncio.all_tasks() - {asyncio.current_task()}:
        await asyncio.wait(others, timeout=STOP_TIMEOUT_S)
