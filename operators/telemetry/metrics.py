"""Metrics: what a process says of its load, by OpenTelemetry's SDK, exported as the standard OTEL_* variables ask."""

import os
from collections.abc import Callable, Iterable, Mapping
from typing import Final

from opentelemetry import metrics
from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
from opentelemetry.metrics import Meter
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import (
    ConsoleMetricExporter,
    MetricExporter,
    MetricReader,
    PeriodicExportingMetricReader,
)
from opentelemetry.sdk.resources import SERVICE_NAME, Resource

from schemas.errors import ConfigError

_EXPORTERS: Final[Mapping[str, Callable[[], MetricExporter]]] = {
    "otlp": OTLPMetricExporter,
    "console": ConsoleMetricExporter,
}


def meter_provider(extra: Iterable[MetricReader] = ()) -> metrics.MeterProvider:
    """The provider that the standard OTEL_* variables ask for; without an exporter nothing is recorded.

    `OTEL_METRICS_EXPORTER` may list `otlp`, `console` and `none`; unset, it is `otlp` if an endpoint is set. Raises
    ConfigError for anything else.
    """
    endpoint = os.environ.get("OTEL_EXPORTER_OTLP_ENDPOINT") or os.environ.get("OTEL_EXPORTER_OTLP_METRICS_ENDPOINT")
    asked = os.environ.get("OTEL_METRICS_EXPORTER") or ("otlp" if endpoint else "none")
    names = [name.strip() for name in asked.split(",")]
    for name in names:
        if name not in {*_EXPORTERS, "none"}:
            raise ConfigError(f"OTEL_METRICS_EXPORTER: {name} is not one of otlp, console, none")
    if os.environ.get("OTEL_SDK_DISABLED", "").lower() == "true":
        return metrics.NoOpMeterProvider()
    # A reader has a thread from the start.
    exporters = [_EXPORTERS[name]() for name in names if name != "none"]
    readers = [*extra, *map(PeriodicExportingMetricReader, exporters)]
    if not readers:
        return metrics.NoOpMeterProvider()
    resource = Resource.create({SERVICE_NAME: os.environ.get("OTEL_SERVICE_NAME", "rankstream")})
    return MeterProvider(readers, resource=resource)


def rerank_in_flight(meter: Meter, stage: str, most: int) -> Callable[[int], None]:
    """Say how many calls to the reranker of `stage` are under way, and how many may be, `most`; 0 or less: no bound.

    Gauges `rankstream_rerank_in_flight` and `rankstream_rerank_in_flight_max`, in calls.
    """
    attributes = {"rankstream.stage": stage}
    now = meter.create_gauge("rankstream_rerank_in_flight", "{call}", "Calls to the reranker under way")
    bound = meter.create_gauge("rankstream_rerank_in_flight_max", "{call}", "Calls to the reranker that may be")
    bound.set(most, attributes)

    def report(count: int) -> None:
        now.set(count, attributes)

    report(0)
    return report


def producer_replacements(meter: Meter, client: str, topic: str) -> Callable[[], None]:
    """Count the transactional producers of `client`, for what is read from `topic`, that had to be replaced.

    Counter `rankstream_producer_replacements_total`, in producers.
    """
    attributes = {"messaging.destination.name": topic, "rankstream.kafka.client": client}
    count = meter.create_counter("rankstream_producer_replacements_total", "{producer}", "Producers replaced")

    def replaced() -> None:
        count.add(1, attributes)

    count.add(0, attributes)
    return replaced
