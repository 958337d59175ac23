"""Metrics as Prometheus scrapes them, and as an OTLP receiver gets them: the same names, labels and values."""

import os
import platform
import threading
import time
from collections.abc import Callable
from contextlib import closing
from http.server import BaseHTTPRequestHandler
from importlib.metadata import version
from pathlib import Path

import httpx
import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families

from bench.kafka.broker import Broker
from bench.stubs import DIMENSION, stub_backends
from flows.process.health import Health
from operators.telemetry.export import metric_export
from operators.telemetry.metrics import FlowMetrics, Instruments
from operators.telemetry.traces import Signals
from tests.integration.deployment import Deployment
from tests.loopback import LoopbackServer
from tests.operators.recorded import Recorded
from tests.operators.samples import message
from tests.otlp import Point, Receiver

_OWN = ("_bucket", "_sum", "_created")
"""The series that only Prometheus's format has."""

Key = tuple[str, tuple[tuple[str, str], ...]]


@pytest.fixture
def environment(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """An environment without any OTEL_* variable."""
    for name in [name for name in os.environ if name.startswith("OTEL_")]:
        monkeypatch.delenv(name)
    return monkeypatch


def scraped(instruments: Instruments, accept: str = "application/openmetrics-text; version=1.0.0") -> httpx.Response:
    """The health port's answer to a scrape."""
    with closing(Health("127.0.0.1", 0, instruments.registry)) as health:
        return httpx.get(f"http://127.0.0.1:{health.port}/metrics", headers={"accept": accept})


def samples(text: str) -> dict[Key, float]:
    """The values by name and labels."""
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def test_the_build_says_its_version() -> None:
    """Replicas of two versions can be told apart, whatever they have done."""
    [labels] = [
        dict(labels) for name, labels in samples(scraped(Instruments()).text) if name == "rankstream_build_info"
    ]
    assert labels["version"] == version("rankstream")
    assert labels["python"] == platform.python_version()


def value(found: dict[Key, float], name: str, **labels: str) -> float:
    """One of them, of the search flow."""
    return found[name, tuple(sorted({"flow": "search", **labels}.items()))]


def used(instruments: Instruments, recorded: Recorded | None = None) -> FlowMetrics:
    """A flow's metrics after one query that lost a leg, and one dead letter."""
    metrics = FlowMetrics(instruments, "search")
    tracer = (recorded if recorded is not None else Recorded(sampled=False)).tracer
    trace = Signals(tracer, metrics, "rankstream").trace(message(timestamp=time.time() - 0.2), (), {})
    trace.passed("rerank", 0.03)
    trace.looked_up("payload", 3, 2)
    trace.degraded("vector", "timeout")
    trace.answered([("vector", "timeout"), ("keyword", "ok")], removed=2, aged=True)
    trace.send("results", "partial")
    trace.sent()
    refused = Signals(tracer, metrics, "rankstream").trace(message(), (), {})
    refused.send("dead-letters", "dead_letter")
    refused.sent()
    return metrics


def test_a_query_is_counted_by_what_became_of_it() -> None:
    """Status, lost parts, legs, cache lookups, removals and durations are there for a scrape; a dead letter is no
    answer.
    """
    instruments = Instruments()
    used(instruments)
    found = samples(scraped(instruments).text)
    assert value(found, "rankstream_queries_answered_total", status="partial") == 1
    assert not any(
        name == "rankstream_queries_answered_total" and ("status", "dead_letter") in of for name, of in found
    )
    assert value(found, "rankstream_degraded_total", stage="vector", reason="timeout") == 1
    assert value(found, "rankstream_legs_total", leg="keyword", outcome="ok") == 1
    assert value(found, "rankstream_legs_total", leg="vector", outcome="timeout") == 1
    assert value(found, "rankstream_cache_lookups_total", cache="payload", outcome="hit") == 3
    assert value(found, "rankstream_cache_lookups_total", cache="payload", outcome="miss") == 2
    assert value(found, "rankstream_firewall_removals_total") == 2
    assert value(found, "rankstream_decay_applied_total") == 1
    assert value(found, "rankstream_stage_duration_seconds_bucket", stage="rerank", le="0.05") == 1
    assert value(found, "rankstream_stage_duration_seconds_bucket", stage="rerank", le="0.025") == 0
    # From Kafka's timestamp, which lies 0.2 s back.
    assert value(found, "rankstream_query_latency_seconds_bucket", status="partial", le="0.1") == 0
    assert value(found, "rankstream_query_latency_seconds_count", status="partial") == 1


def test_samples_of_a_recorded_trace_lead_to_it() -> None:
    """A scrape that takes OpenMetrics gets the trace's id as the sample's exemplar; without recording there is none."""
    instruments, recorded = Instruments(), Recorded()
    used(instruments, recorded)
    trace_id = format(recorded.spans["send results"].context.trace_id, "032x")
    assert f'trace_id="{trace_id}"' in scraped(instruments).text
    unrecorded = Instruments()
    used(unrecorded)
    assert "trace_id" not in scraped(unrecorded).text


def test_a_plain_scrape_gets_the_text_format() -> None:
    """Without OpenMetrics in `accept` the answer is Prometheus's older format, and the process's own metrics are in
    it.
    """
    answer = scraped(Instruments(), accept="text/plain")
    assert answer.headers["content-type"].startswith("text/plain")
    assert "process_cpu_seconds_total" in answer.text
    assert "# EOF" not in answer.text


def test_two_flows_of_a_process_are_told_apart() -> None:
    """By the label `flow`."""
    instruments = Instruments()
    FlowMetrics(instruments, "search").received.inc(2)
    FlowMetrics(instruments, "indexing").received.inc(3)
    found = samples(scraped(instruments).text)
    assert value(found, "rankstream_messages_received_total") == 2
    assert value(found, "rankstream_messages_received_total", flow="indexing") == 3


def test_what_is_watched_is_asked_for_at_every_scrape() -> None:
    """In flight, credit, the worker's idleness and a breaker have the value of the moment."""
    instruments, now = Instruments(), {"in_flight": 3, "open": False}
    metrics = FlowMetrics(instruments, "search")
    metrics.in_flight[()].set_function(lambda: int(now["in_flight"]))
    metrics.credit[()].set_function(lambda: 512 - int(now["in_flight"]))
    metrics.idle[()].set_function(lambda: 0.5)
    metrics.idle_limit[()].set(30.0)
    metrics.backend("qdrant").breaker.set_function(lambda: bool(now["open"]))
    found = samples(scraped(instruments).text)
    assert (value(found, "rankstream_in_flight"), value(found, "rankstream_credit")) == (3, 509)
    assert value(found, "rankstream_worker_idle_seconds") < value(found, "rankstream_worker_idle_limit_seconds")
    assert value(found, "rankstream_breaker_open", backend="qdrant") == 0
    now.update(in_flight=4, open=True)
    found = samples(scraped(instruments).text)
    assert (value(found, "rankstream_in_flight"), value(found, "rankstream_breaker_open", backend="qdrant")) == (4, 1)


def test_a_partition_that_is_gone_has_no_lag() -> None:
    """Its series ends, in place of standing still."""
    instruments = Instruments()
    metrics = FlowMetrics(instruments, "search")
    metrics.lag["queries", "0"].set(7)
    metrics.lag["queries", "1"].set(8)
    metrics.lag.remove("queries", "0")
    metrics.lag.remove("queries", "2")
    found = {key: lag for key, lag in samples(scraped(instruments).text).items() if key[0] == "rankstream_consumer_lag"}
    assert list(found.values()) == [8]


def test_a_receiver_gets_what_a_scrape_shows(environment: pytest.MonkeyPatch) -> None:
    """Over OTLP every metric has the name, the labels and the value that it has at the health port; the buckets of a
    histogram do not hold those below them, and its exemplars name the trace.
    """
    instruments, recorded = Instruments(), Recorded()
    with Receiver() as receiver:
        environment.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", receiver.endpoint)
        export = metric_export(instruments)
        assert export is not None
        used(instruments, recorded)
        export.close(10)
        points = receiver.wait_for_points(bool)
    shown = samples(scraped(instruments).text)
    ours = [point for point in points if point.name.startswith("rankstream_")]
    for point in ours:
        name = f"{point.name}_count" if point.buckets else point.name
        assert shown[name, tuple(sorted((key, str(label)) for key, label in point.attributes.items()))] == point.value
    told = {name for name, _ in shown if name.startswith("rankstream_") and not name.endswith(_OWN)}
    assert {f"{point.name}_count" if point.buckets else point.name for point in ours} == told
    [stage] = [point for point in ours if point.name == "rankstream_stage_duration_seconds"]
    assert (stage.unit, sum(stage.buckets), max(stage.buckets)) == ("s", 1, 1)
    assert stage.exemplars == (format(recorded.spans["send results"].context.trace_id, "032x"),)
    assert all(point.resource["service.name"] == "rankstream" for point in points)


@pytest.mark.slow
@pytest.mark.broker
@pytest.mark.parametrize("client", ["librdkafka", "kafka-python"])
def test_a_running_flow_tells_its_calls(
    broker: Broker, tmp_path: Path, topic_names: Callable[[str], str], client: str
) -> None:
    """While a slow reranker is asked its calls are in flight, never more than may be, and in the end none is; each
    query is received, answered and committed in a transaction, and nothing is left behind the group.
    """
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
                "RANKSTREAM_KAFKA__CLIENT": client,
            }
            flow = running.start()
            running.ask([{"query_id": f"q{n}", "text": f"blue lantern {n}"} for n in range(8)])
            running.output_records(8, settled=False)

            def told(points: list[Point], name: str, **labels: str) -> list[float]:
                wanted = {"flow": "search", **labels}.items()
                return [point.value for point in points if point.name == name and wanted <= point.attributes.items()]

            def done(points: list[Point]) -> bool:
                calls = told(points, "rankstream_calls_in_flight", stage="rerank")
                lags = [point for point in points if point.name == "rankstream_consumer_lag"]
                last = {point.attributes["partition"]: point.value for point in lags}
                return 2 in calls and calls[-1] == 0 and bool(last) and not any(last.values())

            collector.wait_for_points(done, 30)
            assert flow.terminate() == 0
            points = collector.wait_for_points(
                lambda points: bool(told(points, "rankstream_drains_total", outcome="complete"))
            )
    assert max(told(points, "rankstream_calls_in_flight", stage="rerank")) == 2
    assert set(told(points, "rankstream_calls_limit", stage="rerank")) == {2}
    assert told(points, "rankstream_messages_received_total")[-1] == 8
    assert told(points, "rankstream_queries_answered_total", status="ok")[-1] == 8
    assert told(points, "rankstream_query_latency_seconds", status="ok")[-1] == 8
    assert told(points, "rankstream_batch_size", stage="rerank")[-1] == 8
    assert told(points, "rankstream_backend_requests_total", backend="reranker", outcome="ok")[-1] == 8
    assert 1 <= told(points, "rankstream_transactions_total", outcome="committed")[-1] <= 8
    assert told(points, "rankstream_rebalances_total", kind="assigned")[-1] >= 1
    assert told(points, "rankstream_in_flight")[-1] == 0
    assert told(points, "rankstream_stage_duration_seconds", stage="hybrid_merge")[-1] == 8


