"""A Qdrant server over a fresh directory: the stand-in, and a real one where the machine has it."""

from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from bench.qdrant_server import named, started
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


@pytest.fixture(params=["stand-in", *(["server"] if named() is not None else [])])
def server(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Server]:
    """A server that holds nothing: what is promised of one is promised of the other."""
    binary = named()
    if request.param == "stand-in" or binary is None:
        yield request.getfixturevalue("stand_in")
        return
    with started(binary, tmp_path / "server") as url, httpx.Client(timeout=60) as client:

        def send(asked: httpx.Request) -> httpx.Response:
            path = asked.url.raw_path.decode()
            # The stand-in is never behind.
            waiting = "" if "wait=" in path else "&wait=true" if "?" in path else "?wait=true"
            place = f"{url}{path}{waiting}"
            return client.request(
                asked.method, place, content=asked.content, headers={"content-type": "application/json"}
            )

        yield Server(send)
