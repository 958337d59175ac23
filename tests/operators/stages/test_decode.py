"""Decode: every poison ends as a named error of its own message, and nothing else comes out of any bytes."""

import json
import math
import unicodedata
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from flows.assembly import query as assembly
from operators.query.collection import Destinations
from operators.stages.decode import Decoder
from operators.wire.message import Message
from schemas.errors import DeadLetterClass, InputError
from schemas.event import MAX_DEPTH, json_object
from schemas.settings import Limits, load
from tests.operators.samples import SIGNALS, decoder, message

Kind = DeadLetterClass
LIMITS = Limits(max_message_bytes=10_000, max_text_chars=500)
DECODE = decoder(limits=LIMITS)


def refused(value: Any, decode: Decoder = DECODE, **changes: Any) -> tuple[DeadLetterClass, str]:
    """Class and message of what is said about a message."""
    with pytest.raises(InputError) as caught:
        decode(message(value, **changes))
    return caught.value.kind, str(caught.value)


def nested(levels: int, opening: str = "[", closing: str = "]") -> bytes:
    """A query with so many levels of nesting in its metadata."""
    inside = opening * levels + "1" + closing * levels
    return f'{{"query_id": "q", "text": "t", "metadata": {{"a": {inside}}}}}'.encode()


@pytest.mark.parametrize(
    ("value", "kind"),
    [
        pytest.param(None, Kind.NOT_JSON, id="no value"),
        pytest.param(b"", Kind.NOT_JSON, id="empty"),
        pytest.param(b"\xff\xfe", Kind.NOT_JSON, id="not UTF-8"),
        pytest.param(b'{"query_id": "q", "text": "\xc3"}', Kind.NOT_JSON, id="half a character"),
        pytest.param(b'{"query_id": "q", "text": "t"', Kind.NOT_JSON, id="cut short"),
        pytest.param(b'{"query_id": "q", "text": "t"} x', Kind.NOT_JSON, id="something behind it"),
        pytest.param(b'{"query_id": "q", "vector": [NaN]}', Kind.NOT_JSON, id="NaN"),
        pytest.param(b'{"query_id": "q", "vector": [-Infinity]}', Kind.NOT_JSON, id="infinity"),
        pytest.param(b'{"query_id": "q", "vector": [1e999]}', Kind.NOT_JSON, id="a number beyond floats"),
        pytest.param(b'{"query_id": "q", "text": "\xed\xa0\x80"}', Kind.NOT_JSON, id="a lone surrogate in bytes"),
        pytest.param(b'{"query_id": "q", "text": "\\ud800"', Kind.NOT_JSON, id="a lone surrogate, and cut short"),
        pytest.param(nested(1500), Kind.NOT_JSON, id="1,500 nested arrays"),
        pytest.param(nested(900), Kind.NOT_JSON, id="900 nested arrays"),
        pytest.param(nested(252), Kind.NOT_JSON, id="as deep as could be read but not written"),
        pytest.param(nested(MAX_DEPTH - 1), Kind.NOT_JSON, id="one array too many"),
        pytest.param(nested(200, '{"a":', "}"), Kind.NOT_JSON, id="200 nested objects"),
        pytest.param(b"[]", Kind.INVALID, id="an array"),
        pytest.param(b'"text"', Kind.INVALID, id="a string"),
        pytest.param(b"null", Kind.INVALID, id="null"),
        pytest.param(b"{}", Kind.INVALID, id="nothing in it"),
        pytest.param({"query_id": "q"}, Kind.INVALID, id="nothing asked"),
        pytest.param({"text": "t"}, Kind.INVALID, id="no identifier"),
        pytest.param({"query_id": "q", "text": "t", "cursor": "x"}, Kind.CURSOR_INVALID, id="no cursor of ours"),
        pytest.param({"query_id": "q", "text": "t", "namespace": 7}, Kind.INVALID, id="a namespace that is a number"),
        pytest.param({"query_id": "q", "text": "t", "destination": "moon"}, Kind.INVALID, id="an unknown destination"),
        pytest.param({"query_id": "q", "text": "t", "now": 253_402_300_800}, Kind.INVALID, id="the year 10000"),
        pytest.param({"query_id": "q", "text": "t", "schema_version": 2}, Kind.UNSUPPORTED_VERSION, id="version 2"),
        pytest.param({"schema_version": 0}, Kind.UNSUPPORTED_VERSION, id="another version of anything"),
        pytest.param({"query_id": "q", "text": "t", "schema_version": "1"}, Kind.INVALID, id="no version"),
        pytest.param({"query_id": "q", "text": "t", "schema_version": True}, Kind.INVALID, id="true is no version"),
        pytest.param({"query_id": "q", "text": "t", "schema_version": 1.0}, Kind.INVALID, id="1.0 is no version"),
        pytest.param({"query_id": "q", "vector": [1e300, 0, 0]}, Kind.INVALID, id="a number beyond 32 bits"),
        pytest.param({"query_id": "q", "vector": [1.0, 2.0]}, Kind.VECTOR_DIMENSION, id="a dimension too few"),
        pytest.param({"query_id": "q", "vector": [1.0] * 4}, Kind.VECTOR_DIMENSION, id="a dimension too many"),
        pytest.param({"query_id": "q", "text": "t" * 501}, Kind.TOO_LARGE, id="a text too long"),
        pytest.param({"query_id": "q", "text": "\u0958" * 251}, Kind.TOO_LARGE, id="a text too long when composed"),
        pytest.param(b" " * 10_001, Kind.TOO_LARGE, id="a message too long"),
    ],
)
def test_poison_ends_as_its_class(value: Any, kind: DeadLetterClass) -> None:
    """Each poison is refused as an error of its own class."""
    assert refused(value)[0] is kind


