"""A server in working order that closes connections as real ones do: when idle, or when a request is on its way."""

import asyncio
import re
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import Final

from tests.operators.clients.http.serving import speaking

_LENGTH: Final = re.compile(rb"content-length: (\d+)", re.IGNORECASE)


class Close(Enum):
    """The moment at which a server closes a connection on which it has answered already."""

    NEVER = auto()
    UNREAD = auto()
    HEADERS_READ = auto()
    REQUEST_READ = auto()
    ANSWER_BEGUN = auto()


@dataclass
class Closing:
    """Answers every request with `body`, and closes an old connection by `when`, or when it was idle for `idle` s.

    A connection's first request is always waited for and answered: the server is in working order.
    """

    body: bytes
    when: Callable[[], Close] = lambda: Close.NEVER
    idle: float | None = None
    requests: list[bytes] = field(default_factory=list)
    connections: int = 0
    closed: int = 0

    @asynccontextmanager
    async def served(self) -> AsyncIterator[str]:
        """Serve; gives the base URL."""
        async with speaking(self._connection) as url:
            yield url

    async def _connection(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        answered = 0
        while await self._answered(reader, writer, *((self.when(), self.idle) if answered else (Close.NEVER, None))):
            answered += 1
        self.closed += 1

    async def _answered(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, close: Close, idle: float | None
    ) -> bool:
        first = await _within(idle, reader.read(1))
        if not first or close is Close.UNREAD:
            return False
        head = first + await reader.readuntil(b"\r\n\r\n")
        self.requests.append(head.partition(b"\r\n")[0])
        if close is Close.HEADERS_READ:
            return False
        length = _LENGTH.search(head)
        await reader.readexactly(int(length[1]) if length else 0)
        if close is Close.REQUEST_READ:
            return False
        answer = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%b" % (len(self.body), self.body)
        writer.write(answer[: len(answer) // 2] if close is Close.ANSWER_BEGUN else answer)
        await writer.drain()
        return close is not Close.ANSWER_BEGUN


async def _within(idle: float | None, reading: Coroutine[None, None, bytes]) -> bytes:
    try:
        return await asyncio.wait_for(reading, idle)
    except TimeoutError:
        return b""
