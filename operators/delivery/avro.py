"""Avro: the payload of an event, written by a schema, as the JSON that the event would be otherwise.

Rules
-----
- A field, or an entry of a map, that is null is left out: Avro has no other word for a field that is missing.
- `timestamp-millis` and `timestamp-micros` become texts of RFC 3339 in UTC. `date`, the times of a day and the local
  timestamps become texts of ISO 8601.
- `decimal` becomes a number, an integer if it has no decimal places. `uuid` becomes text. Bytes and `fixed` become text
  in base64.
- A schema is refused that holds itself, or has an array of items without bytes: a few bytes would be a value of any
  depth, or of any length. So is one with more levels than an event may have.
- A few bytes may still be a long text: names of fields, records without bytes and symbols are in the schema. So a
  payload is measured first, in a time that its own bytes bound, and one that is too large as JSON is not read.
- A payload must be one value of its schema, and end with it. NaN and infinity are refused, as in JSON, and so is a
  decimal that is too large for a number of it.
"""

import base64
import io
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from functools import cache
from typing import Any, Final

import orjson

from schemas.errors import DeadLetterClass, InputError
from schemas.event import MAX_DEPTH

_EMPTY: Final = "null"

_NUMBERS: Final = frozenset({"int", "long"})
_SIZES: Final = {"boolean": 1, "float": 4, "double": 8}
"""Bytes of values that all have the same number of them."""

_TIME: Final = len('"1970-01-01T00:00:00Z"')
_BASE64: Final = 4 / 3
_VARINT: Final = 10
"""Bytes of the longest number."""

_DECIMAL: Final = 512
"""Bytes of the longest decimal."""


@dataclass(frozen=True, slots=True)
class JsonBounds:
    """Bounds on an event: bytes as JSON, and the number of its keys, objects and arrays."""

    bytes: int
    parts: int


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
            self._shape = _shape(self._schema, named, {})
        except NotAvro:
            raise
        except Exception as error:
            raise NotAvro(f"not a schema of Avro: {type(error).__name__}") from error
        self._read = schemaless_reader

    def to_json(self, payload: bytes, most: JsonBounds) -> bytes:
        """The payload's value as JSON. Raises NotAvro, and InputError `too_large`."""
        meter = _Meter(payload, most)
        try:
            meter.values(self._shape)
        except EOFError:
            raise NotAvro(f"not a value of it: EOFError at byte {meter.place}") from None
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


@dataclass(frozen=True, slots=True)
class _Shape:
    """The part that all values of a schema have in common: `size` bytes in Avro, `text` bytes of JSON, and `parts`.

    `measure` passes by one value and counts what it has beyond that; None: all values have this size and no more.
    """

    size: int
    text: int
    parts: int = 0
    measure: "Callable[[_Meter], None] | None" = None


class _Meter:
    """Passes by the values of a payload, and counts the bytes and the parts of their JSON."""

    def __init__(self, payload: bytes, most: JsonBounds) -> None:
        self.place = 0
        self._payload = payload
        self._most = most
        self._text, self._parts = most.bytes, most.parts

    def count(self, text: int, parts: int = 0) -> None:
        """Count JSON. Raises InputError `too_large`."""
        self._text -= text
        self._parts -= parts
        if self._text < 0:
            raise InputError(DeadLetterClass.TOO_LARGE, f"value: more than {self._most.bytes} bytes as JSON")
        if self._parts < 0:
            what = f"value: more than {self._most.parts} keys, objects and arrays"
            raise InputError(DeadLetterClass.TOO_LARGE, what)

    def skip(self, size: int) -> None:
        """Pass by bytes. Raises EOFError if there are not as many."""
        if not 0 <= size <= len(self._payload) - self.place:
            raise EOFError
        self.place += size

    def number(self) -> int:
        """Read a number. Raises EOFError at the payload's end, and for a number that is too long."""
        value = 0
        for shift, byte in enumerate(self._payload[self.place : self.place + _VARINT]):
            value |= (byte & 0x7F) << 7 * shift
            if byte < 0x80:
                self.place += shift + 1
                return (value >> 1) ^ -(value & 1)
        raise EOFError

    def pass_number(self) -> None:
        """Pass by a number. Raises EOFError."""
        self.number()

    def values(self, shape: _Shape, number: int = 1) -> None:
        """Pass by some values, one behind the other, and count them. Raises InputError, and EOFError."""
        self.count(number * shape.text, number * shape.parts)
        if shape.measure is None:
            self.skip(number * shape.size)
        else:
            # Each takes a byte at least.
            for _ in range(min(number, len(self._payload) - self.place + 1)):
                shape.measure(self)

    def blocks(self, shape: _Shape) -> None:
        """Pass by the items of an array or a map, and count them. Raises InputError, and EOFError."""
        while number := self.number():
            if number < 0:
                self.number()
            self.values(shape, abs(number))


