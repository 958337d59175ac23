"""A tracer whose spans a test can look at."""

from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.sdk.trace.sampling import Decision, Sampler, SamplingResult
from opentelemetry.trace import Tracer

from operators.telemetry.traces import QueryTrace
from tests.operators.samples import trace


class Dropping(Sampler):
    """Samples nothing, and counts the spans that were begun."""

    def __init__(self) -> None:
        self.begun = 0

    def should_sample(self, parent_context: object, *args: object, **kwargs: object) -> SamplingResult:
        """No."""
        self.begun += 1
        return SamplingResult(Decision.DROP)

    def get_description(self) -> str:
        """Its name."""
        return "dropping"


class Recorded:
    """A tracer and the spans that it has ended."""

    def __init__(self, *, sampled: bool = True) -> None:
        self.exporter = InMemorySpanExporter()
        self.sampler = Dropping()
        provider = TracerProvider() if sampled else TracerProvider(sampler=self.sampler)
        provider.add_span_processor(SimpleSpanProcessor(self.exporter))
        self.tracer: Tracer = provider.get_tracer("test")

    @property
    def spans(self) -> dict[str, ReadableSpan]:
        """The spans by name."""
        return {span.name: span for span in self.exporter.get_finished_spans()}

    def trace(self, *headers: tuple[str, bytes]) -> QueryTrace:
        """A query's trace."""
        return trace(self.tracer, *headers, **{"rankstream.query_id": "q"})
