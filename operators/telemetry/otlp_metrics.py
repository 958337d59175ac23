"""Metrics over OpenTelemetry's exporters: what the instruments hold, in OpenTelemetry's data model.

The instruments are Prometheus's client: a sample costs it a microsecond, and OpenTelemetry's SDK eight, which a query
pays some twenty times. Names and labels are the same in both worlds; sums and histograms are cumulative from the
process's start.
"""

import threading
import time
from collections import defaultdict
from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Final

import structlog
from opentelemetry.sdk.metrics import Exemplar
from opentelemetry.sdk.metrics.export import (
    AggregationTemporality,
    Gauge,
    Histogram,
    HistogramDataPoint,
    Metric,
    MetricExporter,
    MetricExportResult,
    MetricsData,
    NumberDataPoint,
    ResourceMetrics,
    ScopeMetrics,
    Sum,
)
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from prometheus_client import CollectorRegistry
from prometheus_client.metrics_core import Metric as Family
from prometheus_client.samples import Sample

log = structlog.stdlib.get_logger(__name__)

_CUMULATIVE: Final = AggregationTemporality.CUMULATIVE
_UNITS: Final = {"seconds": "s", "bytes": "By"}
_BOUND: Final = "le"

Labels = tuple[tuple[str, str], ...]


def metrics_data(families: Iterable[Family], resource: Resource, started_ns: int, now_ns: int) -> MetricsData:
    """The families as one resource's metrics; times in Unix nanoseconds."""
    metrics = [_metric(family, started_ns, now_ns) for family in families]
    scope = ScopeMetrics(InstrumentationScope("rankstream"), metrics, "")
    return MetricsData([ResourceMetrics(resource, [scope], "")])


class MetricExport:
    """Sends a registry's metrics to exporters every `interval` seconds, and when it is closed."""

    def __init__(
        self, registry: CollectorRegistry, exporters: Sequence[MetricExporter], resource: Resource, interval: float
    ) -> None:
        self._registry = registry
        self._exporters = exporters
        self._resource = resource
        self._interval = interval
        self._started_ns = time.time_ns()
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._run, name="metrics", daemon=True)
        self._thread.start()

    def close(self, timeout: float) -> None:
        """Send what there is now, and end, within `timeout` seconds."""
        self._closing.set()
        self._thread.join(timeout)
        for exporter in self._exporters:
            exporter.shutdown(timeout_millis=0)

    def _run(self) -> None:
        ending = False
        while not ending:
            ending = self._closing.wait(self._interval)
            data = metrics_data(self._registry.collect(), self._resource, self._started_ns, time.time_ns())
            for exporter in self._exporters:
                self._send(exporter, data)

    def _send(self, exporter: MetricExporter, data: MetricsData) -> None:
        try:
            result = exporter.export(data)
        except Exception as error:  # noqa: BLE001  an exporter that fails must not end the export
            log.warning("metrics were not exported", error=type(error).__name__)
        else:
            if result is not MetricExportResult.SUCCESS:
                log.warning("metrics were not exported", exporter=type(exporter).__name__)


def _metric(family: Family, started_ns: int, now_ns: int) -> Metric:
    unit = _UNITS.get(family.name.rpartition("_")[2], "1")
    if family.type == "histogram":
        histogram = Histogram(_histograms(family.samples, started_ns, now_ns), _CUMULATIVE)
        return Metric(family.name, family.documentation, unit, histogram)
    counts = family.type == "counter"
    name = f"{family.name}_total" if counts else family.name
    points = [
        NumberDataPoint(sample.labels, started_ns, now_ns, sample.value)
        for sample in family.samples
        if sample.name == name
    ]
    data = Sum(points, _CUMULATIVE, is_monotonic=True) if counts else Gauge(points)
    return Metric(name, family.documentation, unit, data)


def _histograms(samples: Iterable[Sample], started_ns: int, now_ns: int) -> list[HistogramDataPoint]:
    buckets: dict[Labels, list[Sample]] = defaultdict(list)
    sums: dict[Labels, float] = {}
    for sample in samples:
        labels = tuple((name, value) for name, value in sample.labels.items() if name != _BOUND)
        if sample.name.endswith("_bucket"):
            buckets[labels].append(sample)
        elif sample.name.endswith("_sum"):
            sums[labels] = sample.value
    return [_histogram(labels, each, sums[labels], started_ns, now_ns) for labels, each in buckets.items()]


def _histogram(
    labels: Labels, buckets: Sequence[Sample], total: float, started_ns: int, now_ns: int
) -> HistogramDataPoint:
    # Prometheus's buckets hold those below them, too; the last one's bound is infinite.
    counts = [0, *(int(bucket.value) for bucket in buckets)]
    return HistogramDataPoint(
        attributes=dict(labels),
        start_time_unix_nano=started_ns,
        time_unix_nano=now_ns,
        count=counts[-1],
        sum=total,
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
