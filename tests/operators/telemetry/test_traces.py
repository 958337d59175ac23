"""Traces as an exporter sees them: parents, links, kinds, and that no text leaves unless it is asked for."""

import time

import pytest
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.trace import NoOpTracerProvider, SpanKind, StatusCode, Tracer, get_current_span

from operators.query.in_flight import InFlight
from operators.runtime.stage import run_step
from operators.telemetry import traces
from operators.telemetry.traces import QueryTrace
from operators.wire.message import Rejected
from schemas.errors import BackendTimeout, DeadLetterClass, InputError, Reason
from tests.operators.recorded import Recorded
from tests.operators.samples import decoder, message, query, signals, way_out
from tests.operators.samples import trace as trace_of
from tests.operators.stages.test_publish import both

TRACE, PARENT = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
TRACEPARENT = ("traceparent", f"00-{TRACE}-{PARENT}-01".encode())
CANARY = "the secret text of a query"

Headers = tuple[tuple[str, bytes], ...]


@pytest.fixture
def recorded() -> Recorded:
    """A tracer that records everything."""
    return Recorded()


def parent_of(span: ReadableSpan) -> str | None:
    """A span's parent, in hex."""
    return f"{span.parent.span_id:016x}" if span.parent is not None else None


def id_of(span: ReadableSpan) -> str:
    """A span's id, in hex."""
    assert span.context is not None
    return f"{span.context.span_id:016x}"


def test_one_trace_from_the_producer_to_the_result(recorded: Recorded) -> None:
    """Receive and process are the producer's children, stages and send are process's, all in the producer's trace."""
    trace = recorded.trace(TRACEPARENT)
    trace.child("embed", time.monotonic(), {}, kind=SpanKind.CLIENT)
    trace.send("results", "ok")
    assert set(recorded.spans) == {"receive queries", "embed"}
    trace.sent()
    spans = recorded.spans
    process = spans["process queries"]
    assert parent_of(spans["receive queries"]) == parent_of(process) == PARENT
    assert parent_of(spans["embed"]) == parent_of(spans["send results"]) == id_of(process)
    assert {f"{span.context.trace_id:032x}" for span in spans.values() if span.context} == {TRACE} == {trace.trace_id}
    assert {name: span.kind for name, span in spans.items()} == {
        "receive queries": SpanKind.CLIENT,
        "process queries": SpanKind.CONSUMER,
        "embed": SpanKind.CLIENT,
        "send results": SpanKind.PRODUCER,
    }


def test_the_result_hands_the_trace_on(recorded: Recorded) -> None:
    """The outgoing traceparent names the send span, so that a consumer is its child; tracestate goes along."""
    trace = recorded.trace(TRACEPARENT, ("tracestate", b"vendor=1"))
    headers = dict(trace.send("results", "ok"))
    trace.sent()
    assert headers["traceparent"] == f"00-{TRACE}-{id_of(recorded.spans['send results'])}-01".encode()
    assert headers["tracestate"] == b"vendor=1"


def test_a_header_of_a_trace_is_named_in_ascii() -> None:
    """Whatever name a propagator asks for: the Kelvin sign is no k."""
    assert traces._carrier((("X-K", b"own"), ("x-\u212a", b"forged")))["x-k"] == ["own"]


@pytest.mark.parametrize("name", ["traceparent", "Traceparent", "TRACEPARENT"])
def test_header_names_are_case_blind(recorded: Recorded, name: str) -> None:
    """A producer may write the header as it likes."""
    assert recorded.trace((name, TRACEPARENT[1])).trace_id == TRACE


@pytest.mark.parametrize(
    "value",
    [
        b"",
        b"garbage",
        b"\xff\xfe\x00",
        b"00-" + b"0" * 32 + b"-b7ad6b7169203331-01",
        b"00-0af7651916cd43dd8448eb211c80319c-" + b"0" * 16 + b"-01",
        b"ff-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
        b"00-0AF7651916CD43DD8448EB211C80319C-b7ad6b7169203331-01"[:-5],
        b"x" * 100_000,
    ],
)
def test_a_malformed_traceparent_is_ignored(recorded: Recorded, value: bytes) -> None:
    """A header that names no trace begins a new one, and breaks nothing."""
    trace = recorded.trace(("traceparent", value), ("tracestate", value))
    assert trace.trace_id not in (None, TRACE)
    trace.send("results", "ok")
    trace.sent()
    assert parent_of(recorded.spans["process queries"]) is None


