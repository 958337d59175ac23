"""The export of traces and metrics, by OpenTelemetry's standard environment variables.

`OTEL_TRACES_EXPORTER` and `OTEL_METRICS_EXPORTER` each list some of `otlp`, `console` and `none`. Default: `otlp` if an
OTLP endpoint is set for the signal, else `none`. Without an exporter, or with `OTEL_SDK_DISABLED=true`, nothing is
sent and no thread starts. Metrics are sent every `OTEL_METRIC_EXPORT_INTERVAL` milliseconds (60,000). The service is
`rankstream`, unless `OTEL_SERVICE_NAME` or `OTEL_RESOURCE_ATTRIBUTES` name it. OTLP is spoken over HTTP alone; another
`OTEL_EXPORTER_OTLP_PROTOCOL` is an error.

A batch that is not exported is one line of our own, which names the exporter, and the status or the error's type: those
of the libraries quote headers and URLs, which hold secrets.

The instruments are Prometheus's client: a sample costs it a microsecond, and OpenTelemetry's SDK eight, which a query
pays some twenty times. Names and labels are the same in both worlds; sums and histograms are cumulative from the
process's start.
"""

import os
import re
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import groupby, pairwise
from typing import TYPE_CHECKING, Any, Final, TypeVar

import structlog
from opentelemetry import trace
from opentelemetry.sdk.metrics import Exemplar
from opentelemetry.sdk.metrics import export as metrics_sdk
from opentelemetry.sdk.resources import SERVICE_NAME, SERVICE_VERSION, OTELResourceDetector, Resource
from opentelemetry.sdk.trace import ReadableSpan, SpanProcessor, TracerProvider
from opentelemetry.sdk.trace import export as spans_sdk
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from prometheus_client import CollectorRegistry
from prometheus_client.metrics_core import Metric as Family
from prometheus_client.samples import Sample

from operators.telemetry.metrics import Instruments
from schemas.errors import ConfigError
from schemas.result import VERSION

if TYPE_CHECKING:
    from requests import Session

log = structlog.stdlib.get_logger(__name__)

Exporter = TypeVar("Exporter")


@dataclass(eq=False)
class _Reporter:
    """Logs each batch of a signal that an exporter does not export, with the status or the error's type."""

    signal: str
    exporter: str
    _reason = ""
    _exporting = False

    def succeeds(self, export: Callable[[], spans_sdk.SpanExportResult | metrics_sdk.MetricExportResult]) -> bool:
        """Export a batch; False if that failed, for any reason."""
        self._reason = "unknown"
        self._exporting = True
        try:
            if export() in _EXPORTED:
                return True
        except Exception as error:  # noqa: BLE001  an exporter that fails must not end the export
            self._reason = type(error).__name__
        finally:
            self._exporting = False
        self._log(self._reason)
        return False

    def close(self) -> None:
        if self._exporting:
            self._log("not in time")

    def _log(self, reason: str) -> None:
        log.warning(f"{self.signal} were not exported", exporter=self.exporter, reason=reason)

    def session(self) -> "Session":
        """A session for the exporter, which notes why a request failed."""
        import requests

        reporter = self

        class Session(requests.Session):
            def request(self, *arguments: Any, **options: Any) -> requests.Response:
                try:
                    response = super().request(*arguments, **options)
                except Exception as error:
                    reporter._reason = type(error).__name__
                    raise
                reporter._reason = f"HTTP {response.status_code}"
                return response

        return Session()


_EXPORTED: Final = (spans_sdk.SpanExportResult.SUCCESS, metrics_sdk.MetricExportResult.SUCCESS)


@dataclass(frozen=True)
class _Spans(spans_sdk.SpanExporter):
    """An exporter of spans whose failures are reported."""

    exporter: spans_sdk.SpanExporter
    reporter: _Reporter

    def export(self, spans: Sequence[ReadableSpan]) -> spans_sdk.SpanExportResult:
        succeeds = self.reporter.succeeds(partial(self.exporter.export, spans))
        return spans_sdk.SpanExportResult.SUCCESS if succeeds else spans_sdk.SpanExportResult.FAILURE

    def shutdown(self) -> None:
        self.reporter.close()
        self.exporter.shutdown()


