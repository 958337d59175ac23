"""Decoding documents: what a message says, what the configuration adds, and poison by its class."""

import json
from contextlib import nullcontext
from dataclasses import replace
from typing import Any

import orjson
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from structlog.testing import capture_logs

from operators.collections.analysers import Bm25
from operators.indexing.point import point
from schemas.document import point_id
from schemas.errors import DeadLetterClass, InputError
from schemas.event import HALF_REPLACED
from schemas.fields import rfc3339
from schemas.settings import DocumentSettings
from schemas.settings.qdrant import Vectors
from tests.operators.indexing.documents import decoder, document, read
from tests.operators.samples import message

Kind = DeadLetterClass
BM25 = Bm25()


@pytest.mark.parametrize(
    ("value", "kind"),
    [
        pytest.param(None, Kind.INVALID, id="no value, and no key that says what to delete"),
        pytest.param(b"{", Kind.NOT_JSON, id="cut short"),
        pytest.param(b'{"id": "d", "x": ' + b"[" * 300 + b"]" * 300 + b"}", Kind.NOT_JSON, id="300 nested arrays"),
        pytest.param(b'{"id": "d", "text": "t", "id": "e"}', Kind.INVALID, id="a repeated key"),
        pytest.param({"text": "t"}, Kind.INVALID, id="no id"),
        pytest.param({"id": "d"}, Kind.INVALID, id="no content"),
        pytest.param({"id": "d", "text": "t", "_version": 1}, Kind.INVALID, id="a name of the index"),
        pytest.param({"id": "d", "text": "t", "destination": "moon"}, Kind.INVALID, id="an unknown destination"),
        pytest.param({"id": "d", "text": "t", "created_at": 10**12}, Kind.INVALID, id="beyond the year 9999"),
        pytest.param({"id": "d", "vector": [1.0]}, Kind.VECTOR_DIMENSION, id="another dimension"),
        pytest.param({"id": "d", "text": "t", "schema_version": 2}, Kind.UNSUPPORTED_VERSION, id="another version"),
        pytest.param(b" " * 10_001, Kind.TOO_LARGE, id="a message too long"),
    ],
)
def test_poison_ends_as_its_class(value: Any, kind: DeadLetterClass) -> None:
    """Each poison is refused as an error of its own class."""
    with pytest.raises(InputError) as caught:
        decoder()(message(value))
    assert caught.value.kind is kind


@pytest.mark.parametrize(
    ("place", "taken"),
    [
        ({"lat": 52.5, "lon": 13.4}, True),
        ({"lat": None, "lon": None}, True),
        (None, True),
        ({"lat": 52.5, "lon": None}, False),
        ({"lat": 152.5, "lon": 13.4}, False),
    ],
)
def test_a_point_is_whole_on_earth_or_unknown(place: Any, taken: bool) -> None:
    """An export writes an unknown one as an object without degrees."""
    with nullcontext() if taken else pytest.raises(InputError, match="spot: a point"):
        decoder(geo_fields=("spot",))(message({"id": "d", "text": "t", "spot": place}))


def test_a_tombstone_deletes_the_document_that_its_key_names() -> None:
    """A message without value is a deletion at its timestamp, whatever namespace and id hold."""
    made = read(decoder(), replace(message(b""), value=None, key=b'["a/b", "d\\"1"]', timestamp=1.5))
    assert (made.event.op, made.namespace, made.event.id, made.version) == ("delete", "a/b", 'd"1', 1500)
    assert made.point_id == point_id("default", "a/b", 'd"1')


@pytest.mark.parametrize(
    "key", [None, b"", b"d", b"a/d", b'"d"', b'["d"]', b'["a", 1]', b'["a", "b", "c"]', b'["a", ""]']
)
def test_a_tombstone_with_another_key_deletes_nothing(key: bytes | None) -> None:
    """It is refused, with the key as the field that is wrong."""
    with pytest.raises(InputError) as caught:
        decoder()(replace(message(b""), value=None, key=key))
    assert caught.value.kind is Kind.INVALID


