"""One HTTP/1.1 connection: requests and answers by turns.

What a connection promises:
- an exchange has its answer when all of it is there, or as soon as the status is no success, or when more than WINDOW
  bytes of the body wait: then no more is read from the socket until they are taken;
- an exchange that can't have its answer ends in an httpx.TransportError: `SilentEnd` if the connection broke before a
  byte of it came, `NotHttp` if what came isn't HTTP, httpx.ReadError otherwise;
- it can be used again after an answer that came whole and kept to its bounds, whose request was sent whole, that
  neither side said to be the last one, and behind which nothing came. What comes unasked closes it, and what waits
  unread makes it unusable: HTTP/1.1 would take it for the answer to the next request.
"""

import asyncio
import select
from collections.abc import AsyncIterator, Callable
from typing import Final, cast

import httpx

from operators.clients.http.answer import Answer, NotHttp

WINDOW: Final = 256 * 1024
"""Bytes of a body that wait to be taken at most, but for what one reading brings."""

_JOINED: Final = 128 * 1024
"""Up to this size a body is written together with its head: one write costs less than two, and a copy still less."""


_WITHOUT_BODY: Final = frozenset({"GET", "HEAD"})


class SilentEnd(httpx.ReadError):
    """The connection broke before a byte of the answer came."""


class Connection(asyncio.Protocol):
    """Tells `lost` when it has broken or was closed; `reused`: a request has been answered on it."""

    def __init__(self, lost: "Callable[[Connection], None]") -> None:
        self.reused = False
        self.idle_since = 0.0
        self._lost = lost
        self._transport: asyncio.Transport | None = None
        self._answer: Answer | None = None
        self._error: httpx.TransportError | None = None
        self._wake: asyncio.Future[None] | None = None
        self._paused = False
        self._unread = select.poll()

    @property
    def usable(self) -> bool:
        """True if it can take a request now: it is idle, and its socket has neither bytes to read nor an end."""
        idle = self._answer is None and self._transport is not None and not self._transport.is_closing()
        return idle and not self._unread.poll(0)

    async def exchange(self, request: httpx.Request) -> Answer:
        """Send a request and return its answer, as far as it has come. Raises httpx.TransportError."""
        transport = self._transport
        if transport is None or transport.is_closing():
            raise SilentEnd("closed")
        self._answer = answer = Answer()
        head, body = _head(request), request.content
        if len(body) <= _JOINED:
            transport.write(head + body)
        else:
            transport.write(head)
            transport.write(body)
        await self._change(answer)
        return answer

    def release(self) -> bool:
        """The exchange is over; whether the connection can be used again. If not, it is closed."""
        transport, answer = self._transport, self._answer
        self._answer = None
        self.reused = (
            transport is not None
            and answer is not None
            and answer.complete
            and not answer.last
            and self._error is None
            and not transport.is_closing()
            and not transport.get_write_buffer_size()
        )
        if not self.reused:
            self.abort()
        return self.reused

    def abort(self) -> None:
        """Close it at once."""
        if self._transport is not None:
            self._transport.abort()

    async def body(self, answer: Answer) -> AsyncIterator[bytes]:
        """The answer's body, as it comes. Raises httpx.TransportError."""
        while True:
            if answer.chunks:
                chunk = answer.take()
                self._read_on()
                yield chunk
            elif answer.complete:
                return
            else:
                await self._change(answer)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Of asyncio.Protocol."""
        # Not every loop's transports are of asyncio's class.
        self._transport = cast("asyncio.Transport", transport)
        # The loop tells of bytes at its next turn only. A request would be sent before.
        self._unread.register(transport.get_extra_info("socket").fileno(), select.POLLIN)

    def data_received(self, data: bytes) -> None:
        """Of asyncio.Protocol."""
        answer = self._answer
        if answer is None:
            # Nobody asked for it.
            self.abort()
            return
        if answer.complete:
            answer.last = True
            return
        try:
            answer.feed(data)
        except NotHttp as error:
            self._error = error
        if answer.complete or answer.refused or self._error is not None:
            self._notify()
        elif answer.size > WINDOW and not self._paused and self._transport is not None:
            self._paused = True
            self._transport.pause_reading()
            self._notify()

    def connection_lost(self, _: Exception | None) -> None:
        """Of asyncio.Protocol."""
        self._transport = None
        answer = self._answer
        if answer is not None and not answer.complete and not answer.end():
            self._error = self._error or (httpx.ReadError("broken") if answer.begun else SilentEnd("closed"))
        self._notify()
        self._lost(self)

    async def _change(self, answer: Answer) -> None:
        """Return when the answer has more to take, or is at its end. Raises what ended it."""
        if not (answer.complete or answer.chunks or self._error):
            self._wake = asyncio.get_running_loop().create_future()
            try:
                await self._wake
            finally:
                self._wake = None
        if self._error is not None:
            raise self._error

    def _notify(self) -> None:
        if self._wake is not None and not self._wake.done():
            self._wake.set_result(None)

    def _read_on(self) -> None:
        if self._paused and self._transport is not None and not self._transport.is_closing():
            self._paused = False
            self._transport.resume_reading()


def _head(request: httpx.Request) -> bytes:
    headers = request.headers.raw
    lines = [b"%b %b HTTP/1.1" % (request.method.encode("ascii"), request.url.raw_path)]
    lines += [b"%b: %b" % header for header in headers]
    size = len(request.content)
    sized = any(name.lower() == b"content-length" for name, _ in headers)
    if not sized and (size or request.method not in _WITHOUT_BODY):
        lines.append(b"content-length: %d" % size)
    return b"\r\n".join((*lines, b"", b""))