class _Batches(spans_sdk.BatchSpanProcessor):
    """Batches of spans, the last of which have `patience` seconds to be sent.

    The SDK's own time-outs at the end are fixed or have no effect: a collector that hangs would keep the process.
    """

    def __init__(self, exporter: spans_sdk.SpanExporter, patience: float) -> None:
        super().__init__(exporter)
        self._patience = patience

    def shutdown(self) -> None:
        self._batch_processor.shutdown(timeout_millis=int(self._patience * 1000))


_Reported = tuple[metrics_sdk.MetricExporter, _Reporter]
"""An exporter of metrics, and the reporter of its failures."""


# Most commands export nothing: they start sooner without the exporters.
def _otlp_spans(patience: float) -> SpanProcessor:
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter

    reporter = _Reporter("spans", "otlp")
    return _Batches(_Spans(OTLPSpanExporter(session=reporter.session()), reporter), patience)


def _otlp_metrics() -> _Reported:
    from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter

    reporter = _Reporter("metrics", "otlp")
    return OTLPMetricExporter(session=reporter.session()), reporter


_SPANS: Final[Mapping[str, Callable[[float], SpanProcessor]]] = {
    "otlp": _otlp_spans,
    "console": lambda _: spans_sdk.SimpleSpanProcessor(spans_sdk.ConsoleSpanExporter()),
}
_METRICS: Final[Mapping[str, Callable[[], _Reported]]] = {
    "otlp": _otlp_metrics,
    "console": lambda: (metrics_sdk.ConsoleMetricExporter(), _Reporter("metrics", "console")),
}

_PROTOCOL: Final = "http/protobuf"
_INTERVAL: Final = "OTEL_METRIC_EXPORT_INTERVAL"


PATIENCE: Final = 5.0
"""Seconds that the last spans of a flow have to be sent."""


@contextmanager
def _naming_variables() -> Iterator[None]:
    try:
        yield
    except (RuntimeError, ValueError) as error:
        raise ConfigError(f"a variable OTEL_* is refused: {error}") from error


def tracer_provider(patience: float = 1.0) -> trace.TracerProvider:
    """The provider of tracers. Its end, at the latest that of the process, takes `patience` seconds at most.

    Raises ConfigError for an unknown exporter or protocol, and for a variable that OpenTelemetry refuses.
    """
    with _naming_variables():
        processors = [make(patience) for make in _exporters("TRACES", _SPANS)]
        if not processors:
            return trace.NoOpTracerProvider()
        provider = TracerProvider(resource=_resource())
    for processor in processors:
        provider.add_span_processor(processor)
    return provider


def close_traces(provider: trace.TracerProvider) -> None:
    """Send the spans that wait, and end their export."""
    if isinstance(provider, TracerProvider):
        provider.shutdown()


def metric_export(instruments: Instruments) -> "MetricExport | None":
    """Begin to export the metrics, if that is asked for. Raises ConfigError as `tracer_provider` does."""
    with _naming_variables():
        exporters = [make() for make in _exporters("METRICS", _METRICS)]
    interval = os.getenv(_INTERVAL) or "60000"
    if not re.fullmatch(r"0*[1-9]\d{0,8}", interval, re.ASCII):
        raise ConfigError(f"{_INTERVAL}: {interval!r} is not a number of milliseconds")
    return MetricExport(instruments.registry, exporters, _resource(), int(interval) / 1000) if exporters else None


def _exporters(signal: str, known: Mapping[str, Exporter]) -> list[Exporter]:
    variable = f"OTEL_{signal}_EXPORTER"
    endpoint = os.getenv("OTEL_EXPORTER_OTLP_ENDPOINT") or os.getenv(f"OTEL_EXPORTER_OTLP_{signal}_ENDPOINT")
    listed = os.getenv(variable) or ("otlp" if endpoint else "none")
    names = [name.strip() for name in listed.split(",")]
    for name in names:
        if name not in {*known, "none"}:
            raise ConfigError(f"{variable}: {name!r} is not one of otlp, console, none")
    if os.getenv("OTEL_SDK_DISABLED", "").strip().lower() == "true":
        return []
    own = f"OTEL_EXPORTER_OTLP_{signal}_PROTOCOL"
    variable = own if os.getenv(own) else "OTEL_EXPORTER_OTLP_PROTOCOL"
    protocol = os.getenv(variable, "").strip() or _PROTOCOL
    if "otlp" in names and protocol != _PROTOCOL:
        raise ConfigError(f"{variable}: {protocol!r} is not spoken, only {_PROTOCOL}, on port 4318 of most collectors")
    return [known[name] for name in names if name != "none"]


