"""An index for the tests of what is written to it."""

import asyncio
from collections.abc import Iterator

import pytest

from operators.clients.qdrant_edge.shards import Engine
from tests.operators.indexing.neighbours import Index
from tests.operators.indexing.neighbours import settings as configured


@pytest.fixture(scope="module")
def index(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Index]:
    """An index in the process."""
    with Engine(tmp_path_factory.mktemp("engine")) as engine:
        made = Index(engine, configured())
        asyncio.run(made.create())
        yield made
