"""Avro: the payload of an event, written by a schema, as the JSON that the event would be otherwise.

Rules:
- A field, or an entry of a map, that is null is left out: Avro has no other word for a field that is missing.
- `timestamp-millis` and `timestamp-micros` become texts of RFC 3339 in UTC. `date`, the times of a day and the local
  timestamps become texts of ISO 8601.
- `decimal` becomes a number, an integer if it has no decimal places. `uuid` becomes text. Bytes and `fixed` become text
  in base64.
- A schema is refused that holds itself, has an array of items without bytes, or nests deeper than events may: a few
  bytes would be a value of any depth, or of any length.
- A payload is refused, while it is read, once its JSON is sure to be too long: a byte may stand for a record of many
  names, or for the long symbol of an enum. What is read until then takes a few times the bytes that are allowed.
- A payload must be one value of its schema, and end with it. NaN and infinity are refused, as in JSON, and so is a
  decimal that is too large for a number of it.
"""

import base64
import io
import math
import threading
from collections.abc import Callable, Sequence
from decimal import Decimal
from typing import Any, Final, NamedTuple

import orjson

from schemas.errors import DeadLetterClass, InputError
from schemas.event import MAX_DEPTH

MAX_SCHEMA: Final = 1 << 20
"""Characters of the longest schema, with those that it names."""

_EMPTY: Final = "null"

_BOUND: Final = "rankstream-bound"
"""The logical type of all that may be longer in JSON, for which the library calls us with each value."""

_TIME: Final = 10
"""Characters of the shortest time in JSON."""

_DECIMAL: Final = 512
"""Bytes of the longest decimal."""


class NotAvro(ValueError):
    """A schema that cannot be used, or a payload that is not of its schema."""


class _Room(threading.local):
    """The bytes that the rest of a payload may have as JSON."""

    left = 0
    limit = 0

    def take(self, size: int) -> None:
        """Take the bytes of a part. Raises InputError `too_large` if there are fewer."""
        self.left -= size
        if self.left < 0:
            self.refuse()

    def refuse(self) -> None:
        most = self.limit
        raise InputError(DeadLetterClass.TOO_LARGE, f"value: more than {most} bytes as JSON, expected at most {most}")


class AvroSchema:
    """A writer's schema. `references` are the schemas that it names, each before those that name it.

    Raises NotAvro, and ImportError without the library.
    """

    def __init__(self, schema: str, references: Sequence[str] = ()) -> None:
        from fastavro import parse_schema, schemaless_reader

        named: dict[str, Any] = {}
        self._room = _Room()
        try:
            for reference in references:
                parse_schema(orjson.loads(reference), named_schemas=named)
            self._schema = parse_schema(orjson.loads(schema), named_schemas=named)
            levels = _Bounds(named, self._room).add(self._schema).levels
        except NotAvro:
            raise
        except Exception as error:
            raise NotAvro(f"not a schema of Avro: {type(error).__name__}") from error
        if levels > MAX_DEPTH:
            raise NotAvro(f"its values have {levels} levels of nesting, expected at most {MAX_DEPTH}")
        self._read = schemaless_reader

    def to_json(self, payload: bytes, max_bytes: int) -> bytes:
        """The payload's value as JSON. Raises NotAvro, and InputError `too_large` for more than `max_bytes`."""
        room = self._room
        room.left = room.limit = max_bytes
        # Short numbers and nulls are shorter in JSON.
        if (size := len(payload)) > (limit := 2 * max_bytes):
            raise InputError(DeadLetterClass.TOO_LARGE, f"value: {size} bytes of Avro, expected at most {limit}")
        stream = io.BytesIO(payload)
        try:
            value = self._read(stream, self._schema)
        except (EOFError, LookupError, ValueError, ArithmeticError, TypeError) as error:
            raise NotAvro(f"not a value of it: {type(error).__name__} at byte {stream.tell()}") from error
        if rest := len(payload) - stream.tell():
            raise NotAvro(f"not a value of it: {rest} bytes are left over")
        found = orjson.dumps(_plain(value), _in_base64, orjson.OPT_UTC_Z)
        if len(found) > max_bytes:
            room.refuse()
        return found


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _plain(each) for name, each in value.items() if each is not None}
    if isinstance(value, list):
        return [_plain(each) for each in value]
    if isinstance(value, Decimal):
        exponent = value.as_tuple().exponent
        whole = isinstance(exponent, int) and exponent >= 0 and abs(value) < 1 << 63
        value = int(value) if whole else float(value)
    if isinstance(value, float) and not math.isfinite(value):
        raise NotAvro(f"a number is {value}, and JSON has none such")
    return value


