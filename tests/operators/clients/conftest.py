"""The fixtures of the tests of Qdrant's client and engine."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from operators.clients.qdrant_edge.shards import Engine
from tests.operators.clients.qdrant_edge.engine_requests import CREATED, done


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[Engine]:
    """An engine with the empty collection `docs`."""
    with Engine(tmp_path) as engine:
        done(engine, "PUT", "/collections/docs", CREATED)
        yield engine
