"""What is wrong with a configuration: each problem names a key, or a variable, and says what is expected.

No problem repeats a value, for it may be a secret.
"""

from collections.abc import Mapping
from typing import Final

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from schemas.wording import Path, worded

_MISSING: Final[Mapping[Path, str]] = {
    ("qdrant",): "set qdrant.url to the address of a server, or qdrant.path to a directory"
}
"""What to write where a section is missing that has no default."""


def problems(error: ValidationError, root: type[BaseModel], variables: Mapping[Path, str]) -> list[str]:
    """A line for each error; what a variable of the environment set is named by `variables`, by its path."""
    return [_line(item, root, variables) for item in error.errors(include_url=False, include_input=False)]


def _line(item: ErrorDetails, root: type[BaseModel], variables: Mapping[Path, str]) -> str:
    path = item["loc"]
    where = variables.get(path) or ".".join(map(str, path)) or "settings"
    if item["type"] == "missing" and (hint := _MISSING.get(path)) is not None:
        return f"{where}: missing: {hint}"
    return f"{where}: {worded(item, root)}"
