"""The example configuration, deploy/rankstream.yaml."""

import re
from collections.abc import Iterator
from typing import Any

import yaml
from pydantic import BaseModel

from schemas.settings import Settings, load
from tests.deploy.files import EXAMPLE


def paths(model: type[BaseModel], prefix: str = "") -> Iterator[str]:
    """The path of every key."""
    for name, field in model.model_fields.items():
        if isinstance(field.annotation, type) and issubclass(field.annotation, BaseModel):
            yield from paths(field.annotation, f"{prefix}{name}.")
        else:
            yield prefix + (field.alias or name)


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
    secrets = {f"{section}.api_key" for section in ("qdrant", "embedder", "sparse_encoder", "rerank", "chat")}
    secrets |= {"kafka.tls.key_password", "kafka.sasl.password", "kafka.sasl.client_secret", "cursor.signing_secret"}
    secrets |= {"kafka.schema_registry.password"}
    assert absent == {"delivery.replica", *secrets}, "a key has no line in deploy/rankstream.yaml"
    assert re.search(r"(?m)^  # replica: ", text)
    for path in secrets:
        assert f"RANKSTREAM_{path.upper().replace('.', '__')}" in text