def test_an_unsampled_query_makes_no_spans() -> None:
    """A trace that the producer decided not to record isn't, but it is handed on, still unsampled."""
    recorded = Recorded()
    trace = recorded.trace(("traceparent", f"00-{TRACE}-{PARENT}-00".encode()))
    assert not trace.recording
    trace_id, _, flags = use(trace)[0][1].decode().split("-")[1:]
    assert (trace_id, flags) == (TRACE, "00")
    assert recorded.exporter.get_finished_spans() == ()


def test_one_span_is_begun_for_a_query_that_is_not_recorded() -> None:
    """To learn that nothing is recorded takes one span; no other is begun for such a query."""
    recorded = Recorded(sampled=False)
    use(recorded.trace(TRACEPARENT))
    assert recorded.sampler.begun == 1


def use(trace: QueryTrace) -> Headers:
    """Call everything that a query's way calls."""
    trace.child("embed", time.monotonic(), {"a": 1}, error="timeout")
    trace.degraded("embed", "timeout")
    trace.rejected("not_json")
    headers = trace.send("results", "ok")
    trace.sent()
    return headers


@pytest.mark.parametrize("tracer", [NoOpTracerProvider().get_tracer("x"), Recorded(sampled=False).tracer])
def test_without_recording_every_method_is_harmless(tracer: Tracer) -> None:
    """With tracing off, or sampled away, nothing is recorded and nothing fails."""
    trace = trace_of(tracer)
    assert not trace.recording
    use(trace)


def test_without_a_tracer_the_producers_trace_goes_on() -> None:
    """A process that records nothing still hands the producer's context to the result's consumer."""
    trace = trace_of(NoOpTracerProvider().get_tracer("x"), TRACEPARENT)
    assert dict(trace.send("results", "ok"))["traceparent"] == TRACEPARENT[1]


def test_a_query_links_to_the_call_that_carried_it(recorded: Recorded) -> None:
    """The call for several queries is a trace of its own, whatever is current, with links to theirs and back."""
    first, second = recorded.trace(TRACEPARENT), recorded.trace()
    with (
        recorded.tracer.start_as_current_span("elsewhere"),
        first.calling("query documents", {"n": 2}, [first, second]),
    ):
        link = get_current_span().get_span_context()
    for each in (first, second):
        each.child("query documents", time.monotonic(), {}, link=link)
        each.sent()
    spans = recorded.spans
    call = spans["call query documents"]
    assert call.parent is None
    assert [link.context for link in call.links] == [each._process.get_span_context() for each in (first, second)]
    (linked,) = spans["query documents"].links
    assert linked.context == call.context
    assert call.attributes == {"n": 2, "rankstream.batch.size": 2}


def test_a_call_for_one_query_is_a_part_of_its_trace(recorded: Recorded) -> None:
    """Its span is the query's child, is current for what is sent, and has the reason of a loss, but no text of it."""
    trace = recorded.trace(TRACEPARENT)
    with pytest.raises(BackendTimeout), trace.calling("embed", {}, [trace]):
        raise BackendTimeout(CANARY)
    trace.sent()
    call, process = recorded.spans["call embed"], recorded.spans["process queries"]
    assert (parent_of(call), list(call.links)) == (id_of(process), [])
    assert (call.attributes, call.kind) == ({"rankstream.batch.size": 1, "error.type": "timeout"}, SpanKind.CLIENT)
    assert CANARY not in call.to_json()


