"""The types of fields that several events have, readers for those that name a query's caller, and effects of settings.

Times on the wire are RFC 3339 with an offset, or Unix seconds; never without an offset.
"""

import ast
import hashlib
import inspect
import re
from collections import ChainMap
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime, timedelta
from enum import Enum, auto
from functools import cache
from itertools import pairwise
from typing import Annotated, Any, Final, Literal, Self, TypeVar

import orjson
from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    GetJsonSchemaHandler,
    JsonValue,
    StringConstraints,
    TypeAdapter,
    model_validator,
)
from pydantic.fields import FieldInfo
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema

T = TypeVar("T")

SCHEMA_VERSION: Final = 1
MAX_METADATA_BYTES: Final = 4096

MAX_FLOAT32: Final = (2 - 2**-23) * 2.0**127
"""The largest number that a vector of the index can contain."""


def _integer(value: object) -> object:
    # True and 1.0 equal 1 in Python, but are no version.
    if type(value) is not int:
        raise ValueError("an integer is expected")
    return value


SchemaVersion = Annotated[Literal[1], BeforeValidator(_integer)]
"""The version of an event: the integer 1."""

Component = Annotated[float, Field(ge=-MAX_FLOAT32, le=MAX_FLOAT32, allow_inf_nan=False)]
Vector = Annotated[list[Component], Field(min_length=1, max_length=65_536, fail_fast=True)]
Name = Annotated[str, StringConstraints(min_length=1, max_length=256)]
QueryId = Annotated[str, StringConstraints(min_length=1, max_length=512)]
DocumentId = Annotated[str, StringConstraints(min_length=1, max_length=4096)]


def _write(value: object) -> object:
    return str(value) if type(value) is int else value


AnyId = Annotated[DocumentId, BeforeValidator(_write, json_schema_input_type=DocumentId | int)]
"""The id of a document as people write it, who may have whole numbers; these are texts in the index."""


def _check_size(metadata: dict[str, JsonValue]) -> dict[str, JsonValue]:
    if (size := len(orjson.dumps(metadata))) > MAX_METADATA_BYTES:
        raise ValueError(f"{size} bytes of JSON, at most {MAX_METADATA_BYTES}")
    return metadata


Metadata = Annotated[dict[str, JsonValue], AfterValidator(_check_size)]


def missing_if_empty(value: str | None) -> str | None:
    """The value; None for the empty string."""
    return value or None


MaybeName = Annotated[Annotated[str, StringConstraints(max_length=256)] | None, AfterValidator(missing_if_empty)]
"""A name; the empty string counts as missing."""


