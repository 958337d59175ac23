"""Avro: the payload of an event, written by a schema, as the JSON that the event would be otherwise.

Rules
-----
- A field, or an entry of a map, that is null is left out: Avro has no other word for a field that is missing.
- `timestamp-millis` and `timestamp-micros` become texts of RFC 3339 in UTC. `date`, the times of a day and the local
  timestamps become texts of ISO 8601.
- `decimal` becomes a number, an integer if it has no decimal places. `uuid` becomes text. Bytes and `fixed` become text
  in base64.
- A schema is refused that holds itself, or has an array of items without bytes: a few bytes would be a value of any
  depth, or of any length.
- A payload must be one value of its schema, and end with it. NaN and infinity are refused, as in JSON, and so is a
  decimal that is too large for a number of it.
"""

import base64
import io
import math
from collections.abc import Callable, Sequence
from decimal import Decimal
from functools import cache
from typing import Any, Final

import orjson

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

        _bound_decimals()
        named: dict[str, Any] = {}
        try:
            for reference in references:
                parse_schema(orjson.loads(reference), named_schemas=named)
            self._schema = parse_schema(orjson.loads(schema), named_schemas=named)
            _least_bytes(self._schema, named, {})
        except NotAvro:
            raise
        except Exception as error:
            raise NotAvro(f"not a schema of Avro: {type(error).__name__}") from error
        self._read = schemaless_reader

    def to_json(self, payload: bytes) -> bytes:
        """The payload's value as JSON. Raises NotAvro."""
        stream = io.BytesIO(payload)
        try:
            value = self._read(stream, self._schema)
        except (EOFError, LookupError, ValueError, ArithmeticError, TypeError) as error:
            raise NotAvro(f"not a value of it: {type(error).__name__} at byte {stream.tell()}") from error
        if rest := len(payload) - stream.tell():
            raise NotAvro(f"not a value of it: {rest} bytes are left over")
        return orjson.dumps(_plain(value), _encode, orjson.OPT_UTC_Z)


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


@cache
def _bound_decimals() -> None:
    """Have the library refuse decimals that are too long for a number of JSON: their time grows with their square."""
    from fastavro.read import LOGICAL_READERS

    def bound(read: Callable[..., Decimal]) -> Callable[..., Decimal]:
        def read_short(data: bytes, *schemas: Any) -> Decimal:
            if len(data) > _DECIMAL:
                raise ValueError(f"a decimal of {len(data)} bytes, expected at most {_DECIMAL}")
            return read(data, *schemas)

        return read_short

    LOGICAL_READERS.update({kind: bound(LOGICAL_READERS[kind]) for kind in ("bytes-decimal", "fixed-decimal")})


def _encode(value: Any) -> Any:
    """A value that JSON's writer does not know, as one that it knows."""
    return base64.b64encode(value).decode()


def _least_bytes(schema: Any, named: dict[str, Any], known: dict[str, int | None]) -> int:
    """The fewest bytes that a value takes; 1 stands for any number. Raises NotAvro for a schema that is refused.

    `known` has those of records, None while they are looked at.
    """
    if isinstance(schema, list):
        return 1 + min((_least_bytes(each, named, known) for each in list(schema)), default=0)
    if isinstance(schema, str):
        if schema not in named:
            return 0 if schema == _EMPTY else 1
        schema = named[schema]
    match schema["type"]:
        case "record" | "error":
            name = schema["name"]
            if name in known and (size := known[name]) is None:
                raise NotAvro(f"{name} holds itself, which is not read")
            if name not in known:
                known[name] = None
                known[name] = sum([_least_bytes(each["type"], named, known) for each in schema["fields"]])
            size = known[name]
            assert size is not None
            return size
        case "array":
            if not _least_bytes(schema["items"], named, known):
                raise NotAvro("an array has items without bytes, which is not read")
            return 1
        case "map":
            _least_bytes(schema["values"], named, known)
            return 1
        case "fixed":
            return min(1, int(schema["size"]))
        case "enum":
            return 1
        case inner:
            return _least_bytes(inner, named, known)
