"""Envelopes of documents: CloudEvents, Confluent's wire format, and rows that Debezium has flattened."""

import base64
import json
from typing import Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from operators.indexing.document import DocumentInFlight
from operators.mapping.rows import rename_columns
from schemas.errors import DeadLetterClass, InputError
from schemas.settings import DocumentSettings
from tests.operators.indexing.documents import decoder, read
from tests.operators.samples import decoder as query_decoder
from tests.operators.samples import message

EVENT: Final = {"id": "d", "text": "some content", "product": "lamp"}
ATTRIBUTES: Final = {"specversion": "1.0", "id": "A-1", "source": "/shop", "type": "com.example.document"}
BINARY: Final = tuple((f"ce_{name}", value.encode()) for name, value in ATTRIBUTES.items())
STRUCTURED: Final = (("content-type", b"application/cloudevents+json"),)
COLUMNS: Final = {"id": "sku", "text": "description", "namespace": "tenant"}
ROWS: Final = decoder(documents=DocumentSettings(envelope="debezium", columns=COLUMNS))
ROW: Final = {"sku": 7, "description": "A lamp.", "tenant": 3, "price": 9.5, "__deleted": "false", "__op": "u"}
PREFIX: Final = b"\x00\x00\x00\x00\x07"


def refused(value: Any, **changes: Any) -> tuple[DeadLetterClass, str]:
    """Class and message of the error about a row."""
    with pytest.raises(InputError) as caught:
        ROWS(message(value, **changes))
    return caught.value.kind, str(caught.value)


def row(**columns: Any) -> DocumentInFlight:
    """The document of a row with these columns."""
    return read(ROWS, message({**ROW, **columns}))


@pytest.mark.parametrize(
    ("value", "headers"),
    [
        (EVENT, BINARY),
        ({**ATTRIBUTES, "data": EVENT}, STRUCTURED),
        ({**ATTRIBUTES, "data_base64": base64.b64encode(json.dumps(EVENT).encode()).decode()}, STRUCTURED),
        (PREFIX + json.dumps(EVENT).encode(), ()),
        (PREFIX + b"\xef\xbb\xbf" + json.dumps(EVENT).encode(), ()),
    ],
)
def test_a_document_in_an_envelope_is_the_document(value: Any, headers: tuple[tuple[str, bytes], ...]) -> None:
    """As a plain one: a CloudEvent in either mode, and an event behind the id of a schema."""
    found = decoder()(message(value, headers=headers)).event
    assert found == decoder()(message(EVENT)).event
    assert found.model_extra == {"product": "lamp"}


@pytest.mark.parametrize(
    ("value", "headers", "field"),
    [
        (EVENT, (BINARY[0], ("ce_id", b""), *BINARY[2:]), "ce_id"),
        ({**ATTRIBUTES, "data": 5}, STRUCTURED, "data"),
        ({**ATTRIBUTES, "source": "", "data": EVENT}, STRUCTURED, "source"),
    ],
)
def test_a_broken_envelope_is_named(value: Any, headers: tuple[tuple[str, bytes], ...], field: str) -> None:
    """The attribute that is wrong is the error's field."""
    with pytest.raises(InputError) as caught:
        decoder()(message(value, headers=headers))
    assert caught.value.field == field


def test_a_query_is_read_behind_the_id_of_a_schema() -> None:
    """So is its refusal's sender, who is legible."""
    asked = query_decoder()(message(PREFIX + b'{"query_id": "q", "text": "t"}')).asked
    assert (asked.event.query_id, asked.text) == ("q", "t")


def test_another_format_behind_the_id_of_a_schema_is_named() -> None:
    """Avro, for example, is not read without a schema registry."""
    kind, said = refused(PREFIX + b"\x02\x06abc")
    assert kind is DeadLetterClass.NOT_JSON
    assert said.startswith(
        "not JSON behind the id of a schema, and without kafka.schema_registry.url no other format is read: "
    )


def test_a_row_is_a_document() -> None:
    """Its columns are fields and payload; what is Debezium's own is neither; a number is a name as text."""
    found = row()
    assert (found.event.id, found.namespace, found.event.text, found.event.op) == ("7", "3", "A lamp.", "upsert")
    assert found.event.model_extra == {"price": 9.5}


