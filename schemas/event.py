"""Events: a message's bytes are parsed as one JSON object and validated as an event, or refused with an InputError."""

import json
import re
from collections import Counter
from collections.abc import Sequence
from typing import Any, Final, TypeVar

import orjson
from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from schemas.errors import MAX_WORDED, DeadLetterClass, InputError, explain_problem, join_first, problem
from schemas.fields import SCHEMA_VERSION

E = TypeVar("E", bound=BaseModel)

# Possessive: no place to go back to is kept, which would take a hundred times the memory of a long string.
_STRINGS: Final = re.compile(rb'"(?:[^"\\]++|\\.)*+"(\s*+:)?')

_BYTE_ORDER_MARK: Final = b"\xef\xbb\xbf"
_MAGIC: Final = b"\x00"
PREFIX: Final = 5
"""Bytes of Confluent's wire format ahead of a value: the byte 0, and the id of the value's schema in four."""

# Each escape is taken whole, so that the one behind a backslash begins where JSON says.
_ESCAPES: Final = re.compile(
    rb"\\(?:u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|(u[dD][89a-fA-F][0-9a-fA-F]{2})|.)", re.DOTALL
)

_NO_REGISTRY: Final = "without kafka.schema_registry.url no other format is read"

HALF_REPLACED: Final = "half of a surrogate pair was replaced by U+FFFD"
"""The warning about a text that was cut within a character, such as an emoji."""

_MOST_DIGITS: Final = 19
"""Of an integer of 64 bits."""

_LONG: Final = re.compile(rb"\d{%d}" % (_MOST_DIGITS + 1))

_NESTING: Final = frozenset({dict, list})
MAX_DEPTH: Final = 100
"""Levels of nesting; JSON that is written again, to Qdrant and into results, may have 254."""


def _bare(value: bytes) -> bytes:
    """The value without the prefix of Confluent's wire format, and without a byte order mark.

    No JSON begins with the byte 0. Behind it is the id of a schema, which nothing here needs: the event has its own.
    """
    return value[PREFIX if value[:1] == _MAGIC else 0 :].removeprefix(_BYTE_ORDER_MARK)


def schema_id(value: bytes | None) -> int | None:
    """The id of the schema in the prefix of Confluent's wire format; None if there is no such prefix."""
    if value is None or len(value) < PREFIX or value[:1] != _MAGIC:
        return None
    return int.from_bytes(value[1:PREFIX])


def _without_halves(value: bytes) -> bytes:
    return _ESCAPES.sub(lambda found: rb"\ufffd" if found[1] else found[0], value)


def json_object(
    value: bytes | None, max_bytes: int, max_parts: int | None = None, *, warnings: list[str] | None = None
) -> dict[str, Any]:
    """Read one JSON object of at most `max_parts` keys, objects and arrays; None: of any number.

    A byte order mark and the prefix of Confluent's wire format are skipped. Where a half of a surrogate pair is
    replaced, HALF_REPLACED is added to `warnings`, if there are any to add to.
    Raises InputError: `too_large`, `not_json` (NaN and deep nesting included), or `invalid` for anything but an object
    and for a repeated key.
    """
    if value is None:
        raise InputError(DeadLetterClass.NOT_JSON, "value: missing, a JSON object is expected")
    if len(value) > max_bytes:
        raise InputError(DeadLetterClass.TOO_LARGE, f"value: {len(value)} bytes, expected at most {max_bytes}")
    framed = value[:1] == _MAGIC
    value = _bare(value)
    try:
        document = _load(value, warnings)
    except orjson.JSONDecodeError as error:
        what = f"not JSON behind the id of a schema, and {_NO_REGISTRY}" if framed else "not JSON"
        raise InputError(DeadLetterClass.NOT_JSON, f"{what}: {error.msg} at character {error.pos}") from error
    if not isinstance(document, dict):
        raise InputError(DeadLetterClass.INVALID, f"a JSON object is expected, not {type(document).__name__}")
    # Most events are one object, of which the text alone tells that it has neither too many parts nor levels.
    arrays = value.count(b"[")
    flat = value.count(b"{") == 1 and arrays < MAX_DEPTH and (max_parts is None or len(document) + arrays <= max_parts)
    keys, levels = (len(document), 1 + arrays) if flat else _shape(document, max_parts)
    if levels > MAX_DEPTH:
        raise InputError(DeadLetterClass.NOT_JSON, f"{levels} levels of nesting, expected at most {MAX_DEPTH}")
    # The parser silently takes the last of repeated keys, so the keys in the text are counted. Where there are as many
    # colons as keys, which is nearly always so, no key is repeated.
    if value.count(b":") != keys and sum(map(bool, _STRINGS.findall(value))) != keys:
        raise InputError(DeadLetterClass.INVALID, "a key is repeated")
    return document


