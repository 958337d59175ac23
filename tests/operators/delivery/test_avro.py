"""Events in Avro: written by the library, read as the JSON that they would be."""

import base64
import io
import json
import math
import string
import tracemalloc
import uuid
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from typing import Any, Final

import pytest
from fastavro import parse_schema, schemaless_writer
from hypothesis import given
from hypothesis import strategies as st

from operators.delivery.avro import AvroSchema, NotAvro
from schemas.errors import DeadLetterClass, InputError
from schemas.event import MAX_DEPTH

NAMES: Final = st.text(string.ascii_lowercase, min_size=1, max_size=4)
EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
LIMIT: Final = 2_000_000
SHARE: Final = 50_000
"""Bytes of JSON that a message of these tests may be."""


def record(**fields: Any) -> dict[str, Any]:
    """The schema of a record with fields of these types."""
    return {
        "type": "record",
        "name": "event",
        "fields": [{"name": name, "type": type_} for name, type_ in fields.items()],
    }


def logical(kind: str, name: str, **more: Any) -> dict[str, Any]:
    """A logical type."""
    return {"type": kind, "logicalType": name, **more}


def written(schema: Any, value: Any) -> bytes:
    """The value in Avro, by the library's writer."""
    stream = io.BytesIO()
    schemaless_writer(stream, parse_schema(schema), value)
    return stream.getvalue()


def read(schema: Any, value: Any) -> Any:
    """The value, written and read."""
    return json.loads(AvroSchema(json.dumps(schema)).to_json(written(schema, value), LIMIT))


def refused(schema: Any, payload: bytes = b"") -> str:
    """The message about a schema, or a payload of it."""
    with pytest.raises(NotAvro) as caught:
        AvroSchema(json.dumps(schema)).to_json(payload, LIMIT)
    return str(caught.value)


def _records(inner: st.SearchStrategy[tuple[Any, Any]]) -> st.SearchStrategy[tuple[Any, Any]]:
    def build(fields: dict[str, tuple[Any, Any]], name: uuid.UUID) -> tuple[Any, Any]:
        schema = record(**{field: type_ for field, (type_, _) in fields.items()})
        return {**schema, "name": f"r{name.hex}"}, {field: value for field, (_, value) in fields.items()}

    return st.builds(build, st.dictionaries(NAMES, inner, min_size=1, max_size=4), st.uuids())


def _nested(inner: st.SearchStrategy[tuple[Any, Any]]) -> st.SearchStrategy[tuple[Any, Any]]:
    return st.one_of(
        inner.map(lambda each: ({"type": "array", "items": each[0]}, [each[1]] * 2)),
        inner.map(lambda each: ({"type": "map", "values": each[0]}, {"ü": each[1]})),
        inner.map(lambda each: (["null", each[0]], each[1]) if not isinstance(each[0], list) else each),
        _records(inner),
    )


PLAIN: Final = st.one_of(
    st.tuples(st.just("string"), st.text(st.characters(codec="utf-8"))),
    st.tuples(st.just("long"), st.integers(-(2**63), 2**63 - 1)),
    st.tuples(st.just("int"), st.integers(-(2**31), 2**31 - 1)),
    st.tuples(st.just("double"), st.floats(allow_nan=False, allow_infinity=False)),
    st.tuples(st.just("boolean"), st.booleans()),
    st.tuples(
        st.just({"type": "enum", "name": "colour", "symbols": ["blue", "red"]}), st.sampled_from(["blue", "red"])
    ),
)


@given(_records(st.recursive(PLAIN.filter(lambda each: not isinstance(each[0], dict)), _nested, max_leaves=6)))
def test_an_event_is_that_of_its_json(event: tuple[Any, Any]) -> None:
    """Records, unions, arrays, maps and plain values of any form come out as the JSON of the same value."""
    schema, value = event
    assert read(schema, value) == value


@given(st.lists(st.floats(width=32, allow_nan=False, allow_infinity=False)))
def test_a_vector_is_its_numbers(vector: list[float]) -> None:
    """Numbers of 32 bits are the nearest of 64."""
    assert read(record(vector={"type": "array", "items": "float"}), {"vector": vector}) == {"vector": vector}


@given(st.datetimes(datetime(1, 1, 2), datetime(9999, 12, 30), timezones=st.just(UTC)))
def test_a_timestamp_is_a_text_of_rfc_3339(at: datetime) -> None:
    """In UTC, to the microsecond or the millisecond that was written, before 1970 too."""
    found = read(
        record(a=logical("long", "timestamp-micros"), b=logical("long", "timestamp-millis")), {"a": at, "b": at}
    )
    assert found["a"].endswith("Z")
    assert datetime.fromisoformat(found["a"]) == at
    assert abs(datetime.fromisoformat(found["b"]) - at) < timedelta(milliseconds=1)


