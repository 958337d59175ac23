"""A real Prometheus scrapes a running flow by the files of deploy/.

Alerts fire when a fault is made, and stop when it is mended; the dashboards' queries have values; and exemplars lead to
traces.
"""

import contextlib
import itertools
import json
import signal
import time
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import httpx
import kafka
import pytest

from bench.kafka.broker import Broker
from bench.stubs import DIMENSION, Stubs, stub_backends
from tests.deploy.monitoring import DASHBOARDS, dashboard_expressions, filled, panels
from tests.integration.deployment import PARTITIONS, Deployment, Flow, wait_until
from tests.integration.poison import POISON
from tests.integration.prometheus import WINDOW, Prometheus
from tests.otlp import Receiver
from tests.repeated import repeated

pytestmark = [pytest.mark.slow, pytest.mark.operate, pytest.mark.timeout(600)]

JOB = "rankstream-search"
PAUSE = 0.2
"""Seconds between two queries."""

RARE = {"Dead letters", "Incomplete answers", "Lost parts of answers", "Rebalances and drains"}
"""Panels of which a query may have no value while all is well."""


@dataclass(frozen=True)
class Watched:
    """A flow that is asked all the time, and the Prometheus that scrapes it."""

    deployment: Deployment
    flow: Flow
    stubs: Stubs
    prometheus: Prometheus
    traces: Receiver

    @contextlib.contextmanager
    def fault(self, url: str, kind: str) -> Iterator[None]:
        """Have a stub fail until the block is left."""
        httpx.post(f"{url}/control", json={"fault": kind}).raise_for_status()
        try:
            yield
        finally:
            httpx.post(f"{url}/control", json={"fault": None}).raise_for_status()

    def answers(self) -> bool:
        """True if queries are answered, completely."""
        return bool(self.prometheus.value(f'rate(rankstream_queries_answered_total{{status="ok"}}[{WINDOW}]) > 0'))


@pytest.fixture(scope="module")
def watched(broker: Broker, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Watched]:
    """A flow with stub backends under a steady load, well at first."""
    unique = uuid.uuid4().hex[:8]
    directory = tmp_path_factory.mktemp("prometheus")
    with stub_backends() as stubs, Receiver() as traces, contextlib.ExitStack() as stack:
        sections = {
            "qdrant": {"url": stubs.qdrant, "dimension": DIMENSION, "timeout": 30},
            "embedder": {"kind": "openai", "url": stubs.embed, "timeout": 30},
            "rerank": {"kind": "cohere", "url": stubs.rerank, "timeout": 60, "max_concurrency": 0},
            "limits": {"timeout": 60},
        }
        names: Callable[[str], str] = lambda word: f"{word}-{unique}"  # noqa: E731
        running = stack.enter_context(Deployment.on(broker, directory, names, sections))
        # A process that was stopped for some seconds goes on.
        running.settings["kafka"] |= {"transaction_timeout": 120, "max_poll_interval": 120}
        running.environment = {"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": f"{traces.endpoint}/v1/traces"}
        flow = running.start()
        prometheus = stack.enter_context(Prometheus.scraping({JOB: f"127.0.0.1:{flow.port}"}, directory))
        # Before the first query, too: a flow without partitions would be an alert.
        wait_until(lambda: len(prometheus.value("rankstream_consumer_lag")) == PARTITIONS)
        stack.enter_context(asking(running))
        found = Watched(running, flow, stubs, prometheus, traces)
        wait_until(found.answers)
        prometheus.wait_quiet()
        yield found


@contextlib.contextmanager
def asking(running: Deployment) -> Iterator[None]:
    """Send query after query, none like another, until the block is left."""
    numbers = itertools.count()
    with contextlib.closing(kafka.KafkaProducer(bootstrap_servers=running.broker.bootstrap)) as producer:

        def ask() -> None:
            event = {"query_id": f"q{next(numbers)}", "text": f"blue lantern {uuid.uuid4().hex}"}
            producer.send(running.names["queries"], json.dumps(event).encode())
            time.sleep(PAUSE)

        with repeated(ask):
            yield


def test_the_dashboards_have_values(watched: Watched) -> None:
    """Prometheus evaluates every query of both dashboards, and those of the search flow's have values while it runs."""
    indexing, search = DASHBOARDS
    for each in dashboard_expressions(indexing):
        watched.prometheus.value(each.text)

    def without_values() -> set[str]:
        return {
            panel["title"]
            for panel in panels(json.loads(search.read_text()))
            for target in panel["targets"]
            if not watched.prometheus.value(filled(target["expr"], __rate_interval=WINDOW, job=JOB))
        }

    with contextlib.suppress(AssertionError):
        wait_until(lambda: without_values() <= RARE)
    assert without_values() - RARE == set()


def test_exemplars_lead_to_traces(watched: Watched) -> None:
    """An exemplar of the latency that Prometheus keeps has the id of a trace that was sent."""

    def led() -> bool:
        sent = {span.trace_id for span in watched.traces.spans}
        return bool(watched.prometheus.exemplars("rankstream_query_latency_seconds_bucket") & sent)

    wait_until(led)


def test_the_times_of_creation_are_dropped(watched: Watched) -> None:
    """The scrape is of OpenMetrics, which has a second series for each counter; the configuration keeps the first."""
    assert watched.prometheus.value('{__name__=~"rankstream_.+_total"}')
    assert watched.prometheus.value('{__name__=~"rankstream_.+_created"}') == []


def test_a_failing_qdrant_fires_until_it_is_mended(watched: Watched) -> None:
    """Its breaker, the lost legs and the failed answers raise an alert each; then all is quiet again."""
    prometheus = watched.prometheus
    with watched.fault(watched.stubs.qdrant, "500"):
        prometheus.wait_firing("RankstreamBreakerOpen", backend="qdrant", flow="search", job=JOB)
        prometheus.wait_firing("RankstreamAnswersFailed", severity="critical", job=JOB)
        prometheus.wait_firing("RankstreamAnswersDegraded", stage="vector", job=JOB)
    wait_until(watched.answers)
    prometheus.wait_quiet()


def test_poison_fires_by_its_class(watched: Watched) -> None:
    """Each class of dead letters is an alert of its own, which ends when no more come."""
    prometheus = watched.prometheus
    watched.deployment.produce("queries", list(POISON))
    for kind in set(POISON.values()):
        prometheus.wait_firing("RankstreamDeadLetters", **{"class": kind, "flow": "search"})
    prometheus.wait_quiet()


def test_a_stopped_process_fires_until_it_goes_on(watched: Watched) -> None:
    """A process that does not answer the scrape is a replica that is down; and no search replica is left then."""
    prometheus = watched.prometheus
    watched.flow.process.send_signal(signal.SIGSTOP)
    try:
        prometheus.wait_firing("RankstreamReplicaDown", job=JOB, instance=f"127.0.0.1:{watched.flow.port}")
        prometheus.wait_firing("RankstreamNotScraped", severity="critical")
    finally:
        watched.flow.process.send_signal(signal.SIGCONT)
    wait_until(watched.answers)
    prometheus.wait_quiet()


def test_a_reranker_that_hangs_fires_until_it_is_mended(watched: Watched) -> None:
    """Queries with much time wait for it, nothing is committed, and that is an alert."""
    prometheus = watched.prometheus
    with watched.fault(watched.stubs.rerank, "hang"):
        prometheus.wait_firing("RankstreamNoAnswers", severity="critical", flow="search", job=JOB)
    wait_until(watched.answers)
    wait_until(lambda: not prometheus.fires("RankstreamNoAnswers"))
