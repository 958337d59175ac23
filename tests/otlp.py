"""A real OTLP/HTTP receiver: what an exporter sends over the wire, decoded."""

import gzip
import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler

from google.protobuf.message import DecodeError
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue
from opentelemetry.proto.trace.v1 import trace_pb2

from tests.loopback import LoopbackServer

Value = str | bool | int | float | bytes | list[object] | dict[str, object] | None


@dataclass(frozen=True, slots=True)
class Link:
    """A span's link to another span: lower-case hex ids."""

    trace_id: str
    span_id: str


@dataclass(frozen=True, slots=True)
class Span:
    """One exported span: ids in hex (a root's `parent_span_id` is ""), `kind` as SERVER, `status` as ERROR."""

    name: str
    trace_id: str
    span_id: str
    parent_span_id: str
    kind: str
    attributes: dict[str, Value]
    links: tuple[Link, ...]
    status: str
    resource: dict[str, Value]


@dataclass(frozen=True, slots=True)
class Point:
    """One exported value of a gauge or a sum; of a histogram, how many samples it has. `exemplars`: their trace ids."""

    name: str
    unit: str
    value: int | float
    attributes: dict[str, Value]
    resource: dict[str, Value]
    buckets: tuple[int, ...] = ()
    exemplars: tuple[str, ...] = ()


class Receiver(LoopbackServer):
    """An OTLP/HTTP endpoint on loopback that keeps the spans and points it is sent, in the order of arrival."""

    def __init__(self) -> None:
        self._arrival = threading.Condition()
        self._spans: list[Span] = []
        self._points: list[Point] = []
        super().__init__(self._handler(), "otlp-receiver")

    @property
    def endpoint(self) -> str:
        """The base URL, as OTEL_EXPORTER_OTLP_ENDPOINT takes it."""
        return self.base_url

    @property
    def spans(self) -> list[Span]:
        """Every span received so far."""
        with self._arrival:
            return list(self._spans)

    def wait_for(self, predicate: Callable[[list[Span]], bool], timeout: float = 10.0) -> list[Span]:
        """All spans as soon as `predicate` holds of them; TimeoutError naming what came after `timeout` seconds."""
        with self._arrival:
            if not self._arrival.wait_for(lambda: predicate(list(self._spans)), timeout):
                raise TimeoutError(f"not in {timeout} s; received: {[span.name for span in self._spans]}")
            return list(self._spans)

    def wait_for_points(self, predicate: Callable[[list[Point]], bool], timeout: float = 10.0) -> list[Point]:
        """All points as soon as `predicate` holds of them; TimeoutError naming what came after `timeout` seconds."""
        with self._arrival:
            if not self._arrival.wait_for(lambda: predicate(list(self._points)), timeout):
                raise TimeoutError(f"not in {timeout} s; received: {[point.name for point in self._points]}")
            return list(self._points)

    def _accept(self, path: str, content: bytes) -> None:
        with self._arrival:
            if path == "/v1/traces":
                self._spans.extend(decode(content))
            else:
                self._points.extend(decode_points(content))
            self._arrival.notify_all()

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        accept = self._accept

        class Handler(BaseHTTPRequestHandler):
            # A client that connects and sends nothing must not keep the test from ending.
            timeout = 5

            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
                if self.path not in ("/v1/traces", "/v1/metrics"):
                    self.send_error(404)
                    return
                try:
                    accept(self.path, uncompressed(body, self.headers.get("Content-Encoding", "identity")))
                except (DecodeError, gzip.BadGzipFile, ValueError) as error:
                    self.send_error(400, str(error))
                    return
                # An answer without a field: all was taken.
                self.send_response(200)
                self.send_header("Content-Type", "application/x-protobuf")
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, *_: object) -> None:
                """Say nothing on stderr."""

        return Handler


def uncompressed(body: bytes, encoding: str) -> bytes:
    """An export request's content; ValueError for an encoding but identity and gzip."""
    if encoding not in ("identity", "gzip"):
        raise ValueError(f"unknown content encoding {encoding!r}")
    return gzip.decompress(body) if encoding == "gzip" else body


def decode(content: bytes) -> list[Span]:
    """The spans of one export request; DecodeError for junk."""
    request = ExportTraceServiceRequest.FromString(content)
    return [
        _span(span, _attributes(resource_spans.resource.attributes))
        for resource_spans in request.resource_spans
        for scope_spans in resource_spans.scope_spans
        for span in scope_spans.spans
    ]


def decode_points(content: bytes) -> list[Point]:
    """The points of one export request; DecodeError for junk."""
    request = ExportMetricsServiceRequest.FromString(content)
    return [
        Point(
            metric.name,
            metric.unit,
            point.count if histogram else getattr(point, point.WhichOneof("value") or "as_int"),
            _attributes(point.attributes),
            _attributes(resource_metrics.resource.attributes),
            tuple(point.bucket_counts) if histogram else (),
            tuple(exemplar.trace_id.hex() for exemplar in point.exemplars),
        )
        for resource_metrics in request.resource_metrics
        for scope_metrics in resource_metrics.scope_metrics
        for metric in scope_metrics.metrics
        for histogram, points in (
            (False, metric.gauge.data_points),
            (False, metric.sum.data_points),
            (True, metric.histogram.data_points),
        )
        for point in points
    ]


def _span(span: trace_pb2.Span, resource: dict[str, Value]) -> Span:
    return Span(
        name=span.name,
        trace_id=span.trace_id.hex(),
        span_id=span.span_id.hex(),
        parent_span_id=span.parent_span_id.hex(),
        kind=trace_pb2.Span.SpanKind.Name(span.kind).removeprefix("SPAN_KIND_"),
        attributes=_attributes(span.attributes),
        links=tuple(Link(link.trace_id.hex(), link.span_id.hex()) for link in span.links),
        status=trace_pb2.Status.StatusCode.Name(span.status.code).removeprefix("STATUS_CODE_"),
        resource=resource,
    )


def _attributes(pairs: Iterable[KeyValue]) -> dict[str, Value]:
    return {pair.key: _value(pair.value) for pair in pairs}


def _value(value: AnyValue) -> Value:
    match value.WhichOneof("value"):
        case None:
            return None
        case "array_value":
            return [_value(item) for item in value.array_value.values]
        case "kvlist_value":
            return dict(_attributes(value.kvlist_value.values))
        case scalar:
            held: str | bool | int | float | bytes = getattr(value, scalar)
            return held