def test_other_logical_types_are_texts_and_numbers() -> None:
    """Each as its own JSON would have it."""
    cases: list[tuple[Any, Any, Any]] = [
        (logical("int", "date"), date(2026, 1, 31), "2026-01-31"),
        (logical("int", "time-millis"), time(8, 30, 0, 5000), "08:30:00.005000"),
        (logical("long", "local-timestamp-millis"), datetime(2026, 1, 31, 8), "2026-01-31T08:00:00"),
        (logical("string", "uuid"), uuid.UUID(int=7), str(uuid.UUID(int=7))),
        (logical("bytes", "decimal", precision=9, scale=2), Decimal("9.50"), 9.5),
        (logical("bytes", "decimal", precision=9, scale=2), Decimal("9.00"), 9.0),
        (logical("bytes", "decimal", precision=9), Decimal(9), 9),
        (logical("bytes", "decimal", precision=30), Decimal(10**25), 1e25),
        ("bytes", b"\x00\xff", base64.b64encode(b"\x00\xff").decode()),
        ({"type": "fixed", "name": "f", "size": 2}, b"ab", "YWI="),
    ]
    for type_, value, expected in cases:
        found = read(record(a=type_), {"a": value})["a"]
        assert (found, type(found)) == (expected, type(expected)), type_


def test_what_is_null_is_missing() -> None:
    """A field of a record and an entry of a map; not an item of an array, whose places would move."""
    schema = record(
        a=["null", "string"],
        b={"type": "map", "values": ["null", "int"]},
        c={"type": "array", "items": ["null", "int"]},
    )
    assert read(schema, {"a": None, "b": {"x": None, "y": 1}, "c": [None, 1]}) == {"b": {"y": 1}, "c": [None, 1]}


@pytest.mark.parametrize("number", [math.nan, math.inf, -math.inf])
def test_a_number_that_json_has_not_is_refused(number: float) -> None:
    """JSON's writer would make it null."""
    schema = record(a={"type": "array", "items": "double"})
    assert refused(schema, written(schema, {"a": [number]})) == f"a number is {number}, and JSON has none such"


@pytest.mark.parametrize("length", [300, 600, 500_000])
def test_a_decimal_that_is_no_number_of_json_is_refused(length: int) -> None:
    """It would be null, or take minutes: the schema's bytes may be a number of any length."""
    schema = record(a=logical("bytes", "decimal", precision=2000, scale=2))
    payload = written(record(a="bytes"), {"a": b"\x7f" + b"\xff" * (length - 1)})
    assert refused(schema, payload) in {
        "a number is inf, and JSON has none such",
        f"not a value of it: ValueError at byte {len(payload)}",
    }


@given(st.binary(max_size=40))
def test_any_bytes_are_a_value_or_are_refused(payload: bytes) -> None:
    """No other error comes out, and all bytes count."""
    schema = record(
        id="string",
        at=["null", logical("long", "timestamp-millis")],
        price=["null", logical("bytes", "decimal", precision=4, scale=2)],
        tags={"type": "array", "items": {"type": "enum", "name": "e", "symbols": ["x"]}},
        day=logical("int", "date"),
        key=logical("string", "uuid"),
    )
    found = AvroSchema(json.dumps(schema))
    try:
        json.loads(found.to_json(payload, LIMIT))
    except NotAvro as error:
        assert str(error).startswith("not a value of it: ")  # noqa: PT017  any of them may come


def test_bytes_behind_the_value_are_refused() -> None:
    """The payload is of another schema then."""
    schema = record(a="string")
    assert refused(schema, written(schema, {"a": "x"}) + b"yz") == "not a value of it: 2 bytes are left over"


def test_a_schema_whose_values_have_no_bound_is_refused() -> None:
    """A few bytes would be a value of any depth, which ends the process, or of any length."""
    node = record(next=["null", "event"])
    assert refused(node) == "event holds itself, which is not read"
    for items in ("null", record() | {"name": "empty"}, {"type": "fixed", "name": "f", "size": 0}):
        assert (
            refused(record(a={"type": "array", "items": items}))
            == "an array has items without bytes, which is not read"
        )
    empty = record(a=record() | {"name": "empty"})
    assert refused(empty) == "event has a field without bytes, which is not read"
    twice = {"type": "record", "name": "inner", "fields": [{"name": "x", "type": "int"}]}
    assert read(record(a=twice, b="inner"), {"a": {"x": 1}, "b": {"x": 2}}) == {"a": {"x": 1}, "b": {"x": 2}}


@pytest.mark.parametrize("schema", ["", "{", '{"type": "record"}', '"nothing"', "[]" * 2])
def test_what_is_no_schema_is_said(schema: str) -> None:
    """Whatever the library raises."""
    with pytest.raises(NotAvro, match="not a schema of Avro"):
        AvroSchema(schema)