def _load(value: bytes, warnings: list[str] | None) -> Any:
    try:
        return orjson.loads(value)
    except orjson.JSONDecodeError:
        # The parser takes no halves.
        if (mended := _without_halves(value)) == value:
            raise
        document = orjson.loads(mended)
        if warnings is not None:
            warnings.append(HALF_REPLACED)
        return document


def read_past_defects(value: bytes | None) -> tuple[dict[str, Any], bool]:
    """The JSON object without the keys that are given twice, empty if it can't be read; True if there are such keys."""
    repeats = False

    def build(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        nonlocal repeats
        made = dict(pairs)
        if len(made) == len(pairs):
            return made
        repeats = True
        counts = Counter(name for name, _ in pairs)
        return {name: value for name, value in pairs if counts[name] == 1}

    text = _without_halves(_bare(value or b""))
    # Python's own parser: it says which keys are repeated, and reads what only ours is too strict for.
    integer = _integer if _LONG.search(text) else None
    try:
        found = json.loads(text.decode(), object_pairs_hook=build, parse_int=integer)
    except (ValueError, RecursionError):
        return {}, False
    return (found, repeats) if isinstance(found, dict) else ({}, False)


def _integer(digits: str) -> float:
    # Python refuses to read more than a few thousand digits.
    return int(digits) if len(digits) <= _MOST_DIGITS else float(digits)


def check_version(document: dict[str, Any]) -> None:
    """Raise InputError `unsupported_version` if this version doesn't read the event's schema version."""
    version = document.get("schema_version", SCHEMA_VERSION)
    # The schema refuses a version that is no integer.
    if type(version) is int and version != SCHEMA_VERSION:
        raise InputError(
            DeadLetterClass.UNSUPPORTED_VERSION, f"schema_version: {version}, this version reads {SCHEMA_VERSION}"
        )


def validate(model: type[E], document: dict[str, Any]) -> E:
    """Validate the object as an event.

    Raises InputError `invalid` with the problems, as `path: problem (value)`, with values cut short: of more than
    MAX_WORDED the first, and how many more there are.
    """
    try:
        return model.model_validate(document)
    except ValidationError as error:
        found = [(_path(item, document), item) for item in error.errors(include_url=False)]
        wrong = next((path for path, _ in found if path), None)
        problems = []
        for path, item in found[:MAX_WORDED]:
            what = explain_problem(item, model)
            # The value without a field is the whole event.
            quoted = path and item["type"] != "missing"
            problems.append(problem(path, what, item["input"]) if quoted else ": ".join(filter(None, (path, what))))
        raise InputError(DeadLetterClass.INVALID, join_first(problems, len(found[MAX_WORDED:])), wrong) from error


def _path(item: ErrorDetails, document: Any) -> str:
    """The place of a problem in the document, without the members of unions, which pydantic names on the way."""
    path, at, last = [], document, len(item["loc"]) - 1
    for place, name in enumerate(item["loc"]):
        there = name in at if isinstance(at, dict) else isinstance(at, list) and name in range(len(at))
        if there:
            at = at[name]
        elif place < last or item["type"] != "missing":
            continue
        path.append(str(name))
    return ".".join(path)


def check_dimension(vector: Sequence[float] | None, dimension: int) -> None:
    """Raise InputError `vector_dimension` for a vector of another length than the collection's."""
    if vector is not None and len(vector) != dimension:
        raise InputError(DeadLetterClass.VECTOR_DIMENSION, f"vector: {len(vector)} numbers, expected {dimension}")


def _shape(document: Any, max_parts: int | None) -> tuple[int, int]:
    """The number of keys, and the number of levels of objects and arrays.

    Raises InputError `too_large` for more parts, before anything else looks at each of them.
    """
    keys = levels = nested = 0
    level = [document]
    while level:
        levels += 1
        below: list[Any] = []
        for value in level:
            items = value.values() if (is_object := isinstance(value, dict)) else value
            keys += len(value) if is_object else 0
            # The numbers of a vector are skipped as a whole.
            if not _NESTING.isdisjoint(map(type, items)):
                below += [item for item in items if type(item) in _NESTING]
            if max_parts is not None and keys + nested + len(below) > max_parts:
                raise InputError(DeadLetterClass.TOO_LARGE, f"value: more than {max_parts} keys, objects and arrays")
        nested += len(below)
        level = below
    return keys, levels
