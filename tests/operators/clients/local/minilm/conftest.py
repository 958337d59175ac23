"""The model, built once a run."""

from pathlib import Path

import pytest

from operators.clients.local.minilm import MiniLM


@pytest.fixture(scope="session")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory for the graph that lasts as long as the run."""
    return tmp_path_factory.mktemp("minilm")


@pytest.fixture(scope="session")
def minilm(cache: Path) -> MiniLM:
    """The model, with the graph built from the installed weights."""
    return MiniLM(cache)


@pytest.fixture(scope="session")
def int8(tmp_path_factory: pytest.TempPathFactory) -> MiniLM:
    """The model with 8 bits."""
    return MiniLM(tmp_path_factory.mktemp("minilm-int8"), precision="int8")
