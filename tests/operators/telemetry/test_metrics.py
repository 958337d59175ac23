"""Metrics as an exporter sees them: the calls to the reranker in flight, the producers that were replaced."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader, NumberDataPoint

from bench.kafka.broker import Broker
from bench.stubs import DIMENSION, stub_backends
from operators.telemetry.metrics import producer_replacements, rerank_in_flight
from operators.telemetry.provider import meter_provider
from tests.integration.deployment import Deployment
from tests.otlp import Point, Receiver

NOW, MOST = "rankstream_rerank_in_flight", "rankstream_rerank_in_flight_max"


@pytest.fixture
def environment(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """An environment without any OTEL_* variable."""
    for name in [name for name in os.environ if name.startswith("OTEL_")]:
        monkeypatch.delenv(name)
    return monkeypatch


@pytest.fixture
def reader() -> InMemoryMetricReader:
    """A reader that collects when it is asked to."""
    return InMemoryMetricReader()


def value(point: object) -> float:
    """A gauge's."""
    assert isinstance(point, NumberDataPoint)
    return point.value


def read(reader: InMemoryMetricReader) -> dict[tuple[str, Any], float]:
    """The gauges' values by name and stage."""
    data = reader.get_metrics_data()
    assert data is not None
    return {
        (metric.name, (point.attributes or {})["rankstream.stage"]): value(point)
        for resource in data.resource_metrics
        for scope in resource.scope_metrics
        for metric in scope.metrics
        for point in metric.data.data_points
    }


def test_calls_in_flight_are_told_by_stage(environment: pytest.MonkeyPatch, reader: InMemoryMetricReader) -> None:
    """From the start on, 0 included, each stage has its own two gauges, which say the latest count and the bound."""
    provider = meter_provider([reader])
    meter = provider.get_meter("rankstream")
    rerank, pick = rerank_in_flight(meter, "rerank", 8), rerank_in_flight(meter, "pick", 0)
    assert read(reader) == {(NOW, "rerank"): 0, (MOST, "rerank"): 8, (NOW, "pick"): 0, (MOST, "pick"): 0}
    for count in (1, 2, 3, 2):
        rerank(count)
    pick(5)
    assert read(reader) == {(NOW, "rerank"): 2, (MOST, "rerank"): 8, (NOW, "pick"): 5, (MOST, "pick"): 0}
    rerank(0)
    assert read(reader)[NOW, "rerank"] == 0


def test_replaced_producers_are_counted_from_nought(
    environment: pytest.MonkeyPatch, reader: InMemoryMetricReader
) -> None:
    """The counter is there before anything was replaced, and says which client's it is and what it delivers for."""
    replaced = producer_replacements(meter_provider([reader]).get_meter("rankstream"), "librdkafka", "queries")
    assert replacements(reader) == {("librdkafka", "queries"): 0}
    replaced()
    replaced()
    assert replacements(reader) == {("librdkafka", "queries"): 2}


def replacements(reader: InMemoryMetricReader) -> dict[tuple[Any, Any], float]:
    """The counter by client and topic."""
    data = reader.get_metrics_data()
    assert data is not None
    return {
        ((point.attributes or {})["rankstream.kafka.client"], (point.attributes or {})["messaging.destination.name"]): (
            value(point)
        )
        for metric in data.resource_metrics[0].scope_metrics[0].metrics
        if metric.name == "rankstream_producer_replacements_total"
        for point in metric.data.data_points
    }


def test_gauges_have_units_and_say_whose_they_are(
    environment: pytest.MonkeyPatch, reader: InMemoryMetricReader
) -> None:
    """Calls, of the service that OTEL_SERVICE_NAME names, else of rankstream."""
    environment.setenv("OTEL_SERVICE_NAME", "searching")
    rerank_in_flight(meter_provider([reader]).get_meter("rankstream"), "rerank", 8)
    data = reader.get_metrics_data()
    assert data is not None
    (resource,) = data.resource_metrics
    assert resource.resource.attributes["service.name"] == "searching"
    assert {metric.unit for metric in resource.scope_metrics[0].metrics} == {"{call}"}


def test_a_receiver_gets_the_gauges(environment: pytest.MonkeyPatch) -> None:
    """Over OTLP they arrive with their names, unit, stage and service."""
    with Receiver() as receiver:
        environment.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", receiver.endpoint)
        provider = meter_provider()
        rerank_in_flight(provider.get_meter("rankstream"), "rerank", 8)(3)
        assert isinstance(provider, MeterProvider)
        provider.shutdown()
        points = receiver.wait_for_points(lambda points: len(points) >= 2)
    assert {(point.name, point.value) for point in points} == {(NOW, 3), (MOST, 8)}
    for point in points:
        assert (point.unit, point.attributes) == ("{call}", {"rankstream.stage": "rerank"})
        assert point.resource["service.name"] == "rankstream"


@pytest.mark.slow
def test_a_running_flow_tells_its_calls(broker: Broker, tmp_path: Path, topic_names: Callable[[str], str]) -> None:
    """While a slow reranker is asked its calls are in flight, never more than may be, and in the end none is."""
    with stub_backends(rerank_latency=0.3) as stubs, Receiver() as collector:
        sections = {
            "qdrant": {"url": stubs.qdrant, "dimension": DIMENSION, "timeout": 20},
            "embedder": {"kind": "openai", "url": stubs.embed, "timeout": 20},
            "rerank": {"kind": "cohere", "url": stubs.rerank, "timeout": 60, "max_concurrency": 2},
            "limits": {"timeout": 60},
        }
        with Deployment.on(broker, tmp_path, topic_names, sections) as running:
            running.environment = {
                "OTEL_EXPORTER_OTLP_METRICS_ENDPOINT": f"{collector.endpoint}/v1/metrics",
                "OTEL_METRIC_EXPORT_INTERVAL": "50",
            }
            flow = running.start()
            running.ask([{"query_id": f"q{n}", "text": f"blue lantern {n}"} for n in range(8)])
            running.output_records(8, settled=False)
            assert flow.terminate() == 0

            def told(points: list[Point]) -> list[float]:
                return [point.value for point in points if point.name == NOW]

            points = collector.wait_for_points(lambda points: 2 in told(points) and told(points)[-1] == 0)
    assert max(told(points)) == 2
    assert {point.value for point in points if point.name == MOST} == {2}
    assert {point.attributes["rankstream.stage"] for point in points} == {"rerank"}
