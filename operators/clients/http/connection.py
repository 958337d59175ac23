"""One HTTP/1.1 connection: requests and answers by turns, the answers read by llhttp.

Informational answers (1xx) and trailers are passed over. Broken framing is NotHttp, and so is an answer with too much
around its body: more than LONGEST_HEAD bytes of fields (informational answers and trailers included), or of framing
that no body pays for. A body without a length ends with its connection.

- an exchange has its answer when all of it is there, or as soon as the status is no success, or when more than WINDOW
  bytes of the body wait to be taken;
- an exchange that can't have its answer ends in an httpx.TransportError: `SilentEnd` if the connection broke before a
  byte of it came, `NotHttp` if the bytes aren't HTTP, httpx.ReadError otherwise;
- it can be used again after an answer that came whole and kept to its bounds, whose request was sent whole, that
  neither side said to be the last one, and behind which nothing came. Unrequested bytes close it, and unread bytes make
  it unusable: HTTP/1.1 would take them for the answer to the next request.
"""

import asyncio
import select
from collections.abc import AsyncIterator, Callable
from typing import Final, cast

import httpx
from httptools import HttpParserError, HttpParserUpgrade, HttpResponseParser

LONGEST_HEAD: Final = 64 * 1024

_FIELD: Final = 4
"""Bytes of a field over its name and value."""

_PAID: Final = 8
"""Bytes of framing that each byte of a body pays for: a chunk of one byte has five."""

_TLS_ALERT: Final = b"\x15\x03"
"""The beginning of the TLS record by which a server refuses bytes that aren't TLS."""

_SWITCHING: Final = 101

_BODILESS: Final = frozenset({204, 304})


class NotHttp(httpx.RemoteProtocolError):
    """The bytes that came aren't an HTTP answer; `alert`: they are a TLS alert."""

    def __init__(self, *, alert: bool = False) -> None:
        super().__init__("not an HTTP answer")
        self.alert = alert


class HttpAnswer:
    """One answer, as far as it has come: `begun`, a byte of it has; `complete`, all of it has.

    `last`: no other answer can follow on its connection. `size` is that of the body's `chunks`, which `take` gives.
    """

    def __init__(self) -> None:
        self.status = 0
        self.headers: list[tuple[bytes, bytes]] = []
        self.chunks: list[bytes] = []
        self.size = 0
        self.begun = False
        self.complete = False
        self.last = False
        self._parser = HttpResponseParser(self)
        self._fields = 0
        self._framing = 0
        self._body = 0
        self._in_body = False
        self._informational = False
        self._until_end = True

    @property
    def refused(self) -> bool:
        """True once the status has come and is no success."""
        return self._in_body and not httpx.codes.is_success(self.status)

    def feed(self, data: bytes) -> None:
        """Read bytes of the answer. Raises NotHttp."""
        if not self.begun and data.startswith(_TLS_ALERT):
            raise NotHttp(alert=True)
        self.begun = True
        before = self._body
        try:
            self._parser.feed_data(data)
        except HttpParserUpgrade:
            self.last = True
        except HttpParserError:
            self.last = True
            if not self.complete:
                raise NotHttp from None
        # Whole fields are counted one by one. This bounds the rest: chunks' extensions, reasons, fields without an end.
        self._framing = max(self._framing + len(data) - (1 + _PAID) * (self._body - before), 0)
        if self._framing > LONGEST_HEAD:
            self.last = True
            if not self.complete:
                raise NotHttp

    def end(self) -> bool:
        """The connection has ended; return True if the answer is complete with that."""
        if self._in_body and self._until_end:
            self.complete = True
        return self.complete

    def take(self) -> bytes:
        """The bytes of the body that came since the last call."""
        chunk = self.chunks[0] if len(self.chunks) == 1 else b"".join(self.chunks)
        self.chunks, self.size = [], 0
        return chunk

    def close(self) -> None:
        """Read no more. The parser holds the answer: together they would stay until garbage is collected."""
        del self._parser

    def on_message_begin(self) -> None:
        # Also of a second answer to one request.
        self.last = self.complete

    def on_header(self, name: bytes, value: bytes) -> None:
        if self.complete:
            return
        self._fields += len(name) + len(value) + _FIELD
        if self._fields > LONGEST_HEAD:
            # The parser stops.
            raise NotHttp
        if self._in_body:
            # A trailer: what frames or describes a body must not come after it.
            return
        name = name.lower()
        if name in {b"content-length", b"transfer-encoding"}:
            self._until_end = False
        self.headers.append((name, value))

    def on_headers_complete(self) -> None:
        if self.complete:
            return
        self.status = self._parser.get_status_code()
        self._informational = self.status // 100 == 1 and self.status != _SWITCHING
        self._in_body = not self._informational

    def on_body(self, body: bytes) -> None:
        if not self.complete:
            self.chunks.append(body)
            self.size += len(body)
            self._body += len(body)

    def on_message_complete(self) -> None:
        if self.complete:
            return
        if self._informational:
            self.headers, self._until_end = [], True
            return
        parser = self._parser
        # Only HTTP/1.1 says for sure where an answer ends. A length without a body may announce one that comes later.
        unsure = parser.get_http_version() != "1.1" or (self.status in _BODILESS and not self._until_end)
        self.last = self.last or unsure or not parser.should_keep_alive()
        self.complete = True