@pytest.mark.parametrize(
    ("escaped", "text"),
    [
        (r"a \ud83d", "a \ufffd"),
        (r"\uDE00 a", "\ufffd a"),
        (r"\ud83d\ud83d\ude00", "\ufffd\U0001f600"),
        (r"\ud83d\n\ude00", "\ufffd\n\ufffd"),
        (r"\\ud83d \ud83d", "\\ud83d \ufffd"),
        (r"\\\ud83d\"", '\\\ufffd"'),
    ],
)
def test_half_an_emoji_is_replaced_and_said(escaped: str, text: str) -> None:
    """Whatever stands around it; what only looks like an escape, and a whole one, stay as they are."""
    query = DECODE(message(rb'{"query_id": "q", "metadata": {"m": "%b"}, "text": "t"}' % escaped.encode()))
    assert query.asked.event.metadata == {"m": text}
    assert query.outcome.warnings == ["half of a surrogate pair was replaced by U+FFFD"]


def test_a_whole_emoji_is_nothing_to_say() -> None:
    """Escaped or not."""
    query = DECODE(message(b'{"query_id": "q", "text": "\\ud83d\\ude00 \xf0\x9f\x98\x80"}'))
    assert query.asked.text == "\U0001f600 \U0001f600"
    assert query.outcome.warnings == []


def test_a_byte_order_mark_is_skipped() -> None:
    """One, at the beginning; it is nothing to say."""
    mark = b"\xef\xbb\xbf"
    query = DECODE(message(mark + b'{"query_id": "q", "text": "t"}'))
    assert (query.asked.text, query.outcome.warnings) == ("t", [])
    assert refused(mark + mark + b'{"query_id": "q", "text": "t"}')[0] is Kind.NOT_JSON


def test_a_text_of_five_megabytes_is_refused_unread() -> None:
    """A huge message is refused for its size, before it is parsed."""
    huge = b'{"query_id": "q", "text": "' + b"x" * 5_000_000
    assert refused(huge) == (Kind.TOO_LARGE, f"value: {len(huge)} bytes, expected at most 10000")


def test_the_limits_themselves_are_allowed() -> None:
    """A text, a message and a nesting exactly at their limits are a query."""
    for text in ("ü" * 500, "u\u0308" * 500):
        assert DECODE(message({"query_id": "q", "text": text})).asked.text == "ü" * 500
    query = b'{"query_id": "q", "text": "t"}'
    assert DECODE(message(query + b" " * (10_000 - len(query)))).asked.text == "t"
    assert DECODE(message(nested(MAX_DEPTH - 2))).asked.event.metadata


