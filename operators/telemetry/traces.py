"""Traces: one for each query, from the producer's `traceparent` to the result's.

    the producer's span
    ├── receive queries            from the poll to the dataflow
    └── process queries            CONSUMER, until the result is committed
        ├── embed, fuse, rank
        ├── rerank                 with the attributes of OpenInference's RERANKER spans
        ├── query {collection}     one for each leg, linked to the span of the call that carried it
        ├── the calls for it alone CLIENT; their contexts go out to embedders, rerankers and Qdrant
        └── send results           PRODUCER; its context goes out in the result's headers

A call for several queries is a trace of its own, with links to theirs.

Names and attributes follow OpenTelemetry's conventions for messaging, databases and generative AI. A query whose trace
isn't recorded gets no spans, and is counted all the same. No attribute holds a text, except the query's own if
`record_content` is set. The samples of histograms have the trace as their exemplar, if it is recorded.
"""

import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import islice
from typing import Final, NamedTuple

from opentelemetry import propagate, trace
from opentelemetry.context import Context
from opentelemetry.trace import Link, Span, SpanContext, SpanKind, Status, StatusCode, Tracer

from operators.query.outcome import Outcome
from operators.telemetry.metrics import FlowMetrics
from operators.wire.message import Attributes, Headers, Message, Trace
from schemas.errors import BackendError
from schemas.headers import fold_name

DEAD_LETTER: Final = "dead_letter"
"""The status of a message that gets no result."""


def _operation(kind: str, name: str) -> Attributes:
    return {"messaging.system": "kafka", "messaging.operation.type": kind, "messaging.operation.name": name}


_PROCESS: Final = _operation("process", "process")
_POLL: Final = _operation("receive", "poll")
_SEND: Final = _operation("send", "send")


def _carrier(headers: Headers) -> dict[str, list[str]]:
    """The headers' values by name, as propagators read them; the case of ASCII's letters doesn't count."""
    found: dict[str, list[str]] = {}
    for name, value in headers:
        found.setdefault(fold_name(name), []).append(value.decode("latin-1"))
    return found


def wall_ns(clock: float) -> int:
    """A moment of this process's monotonic clock as Unix nanoseconds."""
    return time.time_ns() - int((time.monotonic() - clock) * 1e9)


