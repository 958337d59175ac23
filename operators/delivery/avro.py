"""Avro: the payload of an event, written by a schema, as the JSON that the event would be otherwise.

Rules:
- A field, or an entry of a map, that is null is left out: Avro has no other word for a field that is missing.
- `timestamp-millis` and `timestamp-micros` become texts of RFC 3339 in UTC. `date`, the times of a day and the local
  timestamps become texts of ISO 8601.
- `decimal` becomes a number, an integer if it has no decimal places. `uuid` becomes text. Bytes and `fixed` become text
  in base64.
- A schema is refused that holds itself, has items or fields without bytes, or nests deeper than events may: a few
  bytes would be a value of any depth, or of any length. Fields that are always null are left out.
- A payload may have no more bytes than its JSON may. What is read of it takes 200 bytes of memory for each at most, and
  the long names and symbols that a byte may stand for are counted before they are written.
- A payload must be one value of its schema, and end with it. NaN and infinity are refused, as in JSON, and so is a
  decimal that is too large for a number of it.
"""

import base64
import io
import math
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Final, NamedTuple

import orjson

from schemas.errors import DeadLetterClass, InputError
from schemas.event import MAX_DEPTH

MAX_SCHEMA: Final = 1 << 20
"""Characters of the longest schema, with those that it names."""

_EMPTY: Final = "null"

_DECIMAL: Final = 512
"""Bytes of the longest decimal."""


class NotAvro(ValueError):
    """A schema that cannot be used, or a payload that is not of its schema."""


class AvroSchema:
    """A writer's schema. `references` are the schemas that it names, each before those that name it.

    Raises NotAvro, and ImportError without the library.
    """

    def __init__(self, schema: str, references: Sequence[str] = ()) -> None:
        from fastavro import parse_schema, schemaless_reader

        named: dict[str, Any] = {}
        try:
            for reference in references:
                parse_schema(orjson.loads(reference), named_schemas=named)
            self._schema = parse_schema(orjson.loads(schema), named_schemas=named)
            levels = _Check(named).check(self._schema).levels
        except NotAvro:
            raise
        except Exception as error:
            raise NotAvro(f"not a schema of Avro: {type(error).__name__}") from error
        if levels > MAX_DEPTH:
            raise NotAvro(f"its values have {levels} levels of nesting, expected at most {MAX_DEPTH}")
        _bound_decimals()
        self._read = schemaless_reader

    def to_json(self, payload: bytes, max_bytes: int) -> bytes:
        """The payload's value as JSON. Raises NotAvro, and InputError `too_large` for more than `max_bytes`."""
        room = _Room(max_bytes)
        if (size := len(payload)) > max_bytes:
            raise InputError(DeadLetterClass.TOO_LARGE, f"value: {size} bytes of Avro, expected at most {max_bytes}")
        stream = io.BytesIO(payload)
        try:
            value = self._read(stream, self._schema)
        except (EOFError, LookupError, ValueError, ArithmeticError, TypeError) as error:
            raise NotAvro(f"not a value of it: {type(error).__name__} at byte {stream.tell()}") from error
        if rest := len(payload) - stream.tell():
            raise NotAvro(f"not a value of it: {rest} bytes are left over")
        found = orjson.dumps(_plain(value, room), _in_base64, orjson.OPT_UTC_Z)
        _Room(max_bytes).take(len(found))
        return found


def _plain(value: Any, room: "_Room") -> Any:
    if isinstance(value, dict):
        room.take(sum(len(name) for name, each in value.items() if each is not None))
        return {name: _plain(each, room) for name, each in value.items() if each is not None}
    if isinstance(value, list):
        return [_plain(each, room) for each in value]
    if isinstance(value, str):
        room.take(len(value))
    if isinstance(value, Decimal):
        exponent = value.as_tuple().exponent
        whole = isinstance(exponent, int) and exponent >= 0 and abs(value) < 1 << 63
        value = int(value) if whole else float(value)
    if isinstance(value, float) and not math.isfinite(value):
        raise NotAvro(f"a number is {value}, and JSON has none such")
    return value


@dataclass
class _Room:
    """Counts the characters of a payload's texts, names and symbols: a byte may stand for a long one."""

    limit: int
    taken: int = 0

    def take(self, size: int) -> None:
        """Raises InputError `too_large` if there are more than the limit."""
        self.taken += size
        if self.taken > self.limit:
            raise InputError(
                DeadLetterClass.TOO_LARGE, f"value: more than {self.limit} bytes as JSON, expected at most {self.limit}"
            )


def _in_base64(value: Any) -> str:
    return base64.b64encode(value).decode()


class _Size(NamedTuple):
    """True if each value takes bytes, and its levels of objects and arrays."""

    has_bytes: bool
    levels: int = 0


class _Check:
    """Checks a schema, and leaves out its fields that are always null."""

    def __init__(self, named: dict[str, Any]) -> None:
        self._named = named
        self._known: dict[str, _Size | None] = {}
        """The records by name; None: it is looked at."""

    def check(self, schema: Any) -> _Size:
        """The size of its values. Raises NotAvro for a schema that is refused."""
        if isinstance(schema, list):
            sizes = [self.check(each) for each in schema]
            return _Size(True, max((each.levels for each in sizes), default=0))
        if isinstance(schema, str):
            if schema not in self._named:
                return _Size(schema != _EMPTY)
            schema = self._named[schema]
        match schema["type"]:
            case "record" | "error":
                name = schema["name"]
                if name not in self._known:
                    self._known[name] = None
                    self._known[name] = self._check_fields(schema)
                if (size := self._known[name]) is None:
                    raise NotAvro(f"{name} holds itself, which is not read")
                return size
            case "array" | "map" as kind:
                items = self.check(schema["items" if kind == "array" else "values"])
                if kind == "array" and not items.has_bytes:
                    raise NotAvro("an array has items without bytes, which is not read")
                return _Size(True, 1 + items.levels)
            case "fixed":
                return _Size(int(schema["size"]) > 0)
            case "enum" | "null" | "boolean" | "int" | "long" | "float" | "double" | "bytes" | "string" as kind:
                return _Size(kind != _EMPTY)
            case inner:
                return self.check(inner)

    def _check_fields(self, schema: dict[str, Any]) -> _Size:
        from fastavro.schema import extract_record_type

        schema["fields"] = [each for each in schema["fields"] if extract_record_type(each["type"]) != _EMPTY]
        sizes = [self.check(each["type"]) for each in schema["fields"]]
        if not all(each.has_bytes for each in sizes):
            raise NotAvro(f"{schema['name']} has a field without bytes, which is not read")
        return _Size(bool(sizes), 1 + max((each.levels for each in sizes), default=0))


def _bound_decimals() -> None:
    """Have the library refuse a decimal that is too long for a number of JSON: its time grows with its square."""
    from fastavro.read import LOGICAL_READERS

    def read_short(data: bytes, *schemas: Any, read: Any = LOGICAL_READERS["bytes-decimal"]) -> Any:
        if len(data) > _DECIMAL:
            raise ValueError(f"a decimal of {len(data)} bytes, expected at most {_DECIMAL}")
        return read(data, *schemas)

    if LOGICAL_READERS["bytes-decimal"].__name__ != read_short.__name__:
        LOGICAL_READERS["bytes-decimal"] = LOGICAL_READERS["fixed-decimal"] = read_short
