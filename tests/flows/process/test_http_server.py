"""The server of probes and browsers: no client fills it up."""

import asyncio
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from http.client import HTTPConnection
from typing import Any

import pytest

from flows.process.http_server import HEAD, MOST, HttpServer, ServedConnection

WITHIN = 20.0
BEGINNINGS = {
    "silence": b"",
    "a request line": b"GET / HT",
    "a header": b"GET / HTTP/1.1\r\nX-A: b",
    "a body": b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 100000\r\n\r\nx",
}
LENGTHS = {"/": 4, "/long": 64 << 20}


async def answer(scope: Any, receive: Any, send: Any) -> None:
    """An answer when the head of the request is there."""
    body = b"well" if scope["path"] == "/" else bytes(LENGTHS["/long"])
    length = (b"content-length", b"%d" % len(body))
    await send({"type": "http.response.start", "status": 200, "headers": [length]})
    await send({"type": "http.response.body", "body": body})


@contextmanager
def serving(application: Any = answer) -> Iterator[int]:
    """The port of a server."""
    listening = socket.create_server(("127.0.0.1", 0))
    port: int = listening.getsockname()[1]
    server = HttpServer(application, listening)
    thread = threading.Thread(target=server.serve)
    thread.start()
    try:
        yield port
    finally:
        server.stop()
        thread.join()


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have requests arrive within less than a second."""
    monkeypatch.setattr(ServedConnection, "patience", 0.2)


@pytest.fixture
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have the server wait for longer than a test."""
    monkeypatch.setattr(ServedConnection, "patience", 10 * WITHIN)


def probe(port: int) -> bytes:
    """The answer to a request that comes at once."""
    with closing(HTTPConnection("127.0.0.1", port, timeout=WITHIN)) as connection:
        connection.request("GET", "/")
        return connection.getresponse().read()


def ended(connection: socket.socket) -> bool:
    """True if the server has closed it within a moment."""
    connection.settimeout(0.01)
    try:
        while connection.recv(4096):
            pass
    except TimeoutError:
        return False
    except ConnectionError:
        pass
    return True


@pytest.mark.usefixtures("impatient")
@pytest.mark.parametrize("beginning", BEGINNINGS)
def test_a_request_has_a_total_time(beginning: str) -> None:
    """A client that sends a byte every hundredth of a second, well within the time of a silence, is closed as well."""
    with serving() as port, socket.create_connection(("127.0.0.1", port)) as dripping:
        dripping.sendall(BEGINNINGS[beginning])
        until = time.monotonic() + WITHIN
        with suppress(ConnectionError):
            while not ended(dripping):
                assert time.monotonic() < until
                dripping.sendall(b"x")
        assert probe(port) == b"well"


@pytest.mark.usefixtures("patient")
@pytest.mark.parametrize("beginning", [*BEGINNINGS][:3])
def test_connections_do_not_add_up(beginning: str) -> None:
    """Beyond MOST the oldest without a whole request is closed, and one that asks at once is answered."""
    before = threading.active_count()
    with serving() as port, ExitStack() as stack:
        connections = []
        for _ in range(2 * MOST):
            connections.append(stack.enter_context(socket.create_connection(("127.0.0.1", port), WITHIN)))
            connections[-1].sendall(BEGINNINGS[beginning])
        assert probe(port) == b"well"
        # The server's own thread alone.
        assert threading.active_count() - before <= 1
        for old in connections[:MOST]:
            old.settimeout(WITHIN)
            with suppress(ConnectionError):
                assert old.recv(1) == b""
        assert not ended(connections[-1])


@pytest.mark.usefixtures("patient")
def test_what_is_computed_is_not_closed() -> None:
    """Answers that take long keep their connections, however many are opened meanwhile, and keep nobody out."""
    go, begun = threading.Event(), threading.Semaphore(0)

    async def slow(scope: Any, receive: Any, send: Any) -> None:
        if scope["method"] == "POST":
            begun.release()
            await asyncio.to_thread(go.wait, WITHIN)
        await answer(scope, receive, send)

    request = b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n"
    with serving(slow) as port, ExitStack() as stack:
        asking = [stack.enter_context(socket.create_connection(("127.0.0.1", port), WITHIN)) for _ in range(MOST)]
        for each in asking:
            each.sendall(request)
        assert all(begun.acquire(timeout=WITHIN) for _ in asking)
        for _ in range(2 * MOST):
            stack.enter_context(socket.create_connection(("127.0.0.1", port), WITHIN))
        assert probe(port) == b"well"
        go.set()
        for each in asking:
            assert each.recv(15) == b"HTTP/1.1 200 OK"


@pytest.mark.usefixtures("patient")
def test_a_request_has_a_size(capfd: pytest.CaptureFixture[str]) -> None:
    """Headers beyond HEAD bytes are no request, and nothing is printed of them."""
    request = b"GET / HTTP/1.1\r\n" + b"X-A: %b\r\n" % (b"a" * 1000) * (HEAD // 1000 + 20) + b"\r\n"
    with (
        serving() as port,
        socket.create_connection(("127.0.0.1", port), WITHIN) as large,
        suppress(ConnectionError),
    ):
        large.sendall(request)
        assert large.recv(12) == b"HTTP/1.1 400"
    assert capfd.readouterr().err == ""


@pytest.mark.usefixtures("impatient")
def test_a_client_that_reads_nothing_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    """An answer that nobody reads has a time as well: its rest is dropped."""
    over = threading.Event()
    lose = ServedConnection.connection_lost

    def note(connection: ServedConnection, error: Exception | None) -> None:
        lose(connection, error)
        over.set()

    monkeypatch.setattr(ServedConnection, "connection_lost", note)
    with serving() as port, socket.create_connection(("127.0.0.1", port), WITHIN) as deaf:
        deaf.sendall(b"GET /long HTTP/1.1\r\nHost: a\r\n\r\n")
        assert over.wait(WITHIN)


@pytest.mark.usefixtures("impatient")
def test_a_connection_is_used_again_and_then_closed() -> None:
    """As HTTP/1.1 has it; one that is silent after its answer holds nothing."""
    with serving() as port, closing(HTTPConnection("127.0.0.1", port, timeout=WITHIN)) as kept:
        for _ in range(2):
            kept.request("GET", "/")
            assert kept.getresponse().read() == b"well"
        assert kept.sock.recv(1) == b""


def test_a_failure_is_one_line(caplog: pytest.LogCaptureFixture) -> None:
    """It has the error's type, and nothing that was sent; the client hears of a failure."""

    async def fail(scope: Any, receive: Any, send: Any) -> None:
        raise ValueError(scope["path"])

    with serving(fail) as port, socket.create_connection(("127.0.0.1", port), WITHIN) as asking:
        asking.sendall(b"GET /secret HTTP/1.1\r\nHost: a\r\n\r\n")
        assert asking.recv(12) == b"HTTP/1.1 500"
    assert [record.getMessage() for record in caplog.records] == ["a request failed: ValueError"]