def _resource() -> Resource:
    return Resource.create({SERVICE_NAME: "rankstream", SERVICE_VERSION: VERSION}).merge(
        OTELResourceDetector().detect()
    )


_CUMULATIVE: Final = metrics_sdk.AggregationTemporality.CUMULATIVE
_UNITS: Final = {"seconds": "s", "bytes": "By"}
_BOUND: Final = "le"


def metrics_data(
    families: Iterable[Family], resource: Resource, started_ns: int, now_ns: int
) -> metrics_sdk.MetricsData:
    """The families as one resource's metrics; times in Unix nanoseconds."""
    metrics = [_metric(family, started_ns, now_ns) for family in families]
    scope = metrics_sdk.ScopeMetrics(InstrumentationScope("rankstream"), metrics, "")
    return metrics_sdk.MetricsData([metrics_sdk.ResourceMetrics(resource, [scope], "")])


@dataclass(eq=False)
class MetricExport:
    """Sends a registry's metrics to exporters every `interval` seconds, and when it is closed."""

    registry: CollectorRegistry
    exporters: Sequence[_Reported]
    resource: Resource
    interval: float

    def __post_init__(self) -> None:
        self._started_ns = time.time_ns()
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._run, name="metrics", daemon=True)
        self._thread.start()

    def close(self, timeout: float) -> None:
        """Send the metrics once more, and end, within `timeout` seconds."""
        self._closing.set()
        self._thread.join(timeout)
        for exporter, reporter in self.exporters:
            reporter.close()
            exporter.shutdown(timeout_millis=0)

    def _run(self) -> None:
        ending = False
        while not ending:
            ending = self._closing.wait(self.interval)
            data = metrics_data(self.registry.collect(), self.resource, self._started_ns, time.time_ns())
            for exporter, reporter in self.exporters:
                reporter.succeeds(partial(exporter.export, data))


def _metric(family: Family, started_ns: int, now_ns: int) -> metrics_sdk.Metric:
    unit = _UNITS.get(family.name.rpartition("_")[2], "1")
    if family.type == "histogram":
        histogram = metrics_sdk.Histogram([*_histograms(family.samples, started_ns, now_ns)], _CUMULATIVE)
        return metrics_sdk.Metric(family.name, family.documentation, unit, histogram)
    counts = family.type == "counter"
    name = f"{family.name}_total" if counts else family.name
    samples = [sample for sample in family.samples if sample.name == name]
    points = [metrics_sdk.NumberDataPoint(sample.labels, started_ns, now_ns, sample.value) for sample in samples]
    data = metrics_sdk.Sum(points, _CUMULATIVE, is_monotonic=True) if counts else metrics_sdk.Gauge(points)
    return metrics_sdk.Metric(name, family.documentation, unit, data)


def _histograms(samples: Iterable[Sample], started_ns: int, now_ns: int) -> Iterator[metrics_sdk.HistogramDataPoint]:
    def labels(sample: Sample) -> dict[str, str]:
        return {name: value for name, value in sample.labels.items() if name != _BOUND}

    for attributes, of_child in groupby(samples, labels):
        own = list(of_child)
        buckets = [sample for sample in own if sample.name.endswith("_bucket")]
        # Prometheus's buckets hold those below them, too; the last one's bound is infinite.
        counts = [0, *(int(bucket.value) for bucket in buckets)]
        yield metrics_sdk.HistogramDataPoint(
            attributes=attributes,
            start_time_unix_nano=started_ns,
            time_unix_nano=now_ns,
            count=counts[-1],
            sum=next(sample.value for sample in own if sample.name.endswith("_sum")),
            bucket_counts=[after - before for before, after in pairwise(counts)],
            explicit_bounds=[float(bucket.labels[_BOUND]) for bucket in buckets[:-1]],
            # Not kept; the protocol need not have them.
            min=None,  # type: ignore[arg-type]
            max=None,  # type: ignore[arg-type]
            exemplars=[exemplar for bucket in buckets for exemplar in _exemplars(bucket, now_ns)],
        )


def _exemplars(bucket: Sample, now_ns: int) -> list[Exemplar]:
    exemplar = bucket.exemplar
    if exemplar is None:
        return []
    at = int(float(exemplar.timestamp) * 1e9) if exemplar.timestamp is not None else now_ns
    trace_id, span_id = int(exemplar.labels["trace_id"], 16), int(exemplar.labels["span_id"], 16)
    return [Exemplar({}, exemplar.value, at, span_id, trace_id)]
