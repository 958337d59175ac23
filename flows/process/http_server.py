"""A small HTTP server for probes and browsers, which no client can fill up.

- A request has a total time to arrive, and a size: a client that sends a byte now and then is no better than a silent
  one.
- It serves MOST connections at a time, each on a thread. One more takes the place of the oldest, which is closed:
  a client that sends its request at once is answered, even while others fill all slots with incomplete requests.
"""

import io
import logging
import socket
import sys
import threading
import time
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, ClassVar, Final

log = logging.getLogger(__name__)

MOST: Final = 32
"""Connections at a time."""

HEAD: Final = 64 * 1024
"""Bytes of a request without its body."""

_PATIENCE: Final = 1.0
"""Seconds that one more connection waits for the oldest one's thread to end."""


class BoundedServer(ThreadingHTTPServer):
    """Serves by a handler, which is to be a BoundedHandler."""

    # A request under way does not keep the process.
    daemon_threads = True
    request_queue_size = MOST

    def __init__(self, address: tuple[str, int], handler: "type[BoundedHandler]") -> None:
        """Listen. Raises OSError if that is not possible."""
        self._slots = threading.BoundedSemaphore(MOST)
        self._open: dict[Any, None] = {}
        super().__init__(address, handler)

    def process_request(self, request: Any, client_address: Any) -> None:
        """Of socketserver: serve a connection on a thread, in the place of the oldest one if all are taken."""
        if not self._slots.acquire(blocking=False):
            self._close_oldest()
            if not self._slots.acquire(timeout=_PATIENCE):
                self.shutdown_request(request)
                return
        self._open[request] = None
        try:
            super().process_request(request, client_address)
        except BaseException:
            self._slots.release()
            raise

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        """Of socketserver."""
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._slots.release()

    def shutdown_request(self, request: Any) -> None:
        """Of socketserver."""
        self._open.pop(request, None)
        super().shutdown_request(request)

    def handle_error(self, request: Any, client_address: Any) -> None:  # noqa: ARG002  the signature is the library's
        """Log what ended a request; a client that went away in the middle of one is not news."""
        if not isinstance(error := sys.exception(), ConnectionError):
            log.error("a request failed: %s", type(error).__name__)

    def _close_oldest(self) -> None:
        oldest = next(iter(self._open), None)
        # Its thread may have closed it in the meantime.
        with suppress(OSError):
            if oldest is not None:
                self._open.pop(oldest, None)
                oldest.shutdown(socket.SHUT_RDWR)


class BoundedHandler(BaseHTTPRequestHandler):
    """One request, which arrives within `timeout` seconds and is of HEAD bytes at most, or is not answered."""

    timeout: ClassVar[float] = 5.0

    def setup(self) -> None:
        """Of socketserver."""
        super().setup()
        self.rfile = io.BufferedReader(_Arriving(self.connection, self.timeout))

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
        """Requests are not news; and they may hold query texts."""


class _Arriving(io.RawIOBase):
    """The bytes of a request. Raises TimeoutError after its time, and ConnectionError beyond its size."""

    def __init__(self, connection: socket.socket, timeout: float) -> None:
        self._connection = connection
        self._timeout = timeout
        self._deadline = time.monotonic() + timeout
        self._left = HEAD

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        left = self._deadline - time.monotonic()
        if left <= 0:
            raise TimeoutError
        self._connection.settimeout(left)
        count = self._connection.recv_into(buffer)
        # Of an answer that is written.
        self._connection.settimeout(self._timeout)
        self._left -= count
        if self._left < 0:
            raise ConnectionAbortedError
        return count
