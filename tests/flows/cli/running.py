"""The command line in this process, with a configuration that a test can change."""

from pathlib import Path
from typing import Any

import pytest
import yaml
from typer.testing import CliRunner, Result

from flows.cli.main import command_line
from flows.process import logs


class Command:
    """Runs commands with `settings`; nothing listens at its broker's address."""

    def __init__(self, directory: Path, monkeypatch: pytest.MonkeyPatch, settings: dict[str, Any]) -> None:
        self._file = directory / "rankstream.yaml"
        # The process that runs the tests keeps its own logs.
        monkeypatch.setattr(logs, "configure", lambda *_, **__: None)
        kafka = {"bootstrap_servers": "127.0.0.1:9"}
        self.settings: dict[str, Any] = {"kafka": kafka, "embedder": {"kind": "none"}, **settings}

    def __call__(self, *arguments: str) -> Result:
        """The output of a command, and its exit code."""
        self._file.write_text(yaml.safe_dump(self.settings))
        return CliRunner().invoke(command_line(), [*arguments, "--config", str(self._file)])