def _shape(schema: Any, named: dict[str, Any], known: dict[str, _Shape | None], level: int = 0) -> _Shape:
    """The shape of a schema's values. Raises NotAvro for a schema that is refused.

    `known` has the shapes of records, None while they are looked at.
    """
    if level > MAX_DEPTH:
        raise NotAvro(f"more than {MAX_DEPTH} levels, which are not read")
    if isinstance(schema, list):
        return _union([_shape(each, named, known, level) for each in schema])
    if isinstance(schema, str):
        if schema not in named:
            return _primitive(schema, None)
        schema = named[schema]
    match schema["type"]:
        case "record" | "error":
            name = schema["name"]
            if name in known and known[name] is None:
                raise NotAvro(f"{name} holds itself, which is not read")
            if (found := known.get(name)) is None:
                known[name] = None
                fields = {each["name"]: _shape(each["type"], named, known, level + 1) for each in schema["fields"]}
                found = known[name] = _record(fields)
            return found
        case "array":
            items = _shape(schema["items"], named, known, level + 1)
            if not items.size:
                raise NotAvro("an array has items without bytes, which is not read")
            return _repeated(_Shape(items.size, items.text + 1, items.parts, items.measure))
        case "map":
            return _repeated(
                _record({"": _primitive("string", None), ":": _shape(schema["values"], named, known, level + 1)})
            )
        case "fixed":
            size = int(schema["size"])
            return _Shape(size, math.ceil(_BASE64 * size) + 2)
        case "enum":
            return _enum(schema["symbols"])
        case str() as inner if inner not in named:
            return _primitive(inner, schema.get("logicalType"))
        case inner:
            return _shape(inner, named, known, level + 1)


def _primitive(kind: str, logical: str | None) -> _Shape:
    if kind == _EMPTY:
        # It is not in the JSON, and takes memory until it is left out.
        return _Shape(0, 1)
    if kind in _SIZES:
        return _Shape(_SIZES[kind], 1)
    if kind in _NUMBERS:
        return _Shape(1, 1 if logical is None else _TIME, 0, _Meter.pass_number)

    # Decimals have a bound of their own.
    each = 1.0 if kind == "string" else _BASE64 if logical is None else 0.0

    def measure(meter: _Meter) -> None:
        length = meter.number()
        meter.skip(length)
        meter.count(math.ceil(each * length))

    return _Shape(1, 2, 0, measure)


def _record(fields: Mapping[str, _Shape]) -> _Shape:
    shapes = list(fields.values())
    text = 2 + sum(len(name) + len('"":,') + shape.text for name, shape in fields.items())

    def measure(meter: _Meter) -> None:
        for shape in shapes:
            if shape.measure is None:
                meter.skip(shape.size)
            else:
                shape.measure(meter)

    whole = all(shape.measure is None for shape in shapes)
    size, parts = sum(shape.size for shape in shapes), 1 + len(fields) + sum(shape.parts for shape in shapes)
    return _Shape(size, text, parts, None if whole else measure)


def _repeated(item: _Shape) -> _Shape:
    return _Shape(1, 2, 1, lambda meter: meter.blocks(item))


def _union(branches: Sequence[_Shape]) -> _Shape:
    def measure(meter: _Meter) -> None:
        number = meter.number()
        if not 0 <= number < len(branches):
            raise EOFError
        meter.values(branches[number])

    return _Shape(1, 0, 0, measure)


def _enum(symbols: Sequence[str]) -> _Shape:
    def measure(meter: _Meter) -> None:
        number = meter.number()
        if not 0 <= number < len(symbols):
            raise EOFError
        meter.count(len(symbols[number]))

    return _Shape(1, 2, 0, measure)
