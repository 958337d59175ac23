"""What the tests of deploy/ read: where the files are, the Kubernetes manifests, the Dockerfile's stages."""

import tomllib
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import yaml
from typer.core import TyperGroup
from typer.main import get_command

from flows.cli.main import app

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"
KUBERNETES = DEPLOY / "kubernetes"
EXAMPLE = DEPLOY / "rankstream.yaml"
PAGE = ROOT / "docs" / "deploy.md"
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]

# What follows a drain at worst: 10 s to close the clients, 30 s to send the last spans, and some to spare.
MARGIN_S = 45.0

FLOWS = ("search", "indexing")


def check_command(arguments: Iterable[str]) -> None:
    """Parse the arguments of `rankstream`; raises for a command or an option that there isn't."""
    name, *rest = arguments
    commands = get_command(app)
    assert isinstance(commands, TyperGroup)
    commands.commands[name].make_context(name, rest).close()


@cache
def manifests() -> dict[tuple[str, str], dict[str, Any]]:
    """Every object by kind and name."""
    found = {}
    for file in sorted(KUBERNETES.glob("*.yaml")):
        for item in yaml.safe_load_all(file.read_text()):
            if file.name != "kustomization.yaml":
                found[item["kind"], item["metadata"]["name"]] = item
    return found


def stateful_set(flow: str) -> dict[str, Any]:
    """What runs a flow."""
    return manifests()["StatefulSet", f"rankstream-{flow}"]


STATEFUL_SETS = [pytest.param(stateful_set(flow), id=flow) for flow in FLOWS]


def pod(workload: dict[str, Any]) -> dict[str, Any]:
    """The specification of a workload's pods."""
    spec: dict[str, Any] = workload["spec"]["template"]["spec"]
    return spec


def container(workload: dict[str, Any]) -> dict[str, Any]:
    """A workload's only container."""
    [only] = pod(workload)["containers"]
    return dict(only)


def variables(workload: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """A container's environment by name."""
    return {variable["name"]: variable for variable in container(workload)["env"]}


class Stage(NamedTuple):
    """One stage of the Dockerfile."""

    base: str
    name: str
    steps: list[tuple[str, str]]

    def all(self, instruction: str) -> list[str]:
        """What the stage gives to an instruction."""
        return [value for name, value in self.steps if name == instruction]

    def last(self, instruction: str) -> str:
        """What holds in the end: a later instruction replaces an earlier one."""
        return self.all(instruction)[-1]


def stages() -> Iterator[Stage]:
    """The stages of the Dockerfile, in their order."""
    lines = [line for line in (DEPLOY / "Dockerfile").read_text().splitlines() if not line.lstrip().startswith("#")]
    stage = None
    for line in "\n".join(lines).replace("\\\n", " ").splitlines():
        if not line.strip():
            continue
        instruction, _, value = line.partition(" ")
        if instruction == "FROM":
            if stage is not None:
                yield stage
            base, _, name = value.partition(" AS ")
            stage = Stage(base, name, [])
        else:
            assert stage is not None
            stage.steps.append((instruction, " ".join(value.split())))
    assert stage is not None
    yield stage


def last_stage() -> Stage:
    """The stage that becomes the image."""
    return list(stages())[-1]