WINDOW: Final = 256 * 1024
"""Bytes of a body from which on it is taken before all of it is there."""

_JOINED: Final = 128 * 1024
"""Up to this size a body is written together with its head: one write costs less than two, and a copy still less."""


_WITHOUT_BODY: Final = frozenset({"GET", "HEAD"})


class SilentEnd(httpx.ReadError):
    """The connection broke before a byte of the answer came."""


class Connection(asyncio.Protocol):
    """Calls `lost` when it has broken or was closed; `reused`: a request has been answered on it."""

    def __init__(self, lost: "Callable[[Connection], None]") -> None:
        self.reused = False
        self.idle_since = 0.0
        self._lost = lost
        self._transport: asyncio.Transport | None = None
        self._answer: HttpAnswer | None = None
        self._error: httpx.TransportError | None = None
        self._wake: asyncio.Future[None] | None = None
        self._unread = select.poll()

    @property
    def usable(self) -> bool:
        """True if it can take a request now: it is idle, and its socket has neither bytes to read nor an end."""
        idle = self._answer is None and self._transport is not None and not self._transport.is_closing()
        return idle and not self._unread.poll(0)

    async def exchange(self, request: httpx.Request) -> HttpAnswer:
        """Send a request and return its answer, as far as it has come. Raises httpx.TransportError."""
        transport = self._transport
        if transport is None or transport.is_closing():
            raise SilentEnd("closed")
        self._answer = answer = HttpAnswer()
        head, body = _head(request), request.content
        if len(body) <= _JOINED:
            transport.write(head + body)
        else:
            transport.write(head)
            transport.write(body)
        await self._change(answer)
        return answer

    def release(self) -> bool:
        """End the exchange; return True if the connection can be used again. If not, it is closed."""
        transport, answer = self._transport, self._answer
        self._answer = None
        if answer is not None:
            answer.close()
        answered = answer is not None and answer.complete and not answer.last and self._error is None
        writable = transport is not None and not transport.is_closing() and not transport.get_write_buffer_size()
        self.reused = answered and writable
        if not self.reused:
            self.abort()
        return self.reused

    def abort(self) -> None:
        if self._transport is not None:
            self._transport.abort()

    async def body(self, answer: HttpAnswer) -> AsyncIterator[bytes]:
        """The answer's body, as it comes. Raises httpx.TransportError."""
        while True:
            if answer.chunks:
                yield answer.take()
            elif answer.complete:
                return
            else:
                await self._change(answer)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # Not every loop's transports are of asyncio's class.
        self._transport = cast("asyncio.Transport", transport)
        # The loop notices bytes at its next iteration only. A request would be sent before.
        self._unread.register(transport.get_extra_info("socket").fileno(), select.POLLIN)

    def data_received(self, data: bytes) -> None:
        answer = self._answer
        if answer is None:
            self.abort()
            return
        if answer.complete:
            answer.last = True
            return
        try:
            answer.feed(data)
        except NotHttp as error:
            self._error = error
        if answer.complete or answer.refused or self._error is not None or answer.size > WINDOW:
            self._notify()

    def connection_lost(self, _: Exception | None) -> None:
        self._transport = None
        answer = self._answer
        if answer is not None and not answer.complete and not answer.end():
            self._error = self._error or (httpx.ReadError("broken") if answer.begun else SilentEnd("closed"))
        self._notify()
        self._lost(self)

    async def _change(self, answer: HttpAnswer) -> None:
        """Return when the answer has more to take, or is at its end. Raises httpx.TransportError."""
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


def _head(request: httpx.Request) -> bytes:
    headers = request.headers.raw
    lines = [b"%b %b HTTP/1.1" % (request.method.encode("ascii"), request.url.raw_path)]
    lines += [b"%b: %b" % header for header in headers]
    size = len(request.content)
    if b"content-length" not in map(bytes.lower, dict(headers)) and (size or request.method not in _WITHOUT_BODY):
        lines.append(b"content-length: %d" % size)
    return b"\r\n".join((*lines, b"", b""))
