"""The stand-in closes connections as a server does, and as a test wishes."""

import http.client
import socket
import time
from pathlib import Path
from urllib.parse import urlsplit

import httpx
import pytest

from tests.qdrant_server import Behaviour, Keys, serve


def _connected(url: str) -> http.client.HTTPConnection:
    address = urlsplit(url)
    connection = http.client.HTTPConnection(str(address.hostname), address.port, timeout=10)
    connection.connect()
    return connection


def _asked(connection: http.client.HTTPConnection) -> int:
    connection.request("GET", "/collections")
    response = connection.getresponse()
    response.read()
    return response.status


def test_an_idle_connection_is_closed(tmp_path: Path) -> None:
    """After the time of `keep_alive` the server ends a connection that nothing comes over."""
    with serve(tmp_path, Behaviour(keep_alive=0.05)) as url:
        connection = _connected(url)
        assert _asked(connection) == 200
        held: socket.socket = connection.sock
        assert held.recv(1) == b""
        connection.close()


def test_a_busy_connection_stays(tmp_path: Path) -> None:
    """Requests that follow one another within `keep_alive` share a connection."""
    with serve(tmp_path, Behaviour(keep_alive=5.0)) as url:
        connection = _connected(url)
        held = connection.sock
        for _ in range(5):
            assert _asked(connection) == 200
            time.sleep(0.01)
        assert connection.sock is held
        connection.close()


def test_the_default_is_the_servers() -> None:
    """A server closes a connection that was idle for 5 s."""
    assert Behaviour().keep_alive == 5.0


def test_closed_as_a_request_arrives(tmp_path: Path) -> None:
    """With `closing` 1 a connection takes its first request, and every second one meets its end, unanswered."""
    behaviour = Behaviour(closing=1.0)
    with serve(tmp_path, behaviour) as url:
        for _ in range(3):
            connection = _connected(url)
            assert _asked(connection) == 200
            with pytest.raises((http.client.RemoteDisconnected, ConnectionError)):
                _asked(connection)
            connection.close()
        behaviour.closing = 0.0
        connection = _connected(url)
        assert [_asked(connection) for _ in range(3)] == [200] * 3
        connection.close()


def test_closed_at_random(tmp_path: Path) -> None:
    """With `closing` between, some of the requests over a reused connection are unanswered and some are not."""
    ended = 0
    with serve(tmp_path, Behaviour(closing=0.3)) as url:
        connection = _connected(url)
        for _ in range(60):
            try:
                assert _asked(connection) == 200
            except (http.client.RemoteDisconnected, ConnectionError):
                ended += 1
                connection.close()
                connection = _connected(url)
        connection.close()
    assert 0 < ended < 60


def test_keys_over_http(tmp_path: Path) -> None:
    """Keys are read from the request's headers, and a refusal without a key has no content type."""
    with serve(tmp_path, Behaviour(keys=Keys("sesame"))) as url:
        refused = httpx.get(f"{url}/collections")
        assert (refused.status_code, "content-type" in refused.headers) == (401, False)
        assert httpx.get(f"{url}/collections", headers={"api-key": "sesame"}).status_code == 200
        assert httpx.get(f"{url}/readyz").text == "all shards are ready"


def test_what_was_held_is_held(tmp_path: Path) -> None:
    """A server on the same directory has the collections, with their shards and settings, of the one before."""
    created = {"vectors": {"size": 2, "distance": "Dot"}, "shard_number": 3, "metadata": {"owner": "x"}}
    points = {"points": [{"id": number, "vector": [1.0, number]} for number in range(20)]}
    with serve(tmp_path) as url:
        assert httpx.put(f"{url}/collections/c", json=created).status_code == 200
        assert httpx.put(f"{url}/collections/c/points?wait=true", json=points).status_code == 200
    with serve(tmp_path) as url:
        info = httpx.get(f"{url}/collections/c").json()["result"]
        assert (info["points_count"], info["config"]["params"]["shard_number"]) == (20, 3)
        assert info["config"]["metadata"] == {"owner": "x"}