class QueryTrace:
    """One query's spans and counts. While the trace isn't recorded, it makes no span."""

    __slots__ = ("_context", "_exemplar", "_metrics", "_process", "_send", "_sent", "_status", "_tracer", "recording")

    def __init__(self, signals: "Signals", message: Message, headers: Headers, attributes: Attributes) -> None:
        tracer, origin = signals.tracer, message.origin
        self._tracer = tracer
        self._metrics = signals.metrics
        self._sent = message.sent
        self._status = DEAD_LETTER
        self._exemplar: dict[str, str] | None = None
        parent = propagate.extract(_carrier(headers), context=Context()) if headers else Context()
        topic = origin.topic
        place: Attributes = {
            "messaging.destination.name": topic,
            "messaging.destination.partition.id": str(origin.partition),
            "messaging.kafka.offset": origin.offset,
            "messaging.consumer.group.name": signals.group,
            **attributes,
        }
        process = {**_PROCESS, **place}
        self._process = tracer.start_span(f"process {topic}", parent, kind=SpanKind.CONSUMER, attributes=process)
        # A query without headers, in a process without traces, has nothing to hand on.
        self._context = trace.set_span_in_context(self._process, parent) if headers or self.trace_id else parent
        self._send: Span | None = None
        self.recording = self._process.is_recording()
        if self.recording:
            own = self._process.get_span_context()
            self._exemplar = {
                "trace_id": trace.format_trace_id(own.trace_id),
                "span_id": trace.format_span_id(own.span_id),
            }
            poll, at = {**_POLL, **place}, int(message.received * 1e9)
            tracer.start_span(f"receive {topic}", parent, kind=SpanKind.CLIENT, start_time=at, attributes=poll).end()

    @property
    def trace_id(self) -> str | None:
        context = self._process.get_span_context()
        return trace.format_trace_id(context.trace_id) if context.is_valid else None

    def child(
        self,
        name: str,
        started: float,
        attributes: Attributes,
        *,
        link: SpanContext | None = None,
        error: str | None = None,
        kind: SpanKind = SpanKind.INTERNAL,
    ) -> None:
        if not self.recording:
            return
        links, at = [Link(link)] if link is not None else None, wall_ns(started)
        span = self._tracer.start_span(
            name, self._context, kind=kind, start_time=at, attributes=attributes, links=links
        )
        if error is not None:
            _fail(span, error)
        span.end()

    @contextmanager
    def calling(self, name: str, attributes: Attributes, traces: Sequence[Trace]) -> Iterator[None]:
        """The span of one call for the queries of these recorded traces, as the current span.

        The call for one query is a part of its trace. The call for several is a trace of its own, with links to theirs.
        """
        carried = [each for each in traces if isinstance(each, QueryTrace)]
        links = [Link(each._process.get_span_context()) for each in carried] if len(carried) > 1 else None
        context, whole = Context() if links else self._context, {**attributes, "rankstream.batch.size": len(carried)}
        span = self._tracer.start_span(f"call {name}", context, kind=SpanKind.CLIENT, attributes=whole, links=links)
        with trace.use_span(span, end_on_exit=True, record_exception=False, set_status_on_exception=False):
            try:
                yield
            except BackendError as error:
                _fail(span, error.reason)
                raise

    def passed(self, step: str, seconds: float) -> None:
        self._metrics.stages[(step,)].observe(seconds, self._exemplar)

    def looked_up(self, cache: str, hits: int, misses: int) -> None:
        if hits:
            self._metrics.lookups[cache, "hit"].inc(hits)
        if misses:
            self._metrics.lookups[cache, "miss"].inc(misses)

    def answered(self, legs: Iterable[tuple[str, str]], *, removed: int, aged: bool) -> None:
        for leg, outcome in legs:
            self._metrics.legs[leg, outcome].inc()
        if removed:
            self._metrics.removed.inc(removed)
        if aged:
            self._metrics.decayed.inc()

    def degraded(self, stage: str, reason: str) -> None:
        self._metrics.degraded[stage, reason].inc()
        self._process.add_event("degraded", {"rankstream.stage": stage, "error.type": reason})

    def rejected(self, kind: str) -> None:
        self._process.set_attribute("error.type", kind)
        self._process.set_status(Status(StatusCode.ERROR, kind))

    def send(self, topic: str, status: str) -> Headers:
        self._process.set_attribute("rankstream.status", status)
        self._status = status
        if self._send is not None:
            self._send.update_name(f"send {topic}")
            self._send.set_attribute("messaging.destination.name", topic)
        elif self.recording:
            own = {**_SEND, "messaging.destination.name": topic}
            self._send = self._tracer.start_span(f"send {topic}", self._context, kind=SpanKind.PRODUCER, attributes=own)
        context = self._context if self._send is None else trace.set_span_in_context(self._send, self._context)
        carrier: dict[str, str] = {}
        if context:
            propagate.inject(carrier, context=context)
        return tuple((name, value.encode("latin-1", "replace")) for name, value in carrier.items())

    def abandoned(self) -> None:
        self._process.set_attribute("rankstream.status", "abandoned")
        self._process.end()
        self.recording = False

    def sent(self) -> None:
        if self._status != DEAD_LETTER:
            self._metrics.answered[(self._status,)].inc()
            self._metrics.latency[(self._status,)].observe(max(0.0, time.time() - self._sent), self._exemplar)
        if self._send is not None:
            self._send.end()
        self._process.end()
        self.recording = False


def _fail(span: Span, error: str) -> None:
    span.set_attribute("error.type", error)
    span.set_status(Status(StatusCode.ERROR, error))


class Signals(NamedTuple):
    """A flow's tracer and metrics; `group` is its consumer group."""

    tracer: Tracer
    metrics: FlowMetrics
    group: str

    def trace(self, message: Message, headers: Headers, attributes: Attributes) -> QueryTrace:
        """Continue the trace that these headers of a message name."""
        return QueryTrace(self, message, headers, attributes)


RERANKED: Final = 10
"""Documents that a RERANKER span names, of those that went in and that came out. A span holds 128 attributes by
default: each one more drops the oldest, and each costs some microseconds."""


def reranker_attributes(model: str, top: int, outcome: Outcome) -> dict[str, str | int | float]:
    """OpenInference's attributes of a reranker that read the first `top` candidates: the first of these, and its best.

    Tools for language models show them. Documents are named by id and score; texts are in no attribute. Source: the
    OpenInference semantic conventions, `spec/reranker.md` of Arize-ai/openinference.
    """
    read = outcome.candidates[:top]
    scores = outcome.rerank_scores.scores if outcome.rerank_scores is not None else {}
    ordered = sorted(scores.items(), key=lambda each: -each[1])
    return {
        "openinference.span.kind": "RERANKER",
        "reranker.model_name": model,
        "reranker.top_k": top,
        **_documents("reranker.input_documents", ((each.id, each.score) for each in read)),
        **_documents("reranker.output_documents", ordered),
    }


def _documents(prefix: str, documents: Iterable[tuple[str, float]]) -> dict[str, str | float]:
    found: dict[str, str | float] = {}
    for rank, (id_, score) in enumerate(islice(documents, RERANKED)):
        found[f"{prefix}.{rank}.document.id"] = id_
        found[f"{prefix}.{rank}.document.score"] = score
    return found
