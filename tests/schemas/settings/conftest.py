"""Fixtures of the settings' tests."""

import os

import pytest


@pytest.fixture(autouse=True)
def _no_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """No variable of the machine that runs the tests takes part."""
    for name in [name for name in os.environ if name.upper().startswith("RANKSTREAM_")]:
        monkeypatch.delenv(name)
