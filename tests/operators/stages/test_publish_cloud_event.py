"""Results in kind: a query that came as a CloudEvent is answered by one of the same mode."""

from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st
from opentelemetry.sdk.trace import TracerProvider

from operators.delivery.output_record import OutputRecord
from operators.query.in_flight import InFlight
from operators.wire.cloud_event import CloudEvent, Mode, from_envelope, from_headers
from operators.wire.message import Headers, Rejected, result_id
from schemas.errors import DeadLetterClass, InputError
from schemas.result import ResultEvent
from tests.operators.samples import decoder, message, origin, signals, way_out
from tests.operators.stages.test_publish import written

TRACEPARENT = b"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
ASKED = {
    "specversion": "1.0",
    "type": "com.example.query",
    "source": "https://example.com/search?a=b",
    "id": "A-1",
    "correlationid": "order-7",
}
EVENT = {"query_id": "q7", "text": "t", "now": 1_700_000_000.5}
STRUCTURED: Headers = (("content-type", b"application/cloudevents+json"),)
BINARY: Headers = tuple((f"ce_{name}", value.encode()) for name, value in ASKED.items())


def binary(event: dict[str, Any] = EVENT, headers: Headers = (), **changes: Any) -> InFlight:
    """A query in binary mode."""
    return decoder()(message(event, 3, headers=(*BINARY, *headers), **changes))


def structured(event: dict[str, Any] = EVENT, **members: Any) -> InFlight:
    """A query in structured mode."""
    return decoder()(message({**ASKED, "data": event, **members}, 3, headers=STRUCTURED))


def text(record: OutputRecord) -> dict[str, str]:
    """A record's headers as text."""
    return {name: value.decode() for name, value in record.headers}


RESULT = {
    "specversion": "1.0",
    "id": result_id(origin(3)),
    "source": "/rankstream/test",
    "type": "dev.rankstream.result.v1",
    "subject": "q7",
    "time": "2023-11-14T22:13:20.500Z",
    "causationid": "A-1",
    "causationsource": "https://example.com/search?a=b",
    "correlationid": "order-7",
}


def test_a_binary_query_has_a_binary_result() -> None:
    """By hand: attributes in ce_ headers, the value's type in content-type, the result event as the value."""
    record = written(binary())
    assert text(record) == {f"ce_{name}": value for name, value in RESULT.items()} | {
        "content-type": "application/json"
    }
    assert record.value is not None
    assert ResultEvent.model_validate_json(record.value).query_id == "q7"


def test_a_structured_query_has_a_structured_result() -> None:
    """By hand: one header, and an envelope whose data is the result event."""
    record = written(structured())
    assert text(record) == {"content-type": "application/cloudevents+json; charset=UTF-8"}
    envelope = orjson.loads(record.value or b"")
    assert ResultEvent.model_validate(envelope.pop("data")).query_id == "q7"
    assert envelope == RESULT | {"datacontenttype": "application/json"}


def test_a_plain_query_has_a_plain_result() -> None:
    """Nobody who doesn't speak CloudEvents gets a header of theirs."""
    record = written(decoder()(message(EVENT, headers=(("ce_id", b"1"), ("content-type", b"application/json")))))
    assert record.headers == ()


@pytest.mark.parametrize(
    ("headers", "extension"), [((("traceparent", TRACEPARENT),), {}), ((), {"traceparent": TRACEPARENT})]
)
@pytest.mark.parametrize("mode", Mode)
def test_the_result_names_the_trace_twice(mode: Mode, headers: Headers, extension: dict[str, bytes]) -> None:
    """The extension carries the very trace that the header carries, which is the query's, wherever that stood."""
    tracer = TracerProvider().get_tracer("test")
    if mode is Mode.BINARY:
        ours: Headers = tuple((f"ce_{name}", value) for name, value in extension.items())
        sent = message(EVENT, headers=(*BINARY, *headers, *ours))
    else:
        members = {name: value.decode() for name, value in extension.items()}
        sent = message({**ASKED, **members, "data": EVENT}, headers=(*STRUCTURED, *headers))
    record = written(decoder(tracer)(sent))
    carried = text(record)["traceparent"]
    assert carried.split("-")[1] == TRACEPARENT.decode().split("-")[1]
    if mode is Mode.BINARY:
        assert text(record)["ce_traceparent"] == carried
    else:
        assert orjson.loads(record.value or b"")["traceparent"] == carried


