"""CloudEvents: the specification's own examples, what isn't one, and results in kind."""

import base64
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from operators.query.in_flight import InFlight
from operators.stages.decode import Decoder
from operators.wire.cloud_event import CloudEvent, Mode, content_mode, from_envelope, in_kind
from operators.wire.message import Headers, Message
from operators.wire.parsing import parse_message
from schemas.errors import DeadLetterClass, InputError
from tests.operators.samples import decoder, message

QUERY = {"query_id": "q", "text": "t"}
ENVELOPE = {
    "specversion": "1.0",
    "type": "com.example.someevent",
    "source": "/mycontext/subcontext",
    "id": "1234-1234-1234",
    "time": "2018-04-05T03:56:24Z",
}
BINARY: Headers = (
    *((f"ce_{name}", value.encode()) for name, value in ENVELOPE.items()),
    ("content-type", b"application/json"),
)
STRUCTURED: Headers = (("content-type", b"application/cloudevents+json; charset=UTF-8"),)
DECODE: Decoder = decoder()


def binary(**changes: Any) -> Message:
    """A query in binary mode; a header that is None is left out."""
    headers = {
        **dict(BINARY),
        **{name.replace("content_type", "content-type"): value for name, value in changes.items()},
    }
    return message(QUERY, headers=tuple((name, value) for name, value in headers.items() if value is not None))


def structured(**changes: Any) -> Message:
    """A query in structured mode; a member that is `...` is left out."""
    members = {**ENVELOPE, "data": QUERY, **changes}
    return message({name: value for name, value in members.items() if value is not ...}, headers=STRUCTURED)


def refused(sent: Message) -> tuple[DeadLetterClass, str]:
    """Class and message of what is said about a message."""
    with pytest.raises(InputError) as caught:
        DECODE(sent)
    return caught.value.kind, str(caught.value)


# What the specification shows


def test_the_bindings_binary_example() -> None:
    """The Kafka binding's example of binary mode is read, attribute by attribute; the value is the data."""
    query = DECODE(binary())
    assert query.asked.event.query_id == "q"
    assert query.envelope == CloudEvent(Mode.BINARY, "1234-1234-1234", "/mycontext/subcontext", None)


def test_the_bindings_structured_example() -> None:
    """Its example of structured mode, with data of JSON, is the same event."""
    query = DECODE(structured(datacontenttype="application/json"))
    assert query.asked.event.query_id == "q"
    assert query.envelope == CloudEvent(Mode.STRUCTURED, "1234-1234-1234", "/mycontext/subcontext", None)


@pytest.mark.parametrize(
    ("members", "data"),
    [
        (
            {
                "id": "A234-1234-1234",
                "datacontenttype": "application/vnd.apache.thrift.binary",
                "data_base64": "YmluYXJ5",
            },
            DeadLetterClass.INVALID,
        ),
        (
            {
                "id": "B234-1234-1234",
                "unsetextension": None,
                "datacontenttype": "application/xml",
                "data": '<much wow="xml"/>',
            },
            DeadLetterClass.INVALID,
        ),
        (
            {
                "id": "C234-1234-1234",
                "subject": None,
                "datacontenttype": "application/json",
                "data": {"appinfoA": "abc", "appinfoB": 123, "appinfoC": True},
            },
            {"appinfoA": "abc", "appinfoB": 123, "appinfoC": True},
        ),
        ({"id": "D234-1234-1234", "subject": None, "data": "I'm just a string"}, "I'm just a string"),
    ],
)
def test_the_json_formats_examples(members: dict[str, Any], data: object) -> None:
    """Of the JSON format's four examples the two that hold JSON are read as they stand; the others hold no query."""
    common = {
        "specversion": "1.0",
        "type": "com.example.someevent",
        "source": "/mycontext",
        "time": "2018-04-05T17:31:00Z",
        "comexampleextension1": "value",
        "comexampleothervalue": 5,
    }
    if data is DeadLetterClass.INVALID:
        with pytest.raises(InputError, match=r"^datacontenttype: JSON in UTF-8 is expected") as caught:
            from_envelope(common | members)
        assert caught.value.kind is data
    else:
        event = from_envelope(common | members)
        assert (event.id, event.source) == (members["id"], "/mycontext")


def test_the_tracing_extensions_example() -> None:
    """The trace of the protocol's own header is the one that goes on, as the extension demands."""
    own = b"00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
    extension = b"00-0af7651916cd43dd8448eb211c80319c-b9c7c989f97918e1-01"
    assert trace_id(DECODE(binary(ce_traceparent=extension, traceparent=own))) == "4bf92f3577b34da6a3ce929d0e0e4736"
    assert trace_id(DECODE(binary(ce_traceparent=extension))) == "0af7651916cd43dd8448eb211c80319c"
    assert trace_id(DECODE(structured(traceparent=extension.decode()))) == "0af7651916cd43dd8448eb211c80319c"
    assert trace_id(DECODE(structured(traceparent=7))) is None