def test_errors_are_marked(recorded: Recorded) -> None:
    """A lost part is an event and a failed child an error; an answered query's own span is none."""
    trace = recorded.trace()
    trace.child("embed", time.monotonic(), {}, error="timeout")
    trace.degraded("embed", "timeout")
    trace.send("results", "partial")
    trace.sent()
    embed, process = recorded.spans["embed"], recorded.spans["process queries"]
    assert (embed.status.status_code, (embed.attributes or {})["error.type"]) == (StatusCode.ERROR, "timeout")
    assert process.status.status_code is StatusCode.UNSET
    (event,) = process.events
    assert (event.name, dict(event.attributes or {})) == (
        "degraded",
        {"rankstream.stage": "embed", "error.type": "timeout"},
    )
    assert (process.attributes or {})["rankstream.status"] == "partial"


def test_a_dead_letter_is_an_error_in_its_messages_trace(recorded: Recorded) -> None:
    """A rejected message's span ends as an error of its class, and the dead letter's header names the trace."""
    rejected = Rejected(message(CANARY.encode(), 3, headers=(TRACEPARENT,)), DeadLetterClass.NOT_JSON, "decode", CANARY)
    (record,) = way_out(signals=signals(recorded.tracer), tells=False).refuse(rejected)
    assert record.trace is not None
    record.trace.sent()
    process = recorded.spans["process queries"]
    assert (process.status.status_code, process.status.description) == (StatusCode.ERROR, "not_json")
    assert dict(record.headers)["__connect.errors.trace.id"] == TRACE.encode()
    assert CANARY not in shown(recorded)


def test_a_query_that_becomes_a_dead_letter_keeps_its_trace(recorded: Recorded) -> None:
    """Its one span of processing, with what was done until then, ends as an error, and the letter continues it."""

    def failing(_: InFlight) -> InFlight:
        raise InputError(DeadLetterClass.CURSOR_EXPIRED, "why")

    asked = decoder(recorded.tracer)(message({"query_id": "q", "text": CANARY}, headers=(TRACEPARENT,)))
    asked.trace.child("embed", time.monotonic(), {})
    (rejected,) = run_step("lookup", [asked], failing)
    assert isinstance(rejected, Rejected)
    (record,) = way_out(signals=signals(recorded.tracer), tells=False).refuse(rejected)
    assert record.trace is not None
    record.trace.sent()
    names = [span.name for span in recorded.exporter.get_finished_spans()]
    assert sorted(names) == ["embed", "process queries", "receive queries", "send dead-letters"]
    process = recorded.spans["process queries"]
    assert (process.status.description, (process.attributes or {})["rankstream.query_id"]) == ("cursor_expired", "q")
    assert dict(record.headers)["__connect.errors.trace.id"] == TRACE.encode()


def shown(recorded: Recorded) -> str:
    """Everything that an exporter was given."""
    return " ".join(span.to_json() for span in recorded.exporter.get_finished_spans())


@pytest.mark.parametrize("record_content", [False, True])
def test_no_text_is_in_any_attribute_by_default(recorded: Recorded, record_content: bool) -> None:
    """Query texts, vectors and metadata are in no span; `record_content` adds the text, and only that."""
    decode = decoder(recorded.tracer, record_content=record_content)
    event = {"query_id": "q", "text": CANARY, "vector": [0.125, 0.25, 0.5], "metadata": {"m": "a secret, too"}}
    asked = decode(message(event))
    asked.lose("embed", Reason.TIMEOUT)
    (record,) = both(asked)
    assert record.trace is not None
    record.trace.sent()
    assert (CANARY in shown(recorded)) is record_content
    assert "a secret, too" not in shown(recorded)
    assert "0.125" not in shown(recorded)


def test_a_span_names_its_message(recorded: Recorded) -> None:
    """System, topic, partition, offset, query and collection are attributes under the conventions' names."""
    asked = query(5, recorded.tracer)
    asked.trace.send("results", "ok")
    asked.trace.sent()
    attributes = dict(recorded.spans["process queries"].attributes or {})
    assert attributes == {
        "messaging.system": "kafka",
        "messaging.destination.name": "queries",
        "messaging.operation.type": "process",
        "messaging.operation.name": "process",
        "messaging.destination.partition.id": "0",
        "messaging.kafka.offset": 5,
        "messaging.consumer.group.name": "rankstream",
        "rankstream.query_id": "q5",
        "db.collection.name": "documents",
        "rankstream.status": "ok",
    }