def test_a_document_has_what_the_event_does_not_say() -> None:
    """Namespace, destination and collection are the configured defaults; the version is the record's timestamp."""
    made = decoder()(message({"id": "d", "text": "t"}, timestamp=1_700_000_000.123))
    assert (made.namespace, made.destination, made.collection) == ("public", "default", "documents")
    assert made.version == 1_700_000_000_123
    assert made.point_id == point_id("default", "public", "d")


def test_a_timestamp_that_is_not_in_milliseconds_is_refused() -> None:
    """As a version it would never be replaced. Where the event says when it was updated, it isn't asked."""
    microseconds = 1_700_000_000_000.0
    with pytest.raises(InputError, match="the message's timestamp: a time outside the years 1 to 9999") as caught:
        decoder()(message({"id": "d", "text": "t"}, timestamp=microseconds))
    assert caught.value.kind is Kind.INVALID
    assert decoder()(message({"id": "d", "text": "t", "updated_at": 5}, timestamp=microseconds)).version == 5000
    assert decoder()(message({"id": "d", "text": "t"}, timestamp=-1.0)).version == -1000


def test_a_mended_document_is_said() -> None:
    """With its place, and without a word of it; a byte order mark is skipped."""
    decode = decoder()
    with capture_logs() as lines:
        value = b'\xef\xbb\xbf{"id": "d", "text": "a secret \\ud83d"}'
        assert read(decode, message(value, offset=61)).event.text == "a secret \ufffd"
    assert [(line["event"], line["offset"], line["count"]) for line in lines] == [(HALF_REPLACED, 61, 1)]
    assert "secret" not in str(lines)


def test_what_the_event_says_counts() -> None:
    """The event's own namespace, destination and update time go before the defaults."""
    made = document(namespace="n", destination="other", updated_at="2023-11-14T22:13:20.500Z")
    assert (made.namespace, made.destination, made.collection) == ("n", "other", "elsewhere")
    assert made.version == 1_700_000_000_500
    assert made.point_id == point_id("other", "n", "d")


@example(16_051)
@given(st.integers(0, 4_102_444_800_000))
def test_a_version_is_the_timestamp_to_the_millisecond(stamp: int) -> None:
    """No millisecond is lost on the way from Kafka's integer to the version."""
    assert decoder()(message({"id": "d", "text": "t"}, timestamp=stamp / 1000)).version == stamp


extras = st.dictionaries(
    st.text(min_size=1, max_size=6) | st.sampled_from(["content", "model_dump", "id", "op", "created_at", "title"]),
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
        lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=3), inner, max_size=2),
        max_leaves=5,
    ),
    max_size=4,
)


@given(st.binary(max_size=40) | extras.map(lambda extra: json.dumps({"id": "d", "text": "t", **extra}).encode()))
def test_any_bytes_are_a_point_or_an_input_error(value: bytes) -> None:
    """Whatever can be decoded becomes a point that can be written as JSON; the rest is an InputError."""
    try:
        made = read(decoder(), message(value))
    except InputError:
        return
    assert orjson.dumps(point(made, Vectors(), BM25))


@pytest.mark.parametrize("row", [{"No": 7, "Tenant": "a", "body": "b"}, {"No": "x", "Tenant": 3}, {"body": "b"}])
def test_the_deletion_of_a_document_has_its_place(row: dict[str, Any]) -> None:
    """By own columns, numbers as ids, or a digest of the content; also of a document that is refused for its text."""
    form = DocumentSettings(ids="content", columns={"id": "No", "namespace": "Tenant", "text": "body"})
    decode = replace(decoder(), documents=form)
    deletion = decode.delete(message(row))
    assert deletion.event.op == "delete"
    whole = decode(message({"body": "b", **row}))
    same = ("collection", "namespace", "destination", "point_id")
    assert [getattr(deletion, name) for name in same] == [getattr(whole, name) for name in same]


@given(st.integers(-(10**12), 10**13), st.sampled_from(["unix", "unix_ms", "iso_utc", "rfc2822", "%d.%m.%Y"]))
def test_a_deletion_has_the_version_of_the_index(version: int, form: str) -> None:
    """A command writes versions as RFC 3339, which no format of the documents' own times reads as another time."""
    decode = replace(decoder(), documents=DocumentSettings(formats={"updated_at": form}))
    event = {"id": "a", "op": "delete", "updated_at": rfc3339(version / 1000)}
    assert decode(message(event)).version == version
