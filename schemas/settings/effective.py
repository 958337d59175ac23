"""The effective configuration: every value, and where it came from."""

import os
from collections.abc import Iterator, Mapping
from pathlib import Path as File
from typing import Any, Final, NamedTuple

from schemas.settings import environment
from schemas.settings.document import read
from schemas.settings.reading import load, secrets
from schemas.wording import Path

MASK: Final = "***"

_ISSUER: Final = ("kafka", "sasl", "token_url")
"""A URL that may have a query, in which a key may be."""


class Value(NamedTuple):
    """One value. `source` is `default`, `file`, or the name of the variable that set it."""

    path: Path
    value: Any
    source: str
    secret: bool


def effective(file: File | None) -> list[Value]:
    """Every value of the configuration, in the order of the sections; secrets are masked. Raises ConfigError."""
    settings = load(file)
    document = read(file) if file is not None else {}
    variables = environment.variables(os.environ)
    dumped = settings.model_dump(mode="json")
    dumped["recipes"] = {name: recipe.definition for name, recipe in settings.recipes.items()}
    hidden = secrets()
    found = []
    for path, value in _leaves(dumped, ()):
        is_query = path == _ISSUER and value is not None and "?" in value
        secret = path[-1] in hidden or is_query
        if secret and value is not None:
            value = f"{value.partition('?')[0]}?{MASK}" if is_query else MASK
        found.append(Value(path, value, _source(path, document, variables), secret))
    return found


def _leaves(section: Mapping[str, Any], path: Path) -> Iterator[tuple[Path, Any]]:
    for name, value in section.items():
        if isinstance(value, dict) and value:
            yield from _leaves(value, (*path, name))
        else:
            yield (*path, name), value


def _source(path: Path, document: Mapping[str, Any], variables: Mapping[Path, str]) -> str:
    lowered = tuple(str(name).lower() for name in path)
    for length in range(len(path), 0, -1):
        if (variable := variables.get(lowered[:length])) is not None:
            return variable
    return "file" if _sets(document, path) else "default"


def _sets(document: Any, path: Path) -> bool:
    for name in path:
        if not isinstance(document, Mapping) or name not in document:
            return False
        document = document[name]
    return True