@pytest.mark.parametrize(
    "repeated",
    [
        pytest.param('{"query_id": "q", "query_id": "r", "text": "t"}', id="at the top"),
        pytest.param('{"query_id": "q", "text": "t", "text": "t"}', id="with the same value"),
        pytest.param('{"query_id": "q", "text": "t", "metadata": {"a": 1, "a": 2}}', id="inside"),
        pytest.param('{"query_id": "q", "text": "t", "metadata": {"x": [{"a": {"b": 1, "b": 2}}]}}', id="deep inside"),
        pytest.param('{"query_id": "q", "text": "t", "metadata": {"a": 1, "\\u0061": 2}}', id="written another way"),
        pytest.param('{"query_id": "q", "text": "t", "metadata": {"\\"": 1, "\\"": 2}}', id="an escaped quote"),
        pytest.param('{"query_id": "q", "text": "t", "metadata": {"": 1, "" : 2}}', id="an empty one, with a space"),
        pytest.param('{"query_id": "q", "text": "t", "metadata": {"a\\\\": 1, "a\\\\"\n:\t2}}', id="a backslash"),
    ],
)
def test_a_repeated_key_is_refused(repeated: str) -> None:
    """A key twice in one object, at any depth and however written, is an error: no parser's choice is taken."""
    assert refused(repeated.encode()) == (Kind.INVALID, "a key is repeated")


@pytest.mark.parametrize(
    "text",
    [
        '"a": 1, "a": 2',
        '{"text": "t", "text": "u"}',
        '\\": \\":',
        '"',
        "\\",
        '\\"',
        'a":',
        '":"',
        "a\u2028\u2029",
        '\\u0061":',
    ],
)
def test_a_text_that_looks_like_keys_is_a_text(text: str) -> None:
    """Quotes, colons and backslashes in strings, and one key in several objects, are no repeated keys."""
    metadata = {text: text, "a": {"a": [{"a": text}, {"a": text}]}, "query_id": text}
    query = DECODE(message({"query_id": "q", "text": text, "metadata": metadata}))
    assert (query.asked.text, query.asked.event.metadata) == (text, metadata)


json_values = st.recursive(
    st.none() | st.booleans() | st.floats(allow_nan=False, allow_infinity=False) | st.text('"\\:{}[],a\n ', max_size=6),
    lambda children: st.lists(children, max_size=3) | st.dictionaries(st.text('"\\:a', max_size=3), children),
    max_leaves=12,
)


@given(st.dictionaries(st.text('"\\:a', max_size=3), json_values), st.booleans())
def test_no_object_is_taken_for_one_with_repeated_keys(document: dict[str, Any], indented: bool) -> None:
    """Whatever an object holds, it is read back as it was written."""
    written = orjson.dumps(document, option=orjson.OPT_INDENT_2 if indented else 0)
    assert json_object(written, 100_000) == document


FIELDS = (
    "query_id",
    "text",
    "vector",
    "namespace",
    "destination",
    "limit",
    "rerank",
    "now",
    "timeout_ms",
    "metadata",
    "schema_version",
    "filters",
    "order_by",
    "cursor",
    "subject",
    "collection",
    "source",
    "else",
)
field_values = st.one_of(
    st.none() | st.booleans(),
    st.integers() | st.floats(),
    st.lists(st.integers() | st.floats(), max_size=4),
    st.text(max_size=10) | st.datetimes().map(str),
    st.dictionaries(st.text(max_size=3), st.none() | st.lists(st.text(max_size=3)), max_size=3),
)
events = st.dictionaries(st.sampled_from(FIELDS), field_values, max_size=6).map(
    lambda event: json.dumps({"query_id": "q", "text": "t", **event}).encode("utf-8", "surrogatepass")
)


@given(st.binary(max_size=60) | events)
def test_any_bytes_are_a_query_or_an_input_error(value: bytes) -> None:
    """Random bytes, and JSON objects with random values under the contract's names, never raise anything else."""
    decoded(value)


def decoded(value: bytes) -> None:
    """Decode; an InputError of a class that there is will do, anything else is raised."""
    try:
        query = DECODE(message(value))
    except InputError as error:
        refusal = error
    else:
        assert query.asked.event.query_id
        assert math.isfinite(query.deadline)
        return
    assert refusal.kind in Kind
    assert str(refusal)


@given(st.data())
def test_a_damaged_query_is_a_query_or_an_input_error(data: st.DataObject) -> None:
    """Any byte of a good message may be changed, lost or doubled."""
    good = bytearray(
        nested(3).replace(b'"t"', b'"t\\"\\u00e9", "vector": [1, -2.5e3, 0], "now": "2024-01-01T00:00:00Z"')
    )
    place = data.draw(st.integers(0, len(good) - 1))
    good[place : place + data.draw(st.integers(0, 2))] = data.draw(st.binary(max_size=2))
    decoded(bytes(good))


