"""Reading the configuration: a file, the environment over it, every problem of both at once, and the values in effect.

A variable is `RANKSTREAM_` and a path in upper case, its parts joined by two underscores: `RANKSTREAM_KAFKA__CLIENT`.
It may hold a whole section as JSON. Each problem names a key, or a variable, and says what is expected. No problem
repeats a value, for it may be a secret.
"""

import os
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, Final, NamedTuple

import orjson
from pydantic import BaseModel, ValidationError
from pydantic.fields import FieldInfo
from pydantic_core import ErrorDetails
from pydantic_settings import EnvSettingsSource, SettingsError

from schemas.errors import ConfigError, Loc, explain_problem, holds_names, likely, section_keys
from schemas.fields import leaves, merge_objects, walk_fields
from schemas.settings.document import read
from schemas.settings.root import DELIMITER, PREFIX, Settings
from schemas.settings.section import AS_WRITTEN, MASK, secrets

_OF_SERVICES: Final = re.compile(r".*_(SERVICE_(HOST|PORT)(_.*)?|PORT(_\d+_(TCP|UDP|SCTP)(_(PROTO|PORT|ADDR))?)?)")
"""Variables that Kubernetes sets in each container for a Service whose name begins with rankstream."""


def _variables() -> Mapping[Loc, str]:
    """The variables that are meant for us, by the path of the setting that each sets."""
    ours = (variable for variable in sorted(os.environ) if variable.upper().startswith(PREFIX))
    return {
        tuple(variable[len(PREFIX) :].lower().split(DELIMITER)): variable
        for variable in ours
        if DELIMITER in variable
        or variable[len(PREFIX) :].lower() in _names()
        or not _OF_SERVICES.fullmatch(f"_{variable[len(PREFIX) :].upper()}")
    }


@cache
def _names() -> Mapping[str, str]:
    """A name with one underscore between its parts, the commonest mistake -> that of the variable."""
    return {"_".join(path): DELIMITER.join(path) for path, _ in walk_fields(Settings)}


def _unknown(variables: Mapping[Loc, str]) -> Iterator[str]:
    """A problem for each variable whose section does not exist; its keys are validated with the others."""
    sections = section_keys(Settings, ())
    for path, variable in variables.items():
        if path[0] not in sections:
            near = likely("_".join(map(str, path)), [*_names()])
            meant = f"; did you mean {PREFIX}{_names()[near].upper()}?" if near is not None else ""
            yield f"{variable}: no such setting{meant}"


def _environment(variables: Mapping[Loc, str]) -> tuple[Mapping[str, Any], Collection[Loc], Sequence[str]]:
    """The values of the variables, the paths of those that can't be read, and a problem for each of these."""
    # The names are in lower case there.
    source = EnvSettingsSource(Settings)
    # A secret is any text, and null is one.
    spoken = {name.lower(): os.environ[name] for path, name in variables.items() if _is_secret(path)}
    given = {**source.env_vars, **spoken}
    problems = {
        path: f"{variable}: a section is set by a JSON object, or its keys one by one: {variable}{DELIMITER}..."
        for path, variable in variables.items()
        if section_keys(Settings, path) and not isinstance(_read_json(os.environ[variable]), dict)
    }
    while True:
        illegible = {variables[path].lower() for path in problems}
        source.env_vars = {name: value for name, value in given.items() if name not in illegible}
        try:
            return source(), problems.keys(), [*problems.values()]
        except SettingsError as error:
            text = getattr(error.__cause__, "doc", None)
            new = {path: name for path, name in variables.items() if os.environ[name] == text and path not in problems}
            if not new:
                raise ConfigError(str(error)) from None
            problems |= {path: f"{name}: JSON is expected, such as {_example(path)}" for path, name in new.items()}


def _example(path: Loc) -> str:
    return '{"a": "b"}' if holds_names(Settings, path) else '["a", "b"]'


def _problem(item: ErrorDetails, variables: Mapping[Loc, str]) -> str:
    """A line for an error; the value of a variable of the environment is named by that."""
    path = item["loc"]
    # A recipe's stages have paths of their own.
    variable, below = _setter(path, variables, path[:2] if path[:1] == ("recipes",) else path)
    said = explain_problem(item, Settings)
    if item["type"] == "missing" and path == ("qdrant",):
        said = "missing: set qdrant.url to the address of a server, or qdrant.path to a directory"
    # A contradiction between sections names them itself.
    return ": ".join(filter(None, (variable, ".".join(map(str, below)), said)))


