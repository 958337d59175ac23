"""docs/collections.md tells the truth: its commands, its configurations and its table of settings."""

import re
import shlex
from pathlib import Path

import pytest
import yaml

from schemas.settings import load
from schemas.settings.creation import CreateSettings
from tests.deploy.files import check_command

ROOT = Path(__file__).parents[1]
TEXT = (ROOT / "docs" / "collections.md").read_text(encoding="utf-8")


def blocks(language: str) -> list[str]:
    """The fenced blocks of a language, in order."""
    return re.findall(rf"(?ms)^ *```{language}\n(.*?)^ *```", TEXT)


def test_its_commands_exist() -> None:
    """Each has only options that it has."""
    commands = [shlex.split(line) for block in blocks("sh") for line in block.splitlines()]
    ours = [command[1:] for command in commands if command[0] == "rankstream"]
    assert len(ours) >= 5
    for arguments in ours:
        check_command(arguments)


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


def test_its_links_lead_somewhere() -> None:
    """To a page that is there, and to a heading of it."""
    for target, heading in re.findall(r"\]\(([^)#:]+)#?([^)]*)\)", TEXT):
        page = (ROOT / "docs" / target).read_text(encoding="utf-8")
        headings = [re.sub(r"[^\w -]", "", line).strip().replace(" ", "-").lower() for line in page.splitlines()]
        assert not heading or heading in headings, (target, heading)
