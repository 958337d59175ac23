"""A Qdrant server over a fresh directory: the stand-in, and a real one where the machine has it."""

from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from bench.qdrant_server import empty, named, started
from operators.clients.qdrant_edge.shards import Engine
from tests.qdrant_server import Behaviour
from tests.qdrant_server.transport import ServerTransport
from tests.stand_in.asking import Server, in_process


@pytest.fixture
def behaviour() -> Behaviour:
    """The switches of the stand-in."""
    return Behaviour()


@pytest.fixture
def stand_in(tmp_path: Path, behaviour: Behaviour) -> Iterator[Server]:
    """A stand-in that holds nothing."""
    with Engine(tmp_path) as engine:
        yield Server(in_process(ServerTransport(engine, behaviour)))


@pytest.fixture(scope="session")
def real(tmp_path_factory: pytest.TempPathFactory) -> Iterator[httpx.Client]:
    """The real server, one for all tests of a worker."""
    binary = named()
    assert binary is not None
    with (
        started(binary, tmp_path_factory.mktemp("server")) as url,
        httpx.Client(base_url=url, timeout=60) as client,
    ):
        yield client


@pytest.fixture(params=["stand-in", *(["server"] if named() is not None else [])])
def server(request: pytest.FixtureRequest) -> Iterator[Server]:
    """A server that holds nothing: what is promised of one is promised of the other."""
    if request.param == "stand-in":
        yield request.getfixturevalue("stand_in")
        return
    client: httpx.Client = request.getfixturevalue("real")

    def send(asked: httpx.Request) -> httpx.Response:
        path = asked.url.raw_path.decode()
        # The stand-in is never behind.
        waiting = "" if "wait=" in path else "&wait=true" if "?" in path else "?wait=true"
        headers = {"content-type": "application/json"}
        return client.request(asked.method, f"{path}{waiting}", content=asked.content, headers=headers)

    yield Server(send)
    empty(client)
