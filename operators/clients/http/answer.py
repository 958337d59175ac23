"""One HTTP/1.1 answer as llhttp reads it: bytes in, a status, headers and a body out, and nothing of sockets.

Informational answers (1xx) and trailers are passed over. What breaks the framing is NotHttp, and so is an answer with
too much beside its body: more than LONGEST_HEAD bytes of fields (informational answers and trailers included), or of
framing that no body pays for. A body without a length ends with its connection.
"""

from typing import Final

import httpx
from httptools import HttpParserError, HttpParserUpgrade, HttpResponseParser

LONGEST_HEAD: Final = 64 * 1024

_FIELD: Final = 4
"""Bytes of a field beside its name and value."""

_PAID: Final = 8
"""Bytes of framing that each byte of a body pays for: a chunk of one byte has five."""

_TLS_ALERT: Final = b"\x15\x03"
"""How a TLS record begins by which a server refuses what isn't TLS."""

_SWITCHING: Final = 101

_BODILESS: Final = frozenset({204, 304})


class NotHttp(httpx.RemoteProtocolError):
    """What came isn't an HTTP answer; `alert`: it is a TLS alert."""

    def __init__(self, *, alert: bool = False) -> None:
        super().__init__("not an HTTP answer")
        self.alert = alert


class Answer:
    """What has come of one answer.

    `begun`: a byte of it has come; `complete`: all of it has. `last`: no other answer can follow on its connection.
    `size` is that of the `chunks` of the body, which are there to be taken.
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
        self._beside = 0
        self._body = 0
        self._in_body = False
        self._informational = False
        self._until_end = True

    @property
    def refused(self) -> bool:
        """Whether the status is there, and is no success."""
        return self._in_body and not httpx.codes.is_success(self.status)

    def feed(self, data: bytes) -> None:
        """Take what came. Raises NotHttp."""
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
        self._beside = max(self._beside + len(data) - (1 + _PAID) * (self._body - before), 0)
        if self._beside > LONGEST_HEAD:
            self.last = True
            if not self.complete:
                raise NotHttp

    def end(self) -> bool:
        """The connection has ended; whether the answer is complete with that."""
        if self._in_body and self._until_end:
            self.complete = True
        return self.complete

    def take(self) -> bytes:
        """What is there of the body, and was not taken."""
        chunk = self.chunks[0] if len(self.chunks) == 1 else b"".join(self.chunks)
        self.chunks, self.size = [], 0
        return chunk

    def on_message_begin(self) -> None:
        """Of httptools: of a second answer to one request, too."""
        self.last = self.complete

    def on_header(self, name: bytes, value: bytes) -> None:
        """Of httptools."""
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
        """Of httptools."""
        if self.complete:
            return
        self.status = self._parser.get_status_code()
        self._informational = self.status // 100 == 1 and self.status != _SWITCHING
        self._in_body = not self._informational

    def on_body(self, body: bytes) -> None:
        """Of httptools."""
        if not self.complete:
            self.chunks.append(body)
            self.size += len(body)
            self._body += len(body)

    def on_message_complete(self) -> None:
        """Of httptools."""
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