def test_a_query_has_what_the_event_does_not_say() -> None:
    """Namespace, collection, clock and deadline come from the configuration and the message."""
    read = message({"query_id": "q", "text": "t"}, timestamp=1_700_000_000.25, received=1_700_000_003.25, clock=50.0)
    query = DECODE(read)
    asked = query.asked
    assert (asked.namespace, query.asked.collection, asked.now) == ("public", "documents", 1_700_000_000.25)
    # Three of the ten seconds were over when it was received.
    assert query.deadline == 50.0 - 3.0 + 10.0
    assert not query.answered


def test_what_the_event_says_counts() -> None:
    """The event's own namespace, destination, clock and time-out go before the defaults."""
    decode = decoder(destinations=Destinations({"default": "documents", "other": "elsewhere"}))
    event = {"query_id": "q", "text": "t", "namespace": "n", "destination": "other", "now": 5, "timeout_ms": 1500}
    query = decode(message(event, timestamp=100.0, received=100.0, clock=7.0))
    asked = query.asked
    assert (asked.namespace, query.asked.collection, asked.now, query.deadline) == ("n", "elsewhere", 5.0, 8.5)


@pytest.mark.parametrize(
    ("timeout_ms", "sent", "left"),
    [
        pytest.param(3_600_000, 1000.0, 60.0, id="at most max_timeout"),
        pytest.param(None, 1005.0, 10.0, id="a producer's clock ahead gains nothing"),
        pytest.param(2000, 900.0, -98.0, id="an old message is late at once"),
    ],
)
def test_deadlines_by_hand(timeout_ms: int | None, sent: float, left: float) -> None:
    """min(sent, received) + min(timeout_ms, max_timeout), on the monotonic clock."""
    event = {"query_id": "q", "text": "t", "timeout_ms": timeout_ms}
    assert DECODE(message(event, timestamp=sent, received=1000.0, clock=0.0)).deadline == left


@pytest.mark.parametrize("timestamp", [253_402_300_800.0, 1.7e15, (2**63 - 1) / 1000])
def test_a_record_stamped_outside_of_time_is_poison(timestamp: float) -> None:
    """A producer can stamp a record with any number; one that is no clock is an error, unless the event brings one."""
    event = {"query_id": "q", "text": "t"}
    assert refused(event, timestamp=timestamp)[0] is Kind.INVALID
    assert DECODE(message({**event, "now": 5}, timestamp=timestamp)).asked.now == 5.0


def test_the_text_is_composed() -> None:
    """A decomposed text is searched for in NFC; a recorded pool has what was sent."""
    sent = unicodedata.normalize("NFD", "Größe が")
    asked = DECODE(message({"query_id": "q", "text": sent, "record": True})).asked
    assert asked.event.record
    assert (asked.text, asked.recorded["text"]) == ("Größe が", sent)


def test_every_problem_is_named_and_no_value_is_quoted_whole() -> None:
    """Two wrong fields are both named; a long value is cut."""
    kind, said = refused({"query_id": 7, "text": ["x" * 400], "metadata": {}})
    assert kind is Kind.INVALID
    assert "query_id" in said
    assert "text" in said
    assert "x" * 100 not in said


def test_a_decoder_has_the_settings() -> None:
    """Destinations, defaults, limits and topics are the configuration's."""
    sections = {"qdrant": {"url": "http://q", "dimension": 3, "destinations": {"d": "c"}}}
    settings = load(None, {**sections, "kafka": {"topics": {"results": "r", "reply_to": ["s"]}}})
    made = assembly.decoder(settings.model_copy(update={"limits": LIMITS}), SIGNALS)
    assert refused({"query_id": "q", "text": "t"}, made)[0] is Kind.INVALID
    query: Message = message({"query_id": "q", "text": "t", "destination": "d"})
    assert made(query).asked.collection == "c"
    assert made.normalise.replies.topics == ("r", "s")


def test_headers_that_cannot_be_read_are_named() -> None:
    """A message whose headers can't be read is no query: half of it isn't known."""
    assert refused({}, legible=False) == (Kind.INVALID, "headers: expected at most 1,000, with names in UTF-8")


def test_headers_count_in_the_size_of_a_message() -> None:
    """A short value with headers that are longer than any message is as large as they are."""
    event, most = {"query_id": "q", "text": "t"}, LIMITS.max_message_bytes
    room = most - len(orjson.dumps(event)) - len("name")
    DECODE(message(event, headers=(("name", b"x" * room),)))
    kind, said = refused(event, headers=(("name", b"x" * (room + 1)),))
    assert (kind, said) == (Kind.TOO_LARGE, f"value and headers: {most + 1} bytes, expected at most {most}")
