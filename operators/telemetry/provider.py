"""The provider of tracers and the export of metrics, as OpenTelemetry's standard environment variables ask for them.

`OTEL_TRACES_EXPORTER` and `OTEL_METRICS_EXPORTER` each list some of `otlp`, `console` and `none`. Default: `otlp` if an
OTLP endpoint is set for the signal, else `none`. Without an exporter, or with `OTEL_SDK_DISABLED=true`, nothing is
sent and no thread starts. Metrics are sent every `OTEL_METRIC_EXPORT_INTERVAL` milliseconds (60,000). The service is
`rankstream`, or what `OTEL_SERVICE_NAME` or `OTEL_RESOURCE_ATTRIBUTES` says.
"""

import os
from collections.abc import Callable, Iterable, Mapping
from typing import Final, TypeVar

from opentelemetry import trace
from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.metrics.export import ConsoleMetricExporter, MetricExporter
from opentelemetry.sdk.resources import SERVICE_NAME, OTELResourceDetector, Resource
from opentelemetry.sdk.trace import SpanProcessor, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, ConsoleSpanExporter, SimpleSpanProcessor

from operators.telemetry.instruments import Instruments
from operators.telemetry.otlp_metrics import MetricExport
from schemas.errors import ConfigError

T = TypeVar("T")

_SPANS: Final[Mapping[str, Callable[[], SpanProcessor]]] = {
    "otlp": lambda: BatchSpanProcessor(OTLPSpanExporter()),
    "console": lambda: SimpleSpanProcessor(ConsoleSpanExporter()),
}
_METRICS: Final[Mapping[str, Callable[[], MetricExporter]]] = {
    "otlp": OTLPMetricExporter,
    "console": ConsoleMetricExporter,
}

_INTERVAL: Final = "OTEL_METRIC_EXPORT_INTERVAL"


def tracer_provider(extra: Iterable[SpanProcessor] = ()) -> trace.TracerProvider:
    """The provider of tracers; `extra` processors get every span, too. Raises ConfigError for an unknown exporter."""
    processors = _exporters("TRACES", _SPANS, extra)
    if not processors:
        return trace.NoOpTracerProvider()
    provider = TracerProvider(resource=_resource())
    for processor in processors:
        provider.add_span_processor(processor)
    return provider


def metric_export(instruments: Instruments) -> MetricExport | None:
    """Begin to export the metrics, if that is asked for. Raises ConfigError for an unknown exporter or interval."""
    exporters = _exporters("METRICS", _METRICS, ())
    interval = _variable(_INTERVAL) or "60000"
    if not interval.isdecimal() or not int(interval):
        raise ConfigError(f"{_INTERVAL}: {interval!r} is not a number of milliseconds")
    return MetricExport(instruments.registry, exporters, _resource(), int(interval) / 1000) if exporters else None


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
