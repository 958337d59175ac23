"""Reading the configuration: a file, the environment over it, every problem of both at once, and the values in effect.

A variable is `RANKSTREAM_` and a path in upper case, its parts joined by two underscores: `RANKSTREAM_KAFKA__CLIENT`.
It may hold a whole section as JSON. Each problem names a key, or a variable, and says what is expected. No problem
repeats a value, for it may be a secret.
"""

import os
import re
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any, Final, NamedTuple, get_args

import orjson
from pydantic import BaseModel, SecretStr, ValidationError
from pydantic_core import ErrorDetails
from pydantic_settings import SettingsError

from schemas.errors import ConfigError
from schemas.fields import merge
from schemas.settings.document import read
from schemas.settings.root import DELIMITER, PREFIX, Settings
from schemas.settings.section import Backend, Section
from schemas.wording import Loc, explain_problem, likely, names

_OF_SERVICES: Final = re.compile(r".*_(SERVICE_(HOST|PORT)(_.*)?|PORT(_\d+_(TCP|UDP|SCTP)(_(PROTO|PORT|ADDR))?)?)")
"""Variables that Kubernetes sets in each container for a Service whose name begins with rankstream."""


def path_of(variable: str) -> Loc:
    """The path of the setting that a variable sets."""
    return tuple(variable[len(PREFIX) :].lower().split(DELIMITER))


def ours(environ: Iterable[str]) -> Iterator[str]:
    """The variables that are meant for us."""
    for variable in sorted(environ):
        if variable.upper().startswith(PREFIX) and (
            DELIMITER in variable or not _OF_SERVICES.fullmatch(f"_{variable[len(PREFIX) :].upper()}")
        ):
            yield variable


def _unknown_variables() -> Iterator[str]:
    """A problem for each variable whose section does not exist; its keys are validated with the others."""
    sections = names(Settings, ())
    for variable in ours(os.environ):
        section = str(path_of(variable)[0])
        if section not in sections:
            near = likely(section, sections)
            meant = f"; did you mean {PREFIX}{near.upper()}?" if near is not None else ""
            yield f"{variable}: no such setting{meant}"


def _illegible_variables() -> Iterator[str]:
    """A problem for each variable that stands for a whole section and holds no JSON object."""
    for variable in ours(os.environ):
        if names(Settings, path_of(variable)) and not _is_object(os.environ[variable]):
            yield f"{variable}: a section is set by a JSON object, or its keys one by one: {variable}{DELIMITER}..."


def _variables() -> Mapping[Loc, str]:
    """The variables that are meant for us, by the path of what they set."""
    return {path_of(variable): variable for variable in ours(os.environ)}


def _is_object(value: str) -> bool:
    try:
        return isinstance(orjson.loads(value), dict)
    except orjson.JSONDecodeError:
        return False


_MISSING: Final[Mapping[Loc, str]] = {
    ("qdrant",): "set qdrant.url to the address of a server, or qdrant.path to a directory"
}
"""The hint for a missing section without a default."""


def _problem(item: ErrorDetails, variables: Mapping[Loc, str]) -> str:
    """A line for an error; the value of a variable of the environment is named by that."""
    path = item["loc"]
    where = variables.get(path) or ".".join(map(str, path)) or "settings"
    if item["type"] == "missing" and (hint := _MISSING.get(path)) is not None:
        return f"{where}: missing: {hint}"
    return f"{where}: {explain_problem(item, Settings)}"