def trace_id(query: InFlight) -> str | None:
    """The trace that a query is a part of."""
    return query.trace.trace_id


# What is one, and what isn't


@pytest.mark.parametrize(
    "headers",
    [
        (),
        (("content-type", b"application/json"),),
        (("content-type", b"text/plain"),),
        (("ce_id", b"1"), ("ce_source", b"/s"), ("ce_type", b"t")),
        (("ce-specversion", b"1.0"),),
        (("specversion", b"0.3"),),
        (("content-type", b"\xff\xfe"),),
    ],
)
def test_a_plain_message_is_one(headers: Headers) -> None:
    """Without a specversion or a content type of CloudEvents the headers are nobody's business."""
    assert content_mode(headers) is None
    assert DECODE(message(QUERY, headers=headers)).envelope is None


@pytest.mark.parametrize(
    "headers",
    [
        (("Content-Type", b"Application/CloudEvents+JSON"),),
        (*STRUCTURED, ("ce_specversion", b"0.3"), ("ce_id", b"")),
        (("content-type", b'application/cloudevents+json; charset="utf-8"'),),
    ],
)
def test_the_content_type_makes_an_envelope(headers: Headers) -> None:
    """However it is written, and whatever attributes are in headers, too."""
    query = DECODE(message({**ENVELOPE, "data": QUERY}, headers=headers))
    assert query.envelope is not None
    assert query.envelope.mode is Mode.STRUCTURED


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"ce_id": None}, "ce_id: required by CloudEvents, and missing"),
        ({"ce_source": None}, "ce_source: required by CloudEvents, and missing"),
        ({"ce_type": None}, "ce_type: required by CloudEvents, and missing"),
        ({"ce_id": b""}, "ce_id: empty ('')"),
        ({"ce_specversion": b""}, "ce_specversion: empty ('')"),
        ({"ce_id": b"a\x00b"}, "ce_id: a control character ('a\\x00b')"),
        ({"ce_id": b"\xff"}, "ce_id: not UTF-8 ('\ufffd')"),
        ({"ce_source": b"not a uri"}, "ce_source: not a URI-reference ('not a uri')"),
        ({"ce_source": b"/50%"}, "ce_source: not a URI-reference ('/50%')"),
        ({"ce_time": b"yesterday"}, "ce_time: not an RFC 3339 time ('yesterday')"),
        (
            {"ce_time": b"2018-04-05T03:56:24"},
            "ce_time: a time needs an offset, such as Z or +02:00 ('2018-04-05T03:56:24')",
        ),
        ({"ce_my_name": b"x"}, "an attribute's name: not of a to z and 0 to 9 ('my_name')"),
        ({"CE_ID": b"2"}, "ce_id: given twice ('2')"),
        ({"content_type": b"application/xml"}, "content-type: JSON in UTF-8 is expected ('application/xml')"),
        ({"content_type": b"json"}, "content-type: JSON in UTF-8 is expected ('json')"),
        (
            {"content_type": b"application/json; charset=utf-16"},
            "content-type: JSON in UTF-8 is expected ('application/json; charset=utf-16')",
        ),
        (
            {"content_type": b"application/cloudevents-batch+json"},
            "content-type: application/cloudevents+json in UTF-8 is expected ('application/cloudevents-batch+json')",
        ),
        (
            {"content_type": b"application/cloudevents+avro"},
            "content-type: application/cloudevents+json in UTF-8 is expected ('application/cloudevents+avro')",
        ),
    ],
)
def test_what_is_no_binary_event(changes: dict[str, Any], said: str) -> None:
    """Each is `invalid`, and the message names the header and its value."""
    assert refused(binary(**changes)) == (DeadLetterClass.INVALID, said)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"specversion": ...}, "specversion: required by CloudEvents, and missing"),
        ({"id": None}, "id: required by CloudEvents, and missing"),
        ({"type": ""}, "type: empty ('')"),
        ({"source": 5}, "source: a string is expected (5)"),
        ({"specversion": 1.0}, "specversion: a string is expected (1.0)"),
        ({"extension": {"a": 1}}, 'extension: a string is expected ({"a": 1})'),
        ({"extension": 1.5}, "extension: a string is expected (1.5)"),
        ({"query_id": "q"}, "an attribute's name: not of a to z and 0 to 9 ('query_id')"),
        ({"data": ...}, "data: missing"),
        ({"data": None}, "data: an object is expected (null)"),
        ({"data": "text"}, "data: an object is expected ('text')"),
        ({"data": [QUERY]}, 'data: an object is expected ([{"query_id": "q", "text": "t"}])'),
        ({"data_base64": "e30="}, "data_base64: not beside data ('e30=')"),
        ({"data": ..., "data_base64": "e30"}, "data_base64: not base64 ('e30')"),
        ({"data": ..., "data_base64": "e3 0="}, "data_base64: not base64 ('e3 0=')"),
        ({"data": ..., "data_base64": "\u00fc"}, "data_base64: not base64 ('\u00fc')"),
        ({"data": ..., "data_base64": 7}, "data_base64: not base64 (7)"),
        ({"datacontenttype": "text/plain"}, "datacontenttype: JSON in UTF-8 is expected ('text/plain')"),
        ({"id": "x" * 4000, "source": "/" * 4000 + " "}, f"source: not a URI-reference ({'/' * 80!r})"),
    ],
)
def test_what_is_no_envelope(changes: dict[str, Any], said: str) -> None:
    """Each is `invalid`, and the message names the member and its value, cut short."""
    assert refused(structured(**changes)) == (DeadLetterClass.INVALID, said)


