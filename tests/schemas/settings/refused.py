"""Tables of configurations that are refused.

A row is a configuration, YAML and variables, and below it, indented by four, the message: a line for each problem.
Where Qdrant is not named, `qdrant: {url: http://q}` is set, too; … stands for the rest of a long list.
"""

from pathlib import Path
from typing import Any

import pytest

from schemas.errors import ConfigError
from schemas.settings import load


def rows(table: str) -> list[Any]:
    """Each configuration, by which it is called, and the lines of its message."""
    found: list[tuple[list[str], list[str]]] = []
    for line in table.splitlines():
        if line.startswith("    "):
            found[-1][1].append(line.strip())
        elif line and not line.startswith("#"):
            if not found or found[-1][1]:
                found.append(([], []))
            found[-1][0].append(line)
    return [pytest.param(lines, message, id=" ".join(lines)) for lines, message in found]


def check_refusal(monkeypatch: pytest.MonkeyPatch, configuration: list[str], message: list[str]) -> None:
    """Fail unless the configuration, as c.yaml in this directory, is refused with exactly this message."""
    variables = [line for line in configuration if line.startswith("RANKSTREAM_")]
    for variable in variables:
        monkeypatch.setenv(*variable.split("=", 1))
    Path("c.yaml").write_text("\n".join(configuration[len(variables) :]))
    with pytest.raises(ConfigError) as caught:
        load(Path("c.yaml"), {} if "qdrant" in str(configuration).lower() else {"qdrant": {"url": "http://q"}})
    for line, said in zip(str(caught.value).splitlines(), message, strict=True):
        assert line == said or (said.endswith("…") and line.startswith(said[:-1]))
