"""The tests' own OTLP receiver, driven by the real exporter."""

from collections.abc import Iterator

import pytest
from opentelemetry import trace
from opentelemetry.exporter.otlp.proto.http import Compression
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.trace import Link, SpanContext, SpanKind, StatusCode, TraceFlags
from opentelemetry.util.types import AttributeValue

from tests.otlp import Receiver


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    """A receiver that takes spans."""
    with Receiver() as running:
        yield running


def exporting_to(receiver: Receiver, compression: Compression) -> TracerProvider:
    """A provider of its own, never the process's, that exports each span when it ends."""
    exporter = OTLPSpanExporter(endpoint=f"{receiver.endpoint}/v1/traces", compression=compression, timeout=5)
    provider = TracerProvider(resource=Resource({"service.name": "under-test"}), shutdown_on_exit=False)
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    return provider


@pytest.mark.parametrize("compression", [Compression.NoCompression, Compression.Gzip])
def test_spans_arrive_as_they_were_recorded(receiver: Receiver, compression: Compression) -> None:
    """Names, ids, parent, kind, attributes of every type, links and status survive the wire."""
    provider = exporting_to(receiver, compression)
    tracer = provider.get_tracer("test")
    linked = SpanContext(0xABC, 0xDEF, is_remote=True, trace_flags=TraceFlags(1))
    attributes: dict[str, AttributeValue] = {"text": "é", "count": 3, "share": 0.5, "flag": False, "list": ["a", "b"]}
    with (
        tracer.start_as_current_span("root", kind=SpanKind.CONSUMER) as root,
        tracer.start_as_current_span("child", attributes=attributes, links=[Link(linked)]) as child,
    ):
        child.set_status(StatusCode.ERROR, "why")
    provider.shutdown()

    spans = {span.name: span for span in receiver.wait_for(lambda spans: len(spans) == 2)}
    got_root, got_child = spans["root"], spans["child"]
    assert got_root.trace_id == got_child.trace_id == trace.format_trace_id(root.get_span_context().trace_id)
    assert got_root.parent_span_id == ""
    assert got_child.parent_span_id == got_root.span_id == trace.format_span_id(root.get_span_context().span_id)
    assert (got_root.kind, got_child.kind) == ("CONSUMER", "INTERNAL")
    assert (got_root.status, got_child.status) == ("UNSET", "ERROR")
    assert got_child.attributes == attributes
    assert [(link.trace_id, link.span_id) for link in got_child.links] == [(f"{0xABC:032x}", f"{0xDEF:016x}")]
    assert got_root.resource == {"service.name": "under-test"}


def test_waiting_in_vain_names_what_came(receiver: Receiver) -> None:
    """A wait that fails says which spans did arrive."""
    provider = exporting_to(receiver, Compression.NoCompression)
    provider.get_tracer("test").start_span("only one").end()
    provider.shutdown()
    with pytest.raises(TimeoutError, match="only one"):
        receiver.wait_for(lambda spans: len(spans) == 2, timeout=0.2)
