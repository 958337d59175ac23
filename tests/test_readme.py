"""The README tells the truth: its commands exist and its examples hold to the contracts."""

import json
import re
import shlex
from pathlib import Path

import pytest
import typer.main
import yaml
from typer.core import TyperGroup

from flows.cli.main import app
from schemas.query import QueryEvent
from schemas.result import ResultEvent
from schemas.settings import load

ROOT = Path(__file__).parents[1]
TEXT = (ROOT / "README.md").read_text(encoding="utf-8")


def blocks(language: str) -> list[str]:
    """The fenced blocks of a language, in order."""
    return re.findall(rf"```{language}\n(.*?)```", TEXT, re.DOTALL)


def commands() -> list[list[str]]:
    """Every shell command of the README."""
    return [shlex.split(line) for block in blocks("sh") for line in block.splitlines() if line.strip()]


@pytest.mark.parametrize("command", commands(), ids=shlex.join)
def test_commands_exist(command: list[str]) -> None:
    """Each command is a target of the Makefile, or a command of rankstream with options that it has."""
    if command[0] == "make":
        assert re.search(rf"^{command[1]}:", (ROOT / "Makefile").read_text(), re.MULTILINE)
        return
    assert Path(command[0]).name == "rankstream"
    click = typer.main.get_command(app)
    assert isinstance(click, TyperGroup)
    context = click.make_context("rankstream", [command[1], "--help"], resilient_parsing=True)
    known = click.get_command(context, command[1])
    assert known is not None, command[1]
    options = {option for parameter in known.params for option in parameter.opts}
    assert {word for word in command[2:] if word.startswith("--")} <= options


def test_the_query_is_one() -> None:
    """The example query is accepted as it stands."""
    QueryEvent.model_validate(json.loads(blocks("json")[0]))


def test_the_answer_holds_to_the_contract() -> None:
    """The example answer is a result event, and answers the example query."""
    query, answer = map(json.loads, blocks("json"))
    ResultEvent.model_validate(answer)
    assert answer["query_id"] == query["query_id"]
    assert answer["metadata"] == query["metadata"]


def test_the_configuration_loads(tmp_path: Path) -> None:
    """The example configuration is enough to start with."""
    (example,) = blocks("yaml")
    assert yaml.safe_load(example)
    path = tmp_path / "rankstream.yaml"
    path.write_text(example)
    assert load(path).qdrant.url == "http://localhost:6333"


def test_links_lead_somewhere() -> None:
    """Every link to a file of the project names one that is there."""
    for target in re.findall(r"\]\(([^)#:]+)\)", TEXT):
        assert (ROOT / target).exists(), target