@pytest.mark.parametrize("version", ["0.3", "1.1", "2.0", "1.0.2", " 1.0"])
def test_another_version_is_not_read(version: str) -> None:
    """An unknown specversion is `unsupported_version` in either mode, however wrong the rest is."""
    kind = DeadLetterClass.UNSUPPORTED_VERSION
    assert refused(structured(specversion=version, id=None)) == (
        kind,
        f"specversion: this version reads 1.0 ({version!r})",
    )
    assert refused(binary(ce_specversion=version.encode(), ce_id=None))[0] is kind


def test_the_data_is_a_query_like_any_other() -> None:
    """In base64, too, it is held to the query's own contract: versions, repeated keys, sizes, fields."""
    encoded = base64.b64encode(json.dumps(QUERY).encode()).decode()
    assert DECODE(structured(data=..., data_base64=encoded)).asked.text == "t"
    twice = base64.b64encode(b'{"query_id": "q", "text": "t", "text": "u"}').decode()
    assert refused(structured(data=..., data_base64=twice)) == (DeadLetterClass.INVALID, "a key is repeated")
    assert refused(structured(data={**QUERY, "schema_version": 2}))[0] is DeadLetterClass.UNSUPPORTED_VERSION
    assert refused(structured(data={**QUERY, "moon": 2}))[0] is DeadLetterClass.INVALID
    assert refused(message(b"[]", headers=STRUCTURED))[0] is DeadLetterClass.INVALID
    assert refused(message(b"{", headers=STRUCTURED))[0] is DeadLetterClass.NOT_JSON
    assert refused(message(None, headers=BINARY))[0] is DeadLetterClass.NOT_JSON


# There and back

texts = st.text(st.characters(exclude_categories=("Cc", "Cs", "Cn")), min_size=1, max_size=12)
attributes = st.fixed_dictionaries(
    {
        "specversion": st.just("1.0"),
        "id": texts,
        "source": st.from_regex(r"\A/[a-z0-9/?#%41]{0,9}\Z").filter(
            lambda source: source.count("%") == source.count("%41")
        ),
        "type": texts,
        "datacontenttype": st.sampled_from(["application/json", "text/json", "application/vnd.query+json"]),
    },
    optional={"subject": texts, "correlationid": texts, "traceparent": texts, "tracestate": texts, "other1": texts},
)
data = st.dictionaries(st.text(max_size=4), st.text(max_size=4) | st.integers(0, 9) | st.none(), max_size=4)


@given(attributes, data, st.sampled_from(Mode))
def test_what_is_written_is_read_again(attributes: dict[str, str], data: dict[str, Any], mode: Mode) -> None:
    """Any event in either mode comes back as it was: mode, attributes and data."""
    headers, document = in_kind(mode, attributes, data)
    assert content_mode(headers) is mode
    written = CloudEvent(mode, attributes["id"], attributes["source"], attributes.get("correlationid"))
    parsed = parse_message(message(document, headers=headers), 10_000, 100)
    assert (parsed.envelope, parsed.event) == (written, data)
    trace = tuple((name, attributes[name].encode()) for name in ("traceparent", "tracestate") if name in attributes)
    assert parsed.trace[-len(trace) :] == trace or not trace


def test_an_attribute_without_a_value_is_missing() -> None:
    """Clients write a null for one; the four that are required are named."""
    query = DECODE(binary(ce_subject=b"", ce_time=b"", content_type=b""))
    assert query.envelope is not None
    assert query.envelope.mode is Mode.BINARY