@pytest.mark.parametrize("columns", [{"__deleted": "true"}, {"__deleted": True}, {"__deleted": None, "__op": "d"}])
def test_a_deleted_row_is_a_deletion(columns: dict[str, Any]) -> None:
    """Whatever is in its other columns."""
    found = row(description=None, price=None, **columns)
    assert (found.event.op, found.event.id, found.namespace) == ("delete", "7", "3")


@pytest.mark.parametrize("operation", ["c", "u", "r"])
def test_every_other_operation_is_an_upsert(operation: str) -> None:
    """Rows of a snapshot, too."""
    assert row(__op=operation).event.op == "upsert"


@given(st.integers(0, 4_000_000_000_000), st.integers(0, 4_000_000_000_000))
def test_the_version_is_the_time_of_the_source(source: int, processed: int) -> None:
    """Of several the database's own; `updated_at` of a column goes before it, and the message's comes last."""
    assert row(__source_ts_ms=source, __ts_ms=processed).version == source
    assert row(__ts_ms=processed, updated_at=None).version == processed
    assert row(__ts_ms=processed, updated_at=5).version == 5000
    assert row(__ts_ms=processed, __deleted="true").version == processed


def test_without_a_time_the_message_has_the_version() -> None:
    """As with a plain document."""
    sent = message(ROW)
    assert ROWS(sent).version == round(sent.timestamp * 1000)


def test_a_row_may_be_beside_its_schema() -> None:
    """As Connect's JSON converter writes it, unless it is told not to; a payload that is no row is an error."""
    assert ROWS(message({"schema": {"type": "struct"}, "payload": ROW})).event == row().event
    assert refused({"schema": None, "payload": None}) == (DeadLetterClass.INVALID, "payload: an object is expected")


@pytest.mark.parametrize("key", [{"sku": 7, "tenant": "3"}, {"schema": {}, "payload": {"sku": "7", "tenant": 3}}])
def test_a_tombstone_deletes_the_row_of_its_key(key: dict[str, Any]) -> None:
    """The key has the columns that name the row."""
    found = read(ROWS, message(None, key=json.dumps(key).encode()))
    assert (found.event.op, found.event.id, found.namespace) == ("delete", "7", "3")
    assert ROWS(message(None, key=b'{"sku": 7}')).namespace == "public"


@pytest.mark.parametrize("key", [None, b"7", b"{", b'["public", "7"]', b'{"id": 7}', b'{"sku": null}'])
def test_a_tombstone_without_an_id_is_refused(key: bytes | None) -> None:
    """An error names the column."""
    said = "a message without value is a deletion, and its key has the column sku"
    assert refused(None, key=key) == (DeadLetterClass.INVALID, said)


def test_columns_name_fields_of_plain_documents_too() -> None:
    """Such a field comes from its column alone."""
    found = decoder(documents=DocumentSettings(columns={"text": "body", "title": "name"}))
    event = read(found, message({"id": "d", "body": "content", "title": "T"})).event
    assert (event.text, event.title, event.model_extra) == ("content", None, {})


NAMES = st.text(st.characters(exclude_characters="."), max_size=3)


@given(st.dictionaries(NAMES, st.integers()), st.dictionaries(NAMES, NAMES))
def test_columns_that_are_not_named_stay(row: dict[str, int], columns: dict[str, str]) -> None:
    """A field has the value of its column; every column that no field has, and that is none, keeps its own."""
    found = rename_columns(row, columns)
    present = {field: column for field, column in columns.items() if column in row}
    assert all(found[field] == row[column] for field, column in present.items())
    untouched = row.keys() - {*columns, *columns.values()}
    assert {name: found[name] for name in untouched} == {name: row[name] for name in untouched}
    assert found.keys() == untouched | present.keys()


def test_columns_are_joined_to_an_object() -> None:
    """A path of the index leads into it, beside what is there; a name that is no path is one name."""
    columns = {"location.lat": "breite", "location.lon": "länge", "No. 5": "five"}
    row = {"breite": 52.5, "länge": 13.4, "location": {"name": "Berlin"}, "five": 5}
    assert rename_columns(row, columns) == {"location": {"name": "Berlin", "lat": 52.5, "lon": 13.4}, "No. 5": 5}
