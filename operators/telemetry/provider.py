"""Providers of tracers and meters, as OpenTelemetry's standard environment variables ask for them.

`OTEL_TRACES_EXPORTER` and `OTEL_METRICS_EXPORTER` each list some of `otlp`, `console` and `none`. Default: `otlp` if an
OTLP endpoint is set for the signal, else `none`. Without an exporter, or with `OTEL_SDK_DISABLED=true`, nothing is
recorded and no thread starts. The service is `rankstream`, or what `OTEL_SERVICE_NAME` or `OTEL_RESOURCE_ATTRIBUTES`
says.
"""

import os
from collections.abc import Callable, Iterable, Mapping
from typing import Final, TypeVar

from opentelemetry import metrics, trace
from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import ConsoleMetricExporter, MetricReader, PeriodicExportingMetricReader
from opentelemetry.sdk.resources import SERVICE_NAME, OTELResourceDetector, Resource
from opentelemetry.sdk.trace import SpanProcessor, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, ConsoleSpanExporter, SimpleSpanProcessor

from schemas.errors import ConfigError

T = TypeVar("T")

_SPANS: Final[Mapping[str, Callable[[], SpanProcessor]]] = {
    "otlp": lambda: BatchSpanProcessor(OTLPSpanExporter()),
    "console": lambda: SimpleSpanProcessor(ConsoleSpanExporter()),
}
_METRICS: Final[Mapping[str, Callable[[], MetricReader]]] = {
    "otlp": lambda: PeriodicExportingMetricReader(OTLPMetricExporter()),
    "console": lambda: PeriodicExportingMetricReader(ConsoleMetricExporter()),
}


def tracer_provider(extra: Iterable[SpanProcessor] = ()) -> trace.TracerProvider:
    """The provider of tracers; `extra` processors get every span, too. Raises ConfigError for an unknown exporter."""
    processors = _exporters("TRACES", _SPANS, extra)
    if not processors:
        return trace.NoOpTracerProvider()
    provider = TracerProvider(resource=_resource())
    for processor in processors:
        provider.add_span_processor(processor)
    return provider


def meter_provider(extra: Iterable[MetricReader] = ()) -> metrics.MeterProvider:
    """The provider of meters; `extra` readers read them, too. Raises ConfigError for an unknown exporter."""
    readers = _exporters("METRICS", _METRICS, extra)
    return MeterProvider(readers, resource=_resource()) if readers else metrics.NoOpMeterProvider()


def _exporters(signal: str, known: Mapping[str, Callable[[], T]], extra: Iterable[T]) -> list[T]:
    variable = f"OTEL_{signal}_EXPORTER"
    endpoint = _variable("OTEL_EXPORTER_OTLP_ENDPOINT") or _variable(f"OTEL_EXPORTER_OTLP_{signal}_ENDPOINT")
    listed = _variable(variable) or ("otlp" if endpoint else "none")
    names = [name.strip() for name in listed.split(",")]
    for name in names:
        if name not in {*known, "none"}:
            raise ConfigError(f"{variable}: {name!r} is not one of otlp, console, none")
    if _variable("OTEL_SDK_DISABLED").lower() == "true":
        return []
    # Most have a thread from the moment they are made.
    return [*extra, *(known[name]() for name in names if name != "none")]


def _variable(name: str) -> str:
    return os.environ.get(name, "")


def _resource() -> Resource:
    return Resource.create({SERVICE_NAME: "rankstream"}).merge(OTELResourceDetector().detect())
