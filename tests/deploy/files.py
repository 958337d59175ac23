"""The files that the tests of deploy/ read: paths, the command line, the Dockerfile's stages."""

import os
import shutil
import sys
import tomllib
from collections.abc import Iterable, Iterator
from pathlib import Path
from string import Template
from typing import NamedTuple

from typer.core import TyperGroup
from typer.main import get_command

from flows.cli.main import command_line
from tests.missing import missing

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"
EXAMPLE = DEPLOY / "rankstream.yaml"
PAGE = ROOT / "docs" / "deploy.md"
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]

# What follows a drain at worst: 10 s to close the clients, 30 s to send the last spans, and some to spare.
MARGIN_S = 45.0

FLOWS = ("search", "indexing")


def installed(name: str) -> str:
    """The path of a command of the development requirements: beside this interpreter, or on the machine."""
    places = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    return shutil.which(name, path=places) or missing(f"it needs {name}, which requirements/dev.txt has")


def check_command(arguments: Iterable[str]) -> None:
    """Parse the arguments of `rankstream`; raises for a command or an option that there isn't."""
    name, *rest = arguments
    commands = get_command(command_line())
    assert isinstance(commands, TyperGroup)
    commands.commands[name].make_context(name, rest).close()


class Stage(NamedTuple):
    """One stage of the Dockerfile."""

    base: str
    name: str
    steps: list[tuple[str, str]]

    def all(self, instruction: str) -> list[str]:
        """The arguments of an instruction in the stage."""
        return [value for name, value in self.steps if name == instruction]

    def last(self, instruction: str) -> str:
        """The value in the end: a later instruction replaces an earlier one."""
        return self.all(instruction)[-1]


def stages() -> Iterator[Stage]:
    """The stages of the Dockerfile, in their order, with the arguments' defaults."""
    lines = [line for line in (DEPLOY / "Dockerfile").read_text().splitlines() if not line.lstrip().startswith("#")]
    stage = None
    arguments: dict[str, str] = {}
    for line in "\n".join(lines).replace("\\\n", " ").splitlines():
        if not line.strip():
            continue
        instruction, _, value = line.partition(" ")
        if instruction == "FROM":
            if stage is not None:
                yield stage
            base, _, name = value.partition(" AS ")
            stage = Stage(Template(base).substitute(arguments), name, [])
        elif stage is None:
            assert instruction == "ARG"
            name, _, arguments[name] = value.partition("=")
        else:
            stage.steps.append((instruction, " ".join(value.split())))
    assert stage is not None
    yield stage


def last_stage() -> Stage:
    """The stage that becomes the image."""
    return list(stages())[-1]
