"""Fixtures of the tests with servers."""

import shutil
from collections.abc import Iterator

import pytest

from bench.kafka.broker import Broker
from tests.missing import missing


@pytest.fixture(scope="session")
def secured(broker_tools: None) -> Iterator[Broker]:
    """One real broker with every secure listener."""
    if shutil.which("openssl") is None:
        missing("the certificates need the command openssl")
    with Broker(secure=True) as running:
        yield running