def load(path: Path | None, overrides: Mapping[str, Any] | None = None, *, index: Path | None = None) -> Settings:
    """Read the YAML file at `path`, if any; environment variables override it, and it overrides `overrides`.

    `index` is the directory of the index where none is configured, for what needs no other. Raises ConfigError naming
    every wrong path and variable at once; no message repeats a value.
    """
    document = read(path) if path is not None else {}
    wrong = [
        f"{where}: secrets come from the environment or from a file (..._file), not from YAML"
        for where in sorted(".".join(map(str, path)) for path, _ in _leaves(document, ()) if _is_secret(path))
    ]
    wrong += _unknown_variables()
    if wrong_json := list(_illegible_variables()):
        raise ConfigError("\n".join(wrong + wrong_json))
    if index is not None and "qdrant" not in document and all(place[0] != "qdrant" for place in _variables()):
        document = {**document, "qdrant": {"path": str(index)}}
    try:
        settings = Settings(**merge(overrides or {}, document))
    except ValidationError as error:
        found = error.errors(include_url=False, include_input=False)
        wrong += [_problem(item, _variables()) for item in found]
    except SettingsError as error:
        value = getattr(error.__cause__, "doc", None)
        illegible = [variable for variable in ours(os.environ) if os.environ[variable] == value]
        wrong += [f'{each}: JSON is expected, such as ["a", "b"]' for each in illegible] or [str(error)]
    else:
        if not wrong:
            return settings
    raise ConfigError("\n".join(wrong))


@cache
def secrets() -> frozenset[tuple[str, ...]]:
    """The paths of all secrets. Names that users choose, such as those of fields and policies, may be the same."""
    return frozenset(_secrets_of(Settings, ()))


def _secrets_of(section: type[BaseModel], path: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    for name, field in section.model_fields.items():
        if SecretStr in get_args(field.annotation):
            yield (*path, name)
        elif isinstance(field.annotation, type) and issubclass(field.annotation, Section):
            yield from _secrets_of(field.annotation, (*path, name))


def _is_secret(path: Loc) -> bool:
    """True for the path of a secret, and for one of the same name in what a server gets as the user writes it."""
    known = secrets()
    written = path[:3] == _EXTENSIONS or (path[0] in _backends() and path[1:2] == ("body",))
    return path in known or (written and path[-1] in {each[-1] for each in known})


@cache
def _backends() -> frozenset[str]:
    sections = {name: field.annotation for name, field in Settings.model_fields.items()}
    return frozenset(name for name, each in sections.items() if isinstance(each, type) and issubclass(each, Backend))


MASK: Final = "***"

_EXTENSIONS: Final = ("kafka", "sasl", "extensions")
_ISSUER: Final = ("kafka", "sasl", "token_url")
"""A URL that may have a query, in which a key may be."""


_MASKED: Final = frozenset({"headers", "query"})
"""Mappings of a backend's section whose values may be keys."""


class Value(NamedTuple):
    """One value. `source` is `default`, `file`, or the name of the variable that set it."""

    path: Loc
    value: Any
    source: str
    secret: bool


def effective(file: Path | None) -> list[Value]:
    """Every value of the configuration, in the order of the sections; secrets are masked. Raises ConfigError."""
    settings = load(file)
    document = read(file) if file is not None else {}
    variables = _variables()
    dumped = settings.model_dump(mode="json")
    dumped["recipes"] = {name: recipe.definition for name, recipe in settings.recipes.items()}
    backends = _backends()
    found = []
    for path, value in _leaves(dumped, ()):
        is_query = path == _ISSUER and value is not None and "?" in value
        secret = _is_secret(path) or is_query or (path[0] in backends and len(path) > 2 and path[1] in _MASKED)
        if secret and value is not None:
            value = f"{value.partition('?')[0]}?{MASK}" if is_query else MASK
        found.append(Value(path, value, _source(path, document, variables), secret))
    return found


def _leaves(section: Mapping[str, Any], path: Loc) -> Iterator[tuple[Loc, Any]]:
    for name, value in section.items():
        if isinstance(value, dict) and value:
            yield from _leaves(value, (*path, name))
        else:
            yield (*path, name), value


def _source(path: Loc, document: Mapping[str, Any], variables: Mapping[Loc, str]) -> str:
    lowered = tuple(str(name).lower() for name in path)
    for length in range(len(path), 0, -1):
        if (variable := variables.get(lowered[:length])) is not None:
            return variable
    return "file" if _sets(document, path) else "default"


def _sets(document: Any, path: Loc) -> bool:
    for name in path:
        if not isinstance(document, Mapping) or name not in document:
            return False
        document = document[name]
    return True