def load(path: Path | None, overrides: Mapping[str, Any] | None = None, *, index: Path | None = None) -> Settings:
    """Read the YAML file at `path`, if any; environment variables override it, and it overrides `overrides`.

    `index` is the directory of the index where none is configured, for what needs no other. Raises ConfigError naming
    every wrong path and variable at once; no message repeats a value.
    """
    document = read(path) if path is not None else {}
    wrong = [
        f"{where}: secrets come from the environment or from a file (..._file), not from YAML"
        for where in sorted(".".join(map(str, path)) for path, _ in leaves(document) if _is_secret(path))
    ]
    variables = _variables()
    values, illegible, problems = _environment(variables)
    wrong += [*_unknown(variables), *problems]
    if index is not None and "qdrant" not in document and all(place[0] != "qdrant" for place in variables):
        document = {**document, "qdrant": {"path": str(index)}}
    try:
        settings = Settings(**merge_objects(merge_objects(overrides or {}, document), values))
    except ValidationError as error:
        found = error.errors(include_url=False, include_input=False)
        # What an illegible variable would have set may be missing.
        spoilt = {path[:length] for path in illegible for length in range(1, len(path) + 1)}
        wrong += [_problem(item, variables) for item in found if item["loc"] not in spoilt]
    else:
        if not wrong:
            return settings
    raise ConfigError("\n".join(wrong))


def _field(path: Loc) -> tuple[FieldInfo, Loc]:
    """The setting that the value at `path` is, or is in, and the rest of the path."""
    field = FieldInfo(annotation=Settings)
    while path and isinstance(field.annotation, type) and issubclass(field.annotation, BaseModel):
        field, path = field.annotation.model_fields.get(str(path[0]), FieldInfo()), path[1:]
    return field, path


def _is_secret(path: Loc) -> bool:
    """True for the path of a secret, and for one of the same name in what a server gets as the user writes it."""
    field, below = _field(path)
    named = bool(below) and AS_WRITTEN in field.metadata and path[-1] in {each[-1] for each in secrets(Settings)}
    return named or path in secrets(Settings)


class EffectiveValue(NamedTuple):
    """One value. `source` is `default`, `file`, or the name of the variable that set it."""

    path: Loc
    value: Any
    source: str
    secret: bool


def effective(file: Path | None) -> list[EffectiveValue]:
    """Every value of the configuration, in the order of the sections; secrets are masked. Raises ConfigError."""
    settings = load(file)
    document = read(file) if file is not None else {}
    variables = _variables()
    dumped = settings.model_dump(mode="json")
    dumped["recipes"] = {name: recipe.definition for name, recipe in settings.recipes.items()}
    found = []
    for path, value in leaves(dumped):
        field, below = _field(path)
        # What no text of the settings shows, such as the values of headers, may be keys.
        secret = _is_secret(path) or (bool(below) and not field.repr)
        shown = MASK if secret and value is not None else value
        variable, _ = _setter(path, variables, path)
        source = variable or ("file" if _sets(document, path) else "default")
        found.append(EffectiveValue(path, shown, source, secret or str(shown).endswith(f"?{MASK}")))
    return found


def _setter(path: Loc, variables: Mapping[Loc, str], target: Loc) -> tuple[str | None, Loc]:
    """The variable that sets the value at `target`, by itself or in its JSON, and the rest of `path` below it."""
    for length in range(len(target), 0, -1):
        variable = variables.get(tuple(str(name).lower() for name in target[:length]))
        if variable is not None and (length == len(target) or _sets(_read_json(os.environ[variable]), target[length:])):
            return variable, path[length:]
    return None, path


def _read_json(text: str) -> object:
    try:
        return orjson.loads(text)
    except orjson.JSONDecodeError:
        return None


def _sets(document: Any, path: Loc) -> bool:
    for name in path:
        try:
            document = document[name]
        except (TypeError, LookupError):
            return False
    return True
