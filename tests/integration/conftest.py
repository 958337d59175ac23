"""Fixtures of the tests with servers."""

import shutil

import pytest

from bench.kafka.broker import Broker
from tests.missing import missing
from tests.servers import shared


@pytest.fixture(scope="session")
def secured(broker_tools: None, tmp_path_factory: pytest.TempPathFactory) -> Broker:
    """One real broker with every secure listener for the whole run."""
    if shutil.which("openssl") is None:
        missing("the certificates need the command openssl")
    return shared(tmp_path_factory, "secure")