def test_a_schema_may_name_others() -> None:
    """They come before it, each before those that name it."""
    inner, middle = record(x="int") | {"name": "Inner"}, record(i="Inner") | {"name": "Middle"}
    outer = record(m="Middle")
    payload = written(record(m=record(i=inner) | {"name": "Middle"}), {"m": {"i": {"x": 5}}})
    found = AvroSchema(json.dumps(outer), [json.dumps(inner), json.dumps(middle)])
    assert json.loads(found.to_json(payload, LIMIT)) == {"m": {"i": {"x": 5}}}


LONG: Final = "x" * 2000


def repeated(item: Any, payload: bytes) -> tuple[Any, bytes]:
    """The schema of an array, and a payload of 9,000 such items."""
    return record(a={"type": "array", "items": item}), b"\xd0\x8c\x01" + payload * 9000 + b"\x00"


BOMBS: Final = {
    "a symbol": repeated({"type": "enum", "name": "e", "symbols": [LONG]}, b"\x00"),
    "a name": repeated(record(**{LONG: "boolean"}) | {"name": "r"}, b"\x01"),
    "a name in a union": repeated(["null", record(**{LONG: "boolean"}) | {"name": "r"}], b"\x02\x01"),
    "times": repeated(logical("long", "timestamp-micros"), b"\x02"),
    "control characters": (record(a="string"), b"\xd0\x8c\x01" + b"\x01" * 9000),
    "numbers": repeated("float", b"\xcd\xcc\xcc\x3d"),
}
"""Schemas, and short payloads of them that are long as JSON."""


@pytest.mark.parametrize("bomb", BOMBS)
def test_what_is_long_as_json_is_refused(bomb: str) -> None:
    """Bytes that stand for more than a message may have; the names and symbols are not written for that."""
    schema, payload = BOMBS[bomb]
    made = AvroSchema(json.dumps(schema))
    tracemalloc.start()
    try:
        with pytest.raises(InputError, match=f"value: more than {SHARE} bytes as JSON, expected at most {SHARE}") as e:
            made.to_json(payload, SHARE)
        assert tracemalloc.get_traced_memory()[1] < 200 * SHARE
    finally:
        tracemalloc.stop()
    assert e.value.kind is DeadLetterClass.TOO_LARGE


def test_fields_that_are_always_null_cost_nothing() -> None:
    """A record may have any number of them for each byte."""
    wide = record(b="boolean", **{f"f{place}": "null" for place in range(10_000)}) | {"name": "wide"}
    assert read(record(a={"type": "array", "items": wide}), {"a": [{"b": True}] * 3}) == {"a": [{"b": True}] * 3}
    read_by: Any = AvroSchema(json.dumps(record(a=wide)))._schema
    inner = read_by["fields"][0]["type"]
    assert [each["name"] for each in inner["fields"]] == ["b"]


def test_a_payload_of_more_than_the_share_is_not_read() -> None:
    """Whatever its JSON would have: only nulls and short numbers are shorter there."""
    schema = record(a={"type": "array", "items": "double"})
    payload = written(schema, {"a": [0.0] * SHARE})
    with pytest.raises(InputError, match=f"value: {len(payload)} bytes of Avro, expected at most {SHARE}"):
        AvroSchema(json.dumps(schema)).to_json(payload, SHARE)


@given(_records(st.recursive(PLAIN.filter(lambda each: not isinstance(each[0], dict)), _nested, max_leaves=6)))
def test_an_event_may_have_all_bytes_of_its_share(event: tuple[Any, Any]) -> None:
    """And not one more; a payload is never refused for parts that its JSON does not have."""
    schema, value = event
    made, payload = AvroSchema(json.dumps(schema)), written(schema, value)
    whole = made.to_json(payload, LIMIT)
    share = max(len(whole), len(payload))
    assert made.to_json(payload, share) == whole
    with pytest.raises(InputError, match=r"bytes as JSON|bytes of Avro"):
        made.to_json(payload, len(whole) - 1)


@pytest.mark.parametrize("levels", [MAX_DEPTH, MAX_DEPTH + 1, 300, 5000])
def test_nesting_is_that_of_events(levels: int) -> None:
    """A schema of deeper values is refused, in one text or in a chain of names, before anything is read by it."""
    named = [record(a="int") | {"name": "r1"}]
    named += [record(a=f"r{level - 1}") | {"name": f"r{level}"} for level in range(2, levels + 1)]
    *inner, outer = map(json.dumps, named)
    if levels <= MAX_DEPTH:
        assert AvroSchema(outer, inner).to_json(b"\x02", LIMIT).endswith(b'{"a":1' + b"}" * levels)
        return
    with pytest.raises(NotAvro) as caught:
        AvroSchema(outer, inner)
    said = f"its values have {levels} levels of nesting, expected at most {MAX_DEPTH}"
    assert str(caught.value) in {said, "not a schema of Avro: RecursionError"}
    with pytest.raises(NotAvro):
        AvroSchema('{"type":"array","items":' * levels + '"int"' + "}" * levels)
