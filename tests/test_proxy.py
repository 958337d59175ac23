"""The fault-injecting proxy does to a real connection what each of its modes says."""

import socket
import threading
import time
from collections.abc import Iterator
from socketserver import BaseRequestHandler, ThreadingTCPServer

import pytest

from tests.operators.delivery.scripted import until
from tests.proxy import GARBAGE, Proxy


class Echo(BaseRequestHandler):
    """Sends back what it receives until the other side ends."""

    def handle(self) -> None:
        """Serve one connection."""
        while chunk := self.request.recv(65_536):
            self.request.sendall(chunk)


@pytest.fixture
def proxy() -> Iterator[Proxy]:
    """A proxy, forwarding to an echo server."""
    with ThreadingTCPServer(("127.0.0.1", 0), Echo) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.02,))
        thread.start()
        with Proxy("127.0.0.1", server.server_address[1], latency=0.2) as running:
            yield running
        server.shutdown()
        thread.join()


@pytest.fixture
def client(proxy: Proxy) -> Iterator[socket.socket]:
    """A connection that has been forwarded once."""
    with connect(proxy) as connection:
        assert exchange(connection, b"before") == b"before"
        yield connection


def connect(proxy: Proxy) -> socket.socket:
    """A new connection to the proxy, whose receiving gives up after five seconds."""
    connection = socket.create_connection(("127.0.0.1", proxy.port), timeout=5)
    connection.settimeout(5)
    return connection


def exchange(connection: socket.socket, message: bytes) -> bytes:
    """The first bytes that come back for a message."""
    connection.sendall(message)
    return connection.recv(65_536)


def test_refuse_resets_what_is_open_and_refuses_what_is_new(proxy: Proxy, client: socket.socket) -> None:
    """Refusing looks like a dead server, and ends with the same port."""
    proxy.switch("refuse")
    with pytest.raises(ConnectionResetError):
        client.recv(1)
    with pytest.raises(ConnectionRefusedError):
        connect(proxy)
    proxy.switch("pass")
    with connect(proxy) as again:
        assert exchange(again, b"after") == b"after"


def test_hang_answers_nothing_to_old_and_new_connections(proxy: Proxy, client: socket.socket) -> None:
    """Hanging takes connections and bytes, and says nothing at all."""
    proxy.switch("hang")
    with connect(proxy) as new:
        for connection in (client, new):
            connection.settimeout(0.3)
            with pytest.raises(TimeoutError):
                exchange(connection, b"lost")


def test_a_connection_with_a_hole_is_reset_when_forwarding_resumes(proxy: Proxy, client: socket.socket) -> None:
    """A client never sees a stream from which bytes are missing."""
    proxy.switch("hang")
    client.settimeout(0.3)
    before = proxy.requests
    with pytest.raises(TimeoutError):
        exchange(client, b"lost")
    until(lambda: proxy.requests > before)
    proxy.switch("pass")
    with pytest.raises(ConnectionResetError):
        client.recv(1)


def test_a_connection_without_a_hole_goes_on(proxy: Proxy, client: socket.socket) -> None:
    """A connection that sent nothing during the fault survives it."""
    proxy.switch("hang")
    proxy.switch("pass")
    assert exchange(client, b"after") == b"after"


def test_slow_delays_old_and_new_connections(proxy: Proxy, client: socket.socket) -> None:
    """Each chunk takes the latency once in each direction, and arrives whole."""
    proxy.switch("slow")
    with connect(proxy) as new:
        for connection in (client, new):
            took: list[float] = []
            # Again where it was late: whatever else runs may make any one so.
            while len(took) < 3 and (not took or took[-1] >= 0.9):
                began = time.monotonic()
                assert exchange(connection, b"late") == b"late"
                took.append(time.monotonic() - began)
            assert min(took) >= 0.4
            assert min(took) < 0.9


def test_garbage_answers_old_and_new_connections(proxy: Proxy, client: socket.socket) -> None:
    """Every chunk is answered with bytes of no protocol."""
    proxy.switch("garbage")
    with connect(proxy) as new:
        for connection in (client, new):
            assert exchange(connection, b"question") == GARBAGE


def test_an_end_is_passed_on(proxy: Proxy, client: socket.socket) -> None:
    """A client that ends its side still gets what was under way, then the server's end."""
    client.sendall(b"last")
    client.shutdown(socket.SHUT_WR)
    assert client.recv(65_536) == b"last"
    assert client.recv(65_536) == b""


def test_an_unreachable_target_resets_the_client() -> None:
    """A dead target is a broken connection, not a hanging one."""
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        target_port = unused.getsockname()[1]
        # The reset may be faster than the connection's own acknowledgement.
        with (
            Proxy("127.0.0.1", target_port) as proxy,
            pytest.raises(ConnectionResetError),
            connect(proxy) as connection,
        ):
            connection.recv(1)


def test_an_unknown_mode_is_refused(proxy: Proxy) -> None:
    """A misspelt mode fails the test that asked for it."""
    with pytest.raises(ValueError, match="hangs"):
        proxy.switch("hangs")
