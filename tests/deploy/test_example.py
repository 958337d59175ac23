"""The example configuration, deploy/rankstream.yaml, and the page about deploying, docs/deploy.md."""

import re
import shlex
from collections.abc import Iterator
from typing import Any

import yaml
from pydantic import BaseModel

from schemas.settings import Settings, load
from tests.deploy.files import EXAMPLE, FLOWS, PAGE, ROOT, check_command, container, manifests, stateful_set, variables

# The example configuration


def paths(model: type[BaseModel], prefix: str = "") -> Iterator[str]:
    """The path of every key."""
    for name, field in model.model_fields.items():
        if isinstance(field.annotation, type) and issubclass(field.annotation, BaseModel):
            yield from paths(field.annotation, f"{prefix}{name}.")
        else:
            yield prefix + name


def written_paths(section: dict[str, Any], prefix: str = "") -> Iterator[str]:
    """The path of every key in a document, down to what isn't a mapping."""
    for name, value in section.items():
        yield prefix + name
        if isinstance(value, dict):
            yield from written_paths(value, f"{prefix}{name}.")


def test_the_example_configuration_shows_the_defaults() -> None:
    """Loading deploy/rankstream.yaml gives what the code does by itself, once it knows Qdrant's address."""
    assert load(EXAMPLE) == load(None, {"qdrant": {"url": "http://localhost:6333"}})


def test_the_example_configuration_has_every_key() -> None:
    """Each key has its line; a key that has no default to show, or mustn't be in a file, is in a comment."""
    text = EXAMPLE.read_text()
    absent = set(paths(Settings)) - set(written_paths(yaml.safe_load(text)))
    secrets = {f"{section}.api_key" for section in ("qdrant", "embedder", "rerank", "chat")}
    secrets |= {"kafka.tls.key_password", "kafka.sasl.password", "kafka.sasl.client_secret", "cursor.signing_secret"}
    assert absent == {"delivery.replica", *secrets}
    assert re.search(r"(?m)^  # replica: ", text)
    for path in secrets:
        assert f"RANKSTREAM_{path.upper().replace('.', '__')}" in text


# The page


def commands() -> list[list[str]]:
    """Every command in the page's shell blocks, as words."""
    blocks = re.findall(r"(?ms)^ *```sh\n(.*?)^ *```", PAGE.read_text())
    return [shlex.split(line) for line in "".join(blocks).splitlines()]


def test_the_page_names_files_that_there_are() -> None:
    """Every path under deploy/ in docs/deploy.md exists."""
    named = set(re.findall(r"\bdeploy/[\w./-]*\w", PAGE.read_text()))
    assert named
    for path in named:
        assert (ROOT / path).exists(), path


def test_the_pages_commands_parse() -> None:
    """Every `rankstream` command in docs/deploy.md is one that there is, with options that it has."""
    ours = [command[1:] for command in commands() if command[0] == "rankstream"]
    assert len(ours) >= 2
    for arguments in ours:
        check_command(arguments)


def test_the_page_names_objects_that_there_are() -> None:
    """Every object that a `kubectl` command in docs/deploy.md names is in the manifests, or is made by the page."""
    text = PAGE.read_text()
    kinds = {"statefulset": "StatefulSet", "job": "Job"}
    named = re.findall(r"\b(statefulset|job)/([\w-]+)", text)
    assert named
    for kind, name in named:
        assert (kinds[kind], name) in manifests()
    for workload in map(stateful_set, FLOWS):
        [optional] = container(workload)["envFrom"]
        assert f"kubectl create configmap {optional['configMapRef']['name']} " in text
        for variable in variables(workload).values():
            if reference := variable.get("valueFrom", {}).get("secretKeyRef"):
                assert f"kubectl create secret generic {reference['name']} " in text
                assert f"{reference['key']}" in text
