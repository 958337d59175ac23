"""docs/reference/collections.md tells the truth: its configurations and its table of settings."""

import re
from pathlib import Path

import pytest
import yaml

from schemas.settings import load
from schemas.settings.qdrant import CreateSettings

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "docs" / "reference" / "collections.md").read_text(encoding="utf-8")


def blocks(language: str) -> list[str]:
    """The fenced blocks of a language, in order."""
    return re.findall(rf"(?ms)^ *```{language}\n(.*?)^ *```", TEXT)


@pytest.mark.parametrize("example", blocks("yaml"))
def test_its_configurations_load(example: str, tmp_path: Path) -> None:
    """Each is enough to start with."""
    path = tmp_path / "rankstream.yaml"
    path.write_text(example)
    given = yaml.safe_load(example)["qdrant"]
    loaded = load(path).qdrant
    assert all(getattr(loaded.create, name) == value for name, value in given.get("create", {}).items())
    assert loaded.owned == given.get("owned", [])


def test_its_table_has_every_setting_with_its_default() -> None:
    """In the order of the section."""
    rows = re.findall(r"^\| `(\w+)` \| `?([\w]+)`? \|", TEXT, re.MULTILINE)
    defaults = {name: "null" if value is None else str(value) for name, value in CreateSettings()}
    assert dict(rows) == defaults
    assert [name for name, _ in rows] == list(defaults)
