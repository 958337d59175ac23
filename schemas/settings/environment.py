"""Variables of the environment: which setting each one is, and which is none.

`RANKSTREAM_` and a path in upper case, its parts joined by two underscores: `RANKSTREAM_KAFKA__CLIENT`. A variable may
hold a whole section as JSON.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Final

import orjson
from pydantic import BaseModel

from schemas.wording import Path, likely, names

PREFIX: Final = "RANKSTREAM_"
DELIMITER: Final = "__"

_OF_SERVICES: Final = re.compile(r".*_(SERVICE_(HOST|PORT)(_.*)?|PORT(_\d+_(TCP|UDP|SCTP)(_(PROTO|PORT|ADDR))?)?)")
"""What Kubernetes sets in each container for a Service whose name begins with rankstream."""


def path_of(variable: str) -> Path:
    """The path of the setting that a variable sets."""
    return tuple(variable[len(PREFIX) :].lower().split(DELIMITER))


def ours(environ: Iterable[str]) -> Iterator[str]:
    """The variables that are meant for us."""
    for variable in sorted(environ):
        if variable.upper().startswith(PREFIX) and (
            DELIMITER in variable or not _OF_SERVICES.fullmatch(f"_{variable[len(PREFIX) :].upper()}")
        ):
            yield variable


def unknown_variables(environ: Iterable[str], root: type[BaseModel]) -> Iterator[str]:
    """A problem for each variable whose section does not exist; its keys are validated with the others."""
    sections = names(root, ())
    for variable in ours(environ):
        section = str(path_of(variable)[0])
        if section not in sections:
            near = likely(section, sections)
            meant = f"; did you mean {PREFIX}{near.upper()}?" if near is not None else ""
            yield f"{variable}: no such setting{meant}"


def illegible(environ: Mapping[str, str], root: type[BaseModel]) -> Iterator[str]:
    """A problem for each variable that stands for a whole section and holds no JSON object."""
    for variable in ours(environ):
        if names(root, path_of(variable)) and not _is_object(environ[variable]):
            yield f"{variable}: a section is set by a JSON object, or its keys one by one: {variable}{DELIMITER}..."


def variables(environ: Iterable[str]) -> Mapping[Path, str]:
    """The variables that are meant for us, by the path of what they set."""
    return {path_of(variable): variable for variable in ours(environ)}


def _is_object(value: str) -> bool:
    try:
        return isinstance(orjson.loads(value), dict)
    except orjson.JSONDecodeError:
        return False
