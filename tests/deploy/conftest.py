"""The environment of the tests of deploy/."""

import os

import pytest


@pytest.fixture(autouse=True)
def _no_configuration(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing of the shell that runs the tests is configuration."""
    for name in os.environ:
        if name.startswith("RANKSTREAM_"):
            monkeypatch.delenv(name)