@pytest.mark.parametrize(
    ("headers", "state"),
    [
        ((("traceparent", TRACEPARENT), ("tracestate", b"own=1")), "own=1"),
        ((("traceparent", TRACEPARENT),), None),
        ((("tracestate", b"own=1"),), "extension=1"),
        ((), "extension=1"),
    ],
)
def test_a_state_goes_with_its_own_parent(headers: Headers, state: str | None) -> None:
    """Headers and extension are two traces, never mixed: the one's parent doesn't get the other's state."""
    extension = {"traceparent": TRACEPARENT.decode(), "tracestate": "extension=1"}
    sent = message({**ASKED, **extension, "data": EVENT}, headers=(*STRUCTURED, *headers))
    assert text(written(decoder()(sent))).get("tracestate") == state


@pytest.mark.parametrize("query_id", ["a\nb", "\x7f", "\ufffe"])
def test_an_identifier_that_is_no_subject_is_left_out(query_id: str) -> None:
    """A query_id may hold what an attribute may not: the result is a valid event all the same."""
    record = written(binary({**EVENT, "query_id": query_id}))
    assert "ce_subject" not in text(record)
    assert from_headers(record.headers).id == result_id(origin(3))


def test_the_time_is_the_same_when_the_query_is_read_again() -> None:
    """It is the query's clock, and left out where the only clock is that of this process."""
    event = {"query_id": "q", "text": "t"}
    assert text(written(binary(event, timestamp=1e9)))["ce_time"] == "2001-09-09T01:46:40.000Z"
    assert "ce_time" not in text(written(binary(event, timestamp=-0.001)))


@given(st.text(min_size=1, max_size=9), st.sampled_from(Mode))
def test_every_result_is_an_event_that_we_would_read(query_id: str, mode: Mode) -> None:
    """Whatever was asked, the answer keeps the specification that queries are held to."""
    event = {**EVENT, "query_id": query_id}
    record = written(binary(event) if mode is Mode.BINARY else structured(event))
    read = from_headers(record.headers) if mode is Mode.BINARY else from_envelope(orjson.loads(record.value or b""))
    assert read == CloudEvent(mode, result_id(origin(3)), "/rankstream/test", "order-7")


def test_a_dead_letter_is_as_it_came() -> None:
    """A rejected event keeps its bytes and its headers; only ours are added, none of CloudEvents."""
    sent = message({**ASKED, "data": 5}, headers=(*STRUCTURED, ("a", b"b")))
    with pytest.raises(InputError) as caught:
        decoder()(sent)
    (letter,) = way_out().refuse(Rejected(sent, caught.value.kind, "decode", str(caught.value)))
    assert (letter.key, letter.value, letter.headers[:2]) == (sent.key, sent.value, sent.headers)
    assert all(name.startswith("__connect.errors.") for name, _ in letter.headers[2:])


@pytest.mark.parametrize(
    ("headers", "value"),
    [
        (
            (*STRUCTURED, ("tracestate", b"x=1")),
            orjson.dumps({"specversion": "9", "traceparent": TRACEPARENT.decode()}),
        ),
        (STRUCTURED, b'{"traceparent": "%b", "id": 1, "id": 2, "data": NaN}' % TRACEPARENT),
        ((("ce_specversion", b"9"), ("CE_Traceparent", TRACEPARENT)), b"{"),
        ((("ce_specversion", b"9"), ("ce_traceparent", b"x"), ("traceparent", TRACEPARENT)), None),
    ],
)
def test_a_dead_letter_is_in_its_events_trace(headers: Headers, value: bytes | None) -> None:
    """The trace is found in an envelope that is otherwise refused."""
    rejected = Rejected(message(value, headers=headers), DeadLetterClass.UNSUPPORTED_VERSION, "decode", "why")
    (letter,) = way_out(signals=signals(TracerProvider().get_tracer("test"))).refuse(rejected)
    assert text(letter)["__connect.errors.trace.id"] == TRACEPARENT.decode().split("-")[1]


@pytest.mark.parametrize(
    ("headers", "value"),
    [
        (STRUCTURED, b"{"),
        (STRUCTURED, None),
        (STRUCTURED, b"[]"),
        (STRUCTURED, b'{"traceparent": 5}'),
        ((("content-type", b"application/cloudevents-batch+json"),), b"[]"),
        ((("ce_specversion", b"1.0"), ("ab_traceparent", TRACEPARENT)), b"[]"),
    ],
)
def test_a_dead_letter_without_a_trace_begins_its_own(headers: Headers, value: bytes | None) -> None:
    """Whatever stands where an envelope should, there is a dead letter."""
    rejected = Rejected(message(value, headers=headers), DeadLetterClass.NOT_JSON, "decode", "why")
    (letter,) = way_out(signals=signals(TracerProvider().get_tracer("test"))).refuse(rejected)
    assert text(letter)["__connect.errors.trace.id"] != TRACEPARENT.decode().split("-")[1]
    assert letter.value == value
