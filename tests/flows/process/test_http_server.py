"""The server of probes and browsers: no client fills it up."""

import socket
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from http.client import HTTPConnection

import pytest

from flows.process.http_server import HEAD, MOST, BoundedHandler, BoundedServer

WITHIN = 20.0
BEGINNINGS = {
    "silence": b"",
    "a request line": b"GET / HT",
    "a header": b"GET / HTTP/1.1\r\nX-A: b",
    "a body": b"POST / HTTP/1.1\r\nContent-Length: 100000\r\n\r\nx",
}


class Handler(BoundedHandler):
    """Answers when the request is there."""

    timeout = 0.2

    def do_GET(self) -> None:  # noqa: N802  the name is the library's
        """A probe."""
        self.wfile.write(b"HTTP/1.0 200 OK\r\n\r\nwell")

    def do_POST(self) -> None:  # noqa: N802  the name is the library's
        """A search."""
        self.wfile.write(b"HTTP/1.0 200 OK\r\n\r\n%d" % len(self.rfile.read(int(self.headers["content-length"]))))


@contextmanager
def serving(handler: type[BoundedHandler]) -> Iterator[int]:
    """The port of a server."""
    with BoundedServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield server.server_address[1]
        finally:
            server.shutdown()
            thread.join()


def probe(port: int) -> bytes:
    """The answer to a request that comes at once."""
    with closing(HTTPConnection("127.0.0.1", port, timeout=WITHIN)) as connection:
        connection.request("GET", "/")
        return connection.getresponse().read()


def ended(connection: socket.socket) -> bool:
    """True if the server has closed it, without an answer, within a moment."""
    connection.settimeout(0.01)
    try:
        said = connection.recv(1)
    except TimeoutError:
        return False
    except ConnectionError:
        return True
    assert said == b""
    return True


@pytest.mark.parametrize("beginning", BEGINNINGS)
def test_a_request_has_a_total_time(beginning: str) -> None:
    """A client that sends a byte every hundredth of a second, well within the time of a silence, is closed as well."""
    with serving(Handler) as port, socket.create_connection(("127.0.0.1", port)) as dripping:
        dripping.sendall(BEGINNINGS[beginning])
        until = time.monotonic() + WITHIN
        with suppress(ConnectionError):
            while not ended(dripping):
                assert time.monotonic() < until
                dripping.sendall(b"x")
        assert probe(port) == b"well"


class Patient(Handler):
    """Waits for longer than the test."""

    timeout = 10 * WITHIN


@pytest.mark.parametrize("beginning", BEGINNINGS)
def test_connections_do_not_add_up(beginning: str) -> None:
    """Beyond MOST the oldest is closed, whatever it was at, and one that asks at once is answered."""
    before = threading.active_count()
    with serving(Patient) as port, ExitStack() as stack:
        connections = []
        for _ in range(2 * MOST):
            connections.append(stack.enter_context(socket.create_connection(("127.0.0.1", port), WITHIN)))
            connections[-1].sendall(BEGINNINGS[beginning])
        assert probe(port) == b"well"
        # The server's own thread beside those of connections.
        assert threading.active_count() - before <= MOST + 1
        for old in connections[:MOST]:
            old.settimeout(WITHIN)
            with suppress(ConnectionError):
                assert old.recv(1) == b""
        assert not ended(connections[-1])


def test_what_is_computed_does_not_add_up() -> None:
    """Answers that take long hold their places: nobody gets a thread beyond them, and all is well afterwards."""
    go = threading.Event()

    class Slow(Patient):
        def do_POST(self) -> None:  # noqa: N802  the name is the library's
            go.wait(WITHIN)

    before = threading.active_count()
    with serving(Slow) as port, ExitStack() as stack:
        for _ in range(MOST + 2):
            slow = stack.enter_context(socket.create_connection(("127.0.0.1", port), WITHIN))
            slow.sendall(b"POST / HTTP/1.1\r\n\r\n")
        with pytest.raises((ConnectionError, TimeoutError)):
            probe(port)
        assert threading.active_count() - before <= MOST + 1
        go.set()
        assert probe(port) == b"well"


def test_a_request_has_a_size(capfd: pytest.CaptureFixture[str]) -> None:
    """Headers beyond HEAD bytes are no request, and nothing is printed of them."""
    request = b"GET / HTTP/1.1\r\n" + b"X-A: %b\r\n" % (b"a" * 1000) * (HEAD // 1000 + 20) + b"\r\n"
    with (
        serving(Patient) as port,
        socket.create_connection(("127.0.0.1", port), WITHIN) as large,
        suppress(ConnectionError),
    ):
        large.sendall(request)
        assert large.recv(1) == b""
    assert capfd.readouterr().err == ""


def test_a_client_that_reads_nothing_is_left() -> None:
    """An answer that nobody reads has a time as well."""
    over = threading.Event()

    class Long(Handler):
        def do_GET(self) -> None:  # noqa: N802  the name is the library's
            try:
                self.wfile.write(bytes(64 << 20))
            except TimeoutError:
                over.set()

    with serving(Long) as port, socket.create_connection(("127.0.0.1", port), WITHIN) as deaf:
        deaf.sendall(b"GET / HTTP/1.1\r\n\r\n")
        assert over.wait(WITHIN)