class Documented(BaseModel):
    """A model whose JSON Schema describes each field by `description`, or by the docstring below it if that is longer.

    Docstrings are read from the source when a schema is made. With pydantic's own use_attribute_docstrings each class
    reads its source when it is defined, and the settings take a fifth longer to import.
    """

    @classmethod
    def __get_pydantic_json_schema__(cls, core_schema: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        schema = handler(core_schema)
        properties = handler.resolve_ref_schema(schema)["properties"]
        docstrings = ChainMap(*map(_docstrings, cls.__mro__[: cls.__mro__.index(Documented)]))
        for name, field in cls.model_fields.items():
            if name in docstrings:
                properties[field.alias or name].setdefault("description", docstrings[name])
        return schema


@cache
def _docstrings(model: type) -> dict[str, str]:
    """The docstrings of the attributes that this class itself defines, each as one line."""
    (definition,) = ast.parse(inspect.getsource(model)).body
    assert isinstance(definition, ast.ClassDef)
    found = {}
    for field, below in pairwise(definition.body):
        match field, below:
            case ast.AnnAssign(target=ast.Name(id=name)), ast.Expr(value=ast.Constant(value=str(text))):
                found[name] = " ".join(text.split())
    return found


class Strict(Documented):
    """A model for which an unknown field is an error; no value is converted, and values do not change."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


def raise_problems(problems: Iterable[str]) -> None:
    """Raise ValueError with the problems, if there are any."""
    if said := "; ".join(problems):
        raise ValueError(said)


class Consistent(Documented):
    """A model whose values must fit together. Parts of a query and documents have validators instead: one call each."""

    @model_validator(mode="after")
    def _fits_together(self) -> Self:
        raise_problems(self.contradictions())
        return self

    def contradictions(self) -> Iterator[str]:
        """Problems of values that do not fit each other. All are reported at once."""
        yield from ()


_LEAP: Final = re.compile(r"(\d{4}-\d\d-\d\d[Tt ]\d\d:\d\d:)60(\D.*)?", re.ASCII)
_YEAR_1: Final = datetime.min.replace(tzinfo=UTC).timestamp()
_YEAR_10000: Final = datetime(9999, 12, 31, tzinfo=UTC).timestamp() + 86_400


def read_time(text: str) -> datetime:
    """A time of RFC 3339, or one of ISO 8601 without an offset, which is in UTC; a second 60 is that after 59.

    Raises ValueError for any other text.
    """
    moment, leap = _parse(text)
    try:
        moment += timedelta(seconds=leap)
    except OverflowError:
        raise ValueError("a time outside the years 1 to 9999") from None
    return moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)


def unix_seconds(value: object) -> float:
    """Convert an RFC 3339 string with an offset, or Unix seconds, to Unix seconds; a second 60 is that after 59.

    Raises ValueError for a naive or unreadable time, and for one outside the years 1 to 9999.
    """
    if isinstance(value, str):
        moment, leap = _parse(value)
        if moment.tzinfo is None:
            raise ValueError("a time needs an offset, such as Z or +02:00")
        seconds = moment.timestamp() + leap
    elif isinstance(value, int | float) and not isinstance(value, bool):
        seconds = value
    else:
        raise ValueError("a time is an RFC 3339 string or Unix seconds")
    # An offset can move a time out of the years that its digits name; NaN fails both comparisons.
    if not _YEAR_1 <= seconds < _YEAR_10000:
        raise ValueError("a time outside the years 1 to 9999")
    return float(seconds)


def _parse(text: str) -> tuple[datetime, int]:
    """The time, and the seconds that are added to it."""
    # RFC 3339 has two forms that the standard library doesn't read: a lower-case Z, and a leap second.
    text = f"{text[:-1]}Z" if text.endswith("z") else text
    leap = _LEAP.fullmatch(text)
    try:
        return datetime.fromisoformat(text if leap is None else f"{leap[1]}59{leap[2] or ''}"), int(leap is not None)
    except ValueError:
        raise ValueError("not an RFC 3339 time") from None


def rfc3339(seconds: float) -> str:
    """Format Unix seconds as RFC 3339 in UTC, to the millisecond."""
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


Timestamp = Annotated[float, BeforeValidator(unix_seconds, json_schema_input_type=str | float), Field()]
"""A field that accepts both forms and holds Unix seconds."""


_STRICT: Final = ConfigDict(strict=True)
_QUERY_ID: Final[TypeAdapter[str]] = TypeAdapter(QueryId, config=_STRICT)
_METADATA: Final[TypeAdapter[dict[str, Any]]] = TypeAdapter(Metadata, config=_STRICT)


def valid_query_id(value: object) -> str | None:
    """The value, if it is a `query_id`."""
    try:
        return _QUERY_ID.validate_python(value)
    except ValueError:
        return None


def valid_metadata(value: object) -> dict[str, Any] | None:
    """The value, if it is `metadata` that JSON carries unchanged."""
    try:
        valid = _METADATA.validate_python(value)
        # NaN is written as null; what is no JSON, as an integer of 65 bits, is a TypeError.
        return valid if orjson.loads(orjson.dumps(valid)) == valid else None
    except (ValueError, TypeError, RecursionError):
        return None


def merge_objects(under: Mapping[str, Any], over: Mapping[str, Any]) -> dict[str, Any]:
    """Both objects as one, member by member; `over` decides unless both values are objects."""
    merged = dict(under)
    for name, value in over.items():
        beneath = merged.get(name)
        merged[name] = merge_objects(beneath, value) if isinstance(beneath, dict) and isinstance(value, dict) else value
    return merged


def leaves(values: Mapping[str, Any], path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Each value in an object and in the objects within it, with its path; an empty object is a value."""
    for name, value in values.items():
        if isinstance(value, dict) and value:
            yield from leaves(value, (*path, name))
        else:
            yield (*path, name), value


class Effect(Enum):
    """Changes by a setting: of answers alone, of the index, or of each point that is made of a document."""

    NONE = auto()
    ANSWER = auto()
    INDEX = auto()
    POINT = auto()


_NEWER: Final = "newer"

NoEffect = Annotated[T, Effect.NONE]
Answer = Annotated[T, Effect.ANSWER]
Index = Annotated[T, Effect.INDEX]
Point = Annotated[T, Effect.POINT]
Newer = Annotated[T, _NEWER]
"""Its default does not count, so that digests are those of releases without the setting."""


def walk_fields(section: type[BaseModel], path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], FieldInfo]]:
    """The path and the field of every section and setting in a section."""
    for name, field in section.model_fields.items():
        yield (*path, name), field
        if isinstance(field.annotation, type) and issubclass(field.annotation, BaseModel):
            yield from walk_fields(field.annotation, (*path, name))


def by_effect(section: BaseModel, effect: Effect, inherited: Effect = Effect.NONE) -> dict[str, Any]:
    """The values, as JSON, of the settings in a section that have this effect; `inherited` is the section's own."""
    found: dict[str, Any] = {}
    dumped = section.model_dump(mode="json", by_alias=False)
    for name, field in type(section).model_fields.items():
        value = getattr(section, name)
        own = next((each for each in field.metadata if isinstance(each, Effect)), inherited)
        if _NEWER in field.metadata and value == field.get_default():
            continue
        if isinstance(value, BaseModel):
            if inside := by_effect(value, effect, own):
                found[name] = inside
        elif own is effect:
            sections = value.items() if isinstance(value, dict) else ()
            inside = {key: by_effect(each, effect, own) for key, each in sections if isinstance(each, BaseModel)}
            found[name] = inside or dumped[name]
    return found


def hash_values(values: Mapping[str, Any]) -> str:
    """SHA-256 of the values."""
    return hashlib.sha256(orjson.dumps(values, option=orjson.OPT_SORT_KEYS)).hexdigest()