@pytest.mark.slow
@pytest.mark.broker
def test_the_last_metrics_do_not_wait_for_spans(
    broker: Broker, tmp_path: Path, topic_names: Callable[[str], str]
) -> None:
    """A flow that ends has sent its last metrics before it sends its last spans, and ends although no collector takes
    these.
    """
    ended = threading.Event()
    drained: list[bool] = []
    with stub_backends() as stubs, Receiver() as collector:

        class Hanging(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                points = collector.wait_for_points(lambda _: True)
                drained.append(any(point.name == "rankstream_drains_total" for point in points))
                ended.wait()

            def log_message(self, *_: object) -> None:
                """Say nothing on stderr."""

        sections = {
            "qdrant": {"url": stubs.qdrant, "dimension": DIMENSION, "timeout": 20},
            "embedder": {"kind": "openai", "url": stubs.embed, "timeout": 20},
        }
        with (
            LoopbackServer(Hanging, "hanging") as spans,
            Deployment.on(broker, tmp_path, topic_names, sections) as running,
        ):
            running.environment = {
                "OTEL_EXPORTER_OTLP_METRICS_ENDPOINT": f"{collector.endpoint}/v1/metrics",
                "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": f"{spans.base_url}/v1/traces",
                "OTEL_BSP_SCHEDULE_DELAY": "600000",
            }
            flow = running.start()
            running.ask([{"query_id": "q", "text": "blue lantern"}])
            running.output_records(1, settled=False)
            code = flow.terminate()
            ended.set()
    assert code == 0
    assert drained[:1] == [True]
