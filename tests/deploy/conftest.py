"""The environment of the tests of deploy/, and the chart that they look at."""

import os
from pathlib import Path

import pytest

from schemas.settings import Settings, load
from tests.deploy.chart import SETS, Rendered, rendered


@pytest.fixture(autouse=True)
def _no_configuration(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing of the shell that runs the tests is configuration."""
    for name in os.environ:
        if name.startswith("RANKSTREAM_"):
            monkeypatch.delenv(name)


@pytest.fixture(params=SETS)
def chart(request: pytest.FixtureRequest) -> Rendered:
    """The chart with each set of values."""
    name: str = request.param
    return rendered(name)


@pytest.fixture
def configured(chart: Rendered, tmp_path: Path) -> Settings:
    """The settings in its ConfigMap."""
    path = tmp_path / "rankstream.yaml"
    path.write_text(chart.configuration)
    return load(path)
