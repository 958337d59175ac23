"""Events: a message's bytes become one JSON object, and that the event of a schema, or a named error."""

import re
from collections.abc import Iterable, Sequence
from typing import Any, Final, TypeVar

import orjson
from pydantic import BaseModel, ValidationError

from operators.query.message import Message
from schemas.errors import DeadLetterClass, InputError, problem
from schemas.query import SCHEMA_VERSION

E = TypeVar("E", bound=BaseModel)

_STRINGS: Final = re.compile(rb'"(?:[^"\\]|\\.)*"(\s*:)?')

_NESTING: Final = frozenset({dict, list})
MAX_DEPTH: Final = 100
"""Levels of nesting: what is written again, to Qdrant and into results, must stay within the writer's 254."""


def parse(value: bytes | None, max_bytes: int) -> dict[str, Any]:
    """Read one event. Raises InputError as `json_object` does, and `unsupported_version`."""
    return readable(json_object(value, max_bytes))


def json_object(value: bytes | None, max_bytes: int) -> dict[str, Any]:
    """Read one JSON object.

    Raises InputError: `too_large`, `not_json` (NaN and deep nesting included), or `invalid` for anything but an object
    and for a repeated key.
    """
    if value is None:
        raise InputError(DeadLetterClass.NOT_JSON, "the message has no value")
    if len(value) > max_bytes:
        raise InputError(DeadLetterClass.TOO_LARGE, f"{len(value)} bytes, at most {max_bytes}")
    try:
        document = orjson.loads(value)
    except orjson.JSONDecodeError as error:
        raise InputError(DeadLetterClass.NOT_JSON, f"{error.msg} at character {error.pos}") from error
    if not isinstance(document, dict):
        raise InputError(DeadLetterClass.INVALID, f"an object is expected, not {type(document).__name__}")
    keys, levels = _shape(document)
    if levels > MAX_DEPTH:
        raise InputError(DeadLetterClass.NOT_JSON, f"nested {levels} levels deep, at most {MAX_DEPTH}")
    # The parser keeps the last of repeated keys without a word: count what was written.
    if sum(1 for match in _STRINGS.finditer(value) if match[1]) != keys:
        raise InputError(DeadLetterClass.INVALID, "a key is repeated")
    return document


def readable(document: dict[str, Any]) -> dict[str, Any]:
    """The same event, if its schema version is ours. Raises InputError `unsupported_version`."""
    version = document.get("schema_version", SCHEMA_VERSION)
    # What isn't an integer is no version at all, and the schema's to refuse.
    if type(version) is int and version != SCHEMA_VERSION:
        raise InputError(
            DeadLetterClass.UNSUPPORTED_VERSION, f"schema_version: {version}, this version reads {SCHEMA_VERSION}"
        )
    return document


def explain(error: ValidationError) -> str:
    """Every problem as `field: what is wrong (value)`, values cut short."""
    problems = []
    for item in error.errors(include_url=False):
        field = ".".join(str(part) for part in item["loc"])
        problems.append(problem(field, item["msg"], item["input"]) if field else item["msg"])
    return "; ".join(problems)


def validated(model: type[E], document: dict[str, Any]) -> E:
    """The event that the object is. Raises InputError `invalid` with every problem."""
    try:
        return model.model_validate(document)
    except ValidationError as error:
        raise InputError(DeadLetterClass.INVALID, explain(error)) from error


def check_headers(message: Message) -> None:
    """Raise InputError `invalid` for a message whose headers can't be read."""
    if not message.legible:
        raise InputError(DeadLetterClass.INVALID, "headers: a name isn't UTF-8")


def check_dimension(vector: Sequence[float] | None, dimension: int) -> None:
    """Raise InputError `vector_dimension` for a vector of another length than the collection's."""
    if vector is not None and len(vector) != dimension:
        raise InputError(DeadLetterClass.VECTOR_DIMENSION, f"vector: {len(vector)} numbers, expected {dimension}")


def _shape(document: Any) -> tuple[int, int]:
    """How many keys there are, and how many levels of objects and arrays."""
    keys = levels = 0
    level = [document]
    while level:
        levels += 1
        below: list[Any] = []
        for value in level:
            items: Iterable[Any] = value
            if isinstance(value, dict):
                keys += len(value)
                items = value.values()
            # A vector's hundreds of numbers are passed over at once.
            if not _NESTING.isdisjoint(map(type, items)):
                below += [item for item in items if type(item) in _NESTING]
        level = below
    return keys, levels
