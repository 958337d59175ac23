"""A stand-in over a fresh directory."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from operators.clients.qdrant_edge.shards import Engine
from tests.qdrant_server import Behaviour
from tests.qdrant_server.transport import ServerTransport
from tests.stand_in.asking import Server


@pytest.fixture
def behaviour() -> Behaviour:
    """The switches of the stand-in."""
    return Behaviour()


@pytest.fixture
def server(tmp_path: Path, behaviour: Behaviour) -> Iterator[Server]:
    """A stand-in that holds nothing."""
    with Engine(tmp_path) as engine:
        yield Server(ServerTransport(engine, behaviour))
