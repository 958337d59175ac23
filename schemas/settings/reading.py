"""Reading the configuration: a file, the environment over it, and every problem of both at once."""

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from pydantic import ValidationError
from pydantic_settings import SettingsError

from schemas.errors import ConfigError
from schemas.settings import environment
from schemas.settings.document import read
from schemas.settings.problems import problems
from schemas.settings.root import Settings
from schemas.settings.section import Section


def load(path: Path | None, overrides: Mapping[str, Any] | None = None) -> Settings:
    """Read the YAML file at `path`, if any; environment variables override it, and it overrides `overrides`.

    Raises ConfigError naming every wrong path and variable at once; no message repeats a value.
    """
    document = read(path) if path is not None else {}
    wrong = [
        f"{where}: secrets come from the environment or from a file (..._file), not from YAML"
        for where in sorted(_misplaced(document, secrets(), ""))
    ]
    wrong += environment.unknown_variables(os.environ, Settings)
    if illegible := list(environment.illegible(os.environ, Settings)):
        raise ConfigError("\n".join(wrong + illegible))
    try:
        settings = Settings(**_merged(overrides or {}, document))
    except ValidationError as error:
        wrong += problems(error, Settings, environment.variables(os.environ))
    except SettingsError as error:
        wrong.append(str(error))
    else:
        if not wrong:
            return settings
    raise ConfigError("\n".join(wrong))


def secrets() -> frozenset[str]:
    """The names of all secrets, whatever section they are in."""
    sections = (field.annotation for field in Settings.model_fields.values())
    named = (item.secrets() for item in sections if isinstance(item, type) and issubclass(item, Section))
    return frozenset().union(*named)


def _misplaced(section: Mapping[str, Any], names: frozenset[str], path: str) -> Iterator[str]:
    for name, value in section.items():
        if name in names:
            yield f"{path}{name}"
        elif isinstance(value, dict):
            yield from _misplaced(value, names, f"{path}{name}.")


def _merged(under: Mapping[str, Any], over: Mapping[str, Any]) -> dict[str, Any]:
    merged = dict(under)
    for name, value in over.items():
        beneath = merged.get(name)
        merged[name] = _merged(beneath, value) if isinstance(beneath, dict) and isinstance(value, dict) else value
    return merged