def _in_base64(value: Any) -> str:
    return base64.b64encode(value).decode()


class _Size(NamedTuple):
    """The fewest bytes that a value takes, where 1 stands for any number, and its levels of objects and arrays."""

    least: int
    levels: int = 0


class _Bounds:
    """Adds the bound to each part of a schema whose JSON may be longer than its bytes by more than a few times."""

    def __init__(self, named: dict[str, Any], room: _Room) -> None:
        from fastavro.read import LOGICAL_READERS

        self._readers = LOGICAL_READERS
        self._named = named
        self._room = room
        self._known: dict[str, _Size] = {}
        self._open: set[str] = set()
        """The records that are looked at."""

    def add(self, schema: Any) -> _Size:
        """Add the bounds. Raises NotAvro for a schema that is refused."""
        if isinstance(schema, list):
            sizes = [self.add(each) for each in schema]
            return _Size(1, max((each.levels for each in sizes), default=0))
        if isinstance(schema, str):
            if schema not in self._named:
                return _Size(int(schema != _EMPTY))
            schema = self._named[schema]
        match schema["type"]:
            case "record" | "error":
                name = schema["name"]
                if name in self._open:
                    raise NotAvro(f"{name} holds itself, which is not read")
                if name not in self._known:
                    self._open.add(name)
                    self._known[name] = self._add_to_fields(schema)
                    self._open.remove(name)
                return self._known[name]
            case "array":
                items = self.add(schema["items"])
                if not items.least:
                    raise NotAvro("an array has items without bytes, which is not read")
                # Each item has a character, and a comma or the bracket.
                self._bound(schema, lambda items: self._room.take(2 * len(items) or 2))
                return _Size(1, 1 + items.levels)
            case "map":
                self._bound(schema, lambda _: self._room.take(2))
                return _Size(1, 1 + self.add(schema["values"]).levels)
            case "fixed":
                self._bound_logical(schema)
                return _Size(min(1, int(schema["size"])))
            case "enum":
                self._bound(schema, lambda symbol: self._room.take(len(symbol) + 2))
                return _Size(1)
            case "null" | "boolean" | "int" | "long" | "float" | "double" | "bytes" | "string" as kind:
                self._bound_logical(schema)
                return _Size(int(kind != _EMPTY))
            case inner:
                return self.add(inner)

    def _add_to_fields(self, schema: dict[str, Any]) -> _Size:
        from fastavro.schema import extract_record_type

        # Fields that are always null would be read for nothing, and have no bytes that bound their number.
        schema["fields"] = [each for each in schema["fields"] if extract_record_type(each["type"]) != _EMPTY]
        sizes = [self.add(each["type"]) for each in schema["fields"]]
        written = {each["name"]: len(each["name"]) + len('"":') for each in schema["fields"]}

        def take(value: dict[str, Any]) -> None:
            self._room.take(2 + sum([written[name] for name, each in value.items() if each is not None]))

        self._bound(schema, take)
        return _Size(sum(each.least for each in sizes), 1 + max((each.levels for each in sizes), default=0))

    def _bound_logical(self, schema: dict[str, Any]) -> None:
        """Bound the values of a logical type, which are longer than their bytes if they are times."""
        kind, logical = schema["type"], schema.get("logicalType")
        read = self._readers.get(f"{kind}-{logical}")
        if logical == "decimal" and read is not None:
            self._bound(schema, _check_decimal, read)
        elif kind in ("int", "long") and read is not None and logical != _BOUND:
            self._bound(schema, lambda _: self._room.take(_TIME), read)

    def _bound(
        self, schema: dict[str, Any], take: Callable[[Any], None], read: Callable[..., Any] | None = None
    ) -> None:
        def read_bounded(value: Any, *schemas: Any) -> Any:
            take(value)
            return value if read is None else read(value, *schemas)

        schema["logicalType"], schema[_BOUND] = _BOUND, read_bounded
        self._readers.setdefault(f"{schema['type']}-{_BOUND}", _call)


def _call(value: Any, schema: Any, *schemas: Any) -> Any:
    return schema[_BOUND](value, schema, *schemas)


def _check_decimal(data: bytes) -> None:
    """Refuse a decimal that is too long for a number of JSON: the time that it takes grows with its square."""
    if len(data) > _DECIMAL:
        raise ValueError(f"a decimal of {len(data)} bytes, expected at most {_DECIMAL}")
