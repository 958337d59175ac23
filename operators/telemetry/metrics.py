"""The metrics: each with its name, its description, its labels and its buckets, and bound to one flow's label.

Names and labels are Prometheus's, and the same over OTLP. docs/reference/observability.md has their promises, in MUST
and SHOULD. Every metric but those of the process has the label `flow`: a process may run several.

A query is counted some twenty times. So histograms count in bulk: a sample costs a quarter of one in Prometheus's own.
And an instrument's child is looked up by its labels once, and by C code from then on.
"""

import threading
import time
from collections import deque
from collections.abc import Iterable, Sequence
from functools import partial
from platform import python_version
from typing import Any, Final, Generic, NamedTuple, TypeVar

import numpy as np
import prometheus_client
from prometheus_client import CollectorRegistry, Counter, Gauge, ProcessCollector
from prometheus_client.samples import Exemplar, Sample

from operators.runtime.dispatcher import Load
from schemas.result import VERSION

SECONDS: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
"""Upper bounds of durations: from a step within the process to the longest deadline."""

SIZES: Final = (1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0, 256.0, 512.0, 1024.0)

SHARES: Final = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0)

FLOW: Final = "flow"

OK: Final = "ok"

AT_ONCE: Final = 1000
"""Most samples that wait to be counted until the metrics are collected."""


class Histogram(prometheus_client.Histogram):
    """Prometheus's histogram, whose samples are counted when it is collected, or when AT_ONCE of them wait.

    The collected metrics are the same as if each had been counted by itself, within rounding of the sum.
    """

    def _metric_init(self) -> None:
        super()._metric_init()
        self._waiting: deque[tuple[float, Exemplar | None]] = deque()
        self._counting = threading.Lock()

    def observe(self, amount: float, exemplar: dict[str, str] | None = None) -> None:
        """Take a sample, and the labels of its exemplar, if it has one. From any thread."""
        self._waiting.append((amount, Exemplar(exemplar, amount, time.time()) if exemplar is not None else None))
        if len(self._waiting) >= AT_ONCE:
            self._count()

    def _child_samples(self) -> Iterable[Sample]:
        self._count()
        return super()._child_samples()

    def _count(self) -> None:
        with self._counting:
            # Other threads add to it meanwhile.
            waiting = [self._waiting.popleft() for _ in range(len(self._waiting))]
            if not waiting:
                return
            amounts = [amount for amount, _ in waiting]
            self._sum.inc(sum(amounts))
            within = np.searchsorted(self._upper_bounds, amounts)
            for bucket, count in zip(self._buckets, np.bincount(within, minlength=len(self._buckets)), strict=True):
                if count:
                    bucket.inc(int(count))
            latest = {slot: exemplar for slot, (_, exemplar) in zip(within.tolist(), waiting, strict=True) if exemplar}
            for slot, exemplar in latest.items():
                self._buckets[slot].set_exemplar(exemplar)


M = TypeVar("M", Counter, Gauge, Histogram)


class Instruments:
    """One process's metrics by name, in a registry of their own."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        # The process's processor time, memory and descriptors by the names of Prometheus's clients; on Linux.
        ProcessCollector(registry=self.registry)
        said, labels = "1, with the version of rankstream that runs.", ("version", "python")
        build = Gauge("build_info", said, labels, namespace="rankstream", registry=self.registry)
        build.labels(VERSION, python_version()).set(1)
        self.by_name: dict[str, Any] = {}
        self._making = threading.Lock()

    def of(
        self, flow: str, kind: type[M], name: str, documentation: str, *labels: str, buckets: Sequence[float] = SECONDS
    ) -> "Children[M]":
        """A flow's children of the instrument of this name, which is made once."""
        bounds: dict[str, Any] = {"buckets": buckets} if kind is Histogram else {}
        own = {"namespace": "rankstream", "registry": self.registry, **bounds}
        with self._making:
            if name not in self.by_name:
                self.by_name[name] = kind(name, documentation, [FLOW, *labels], **own)
        return Children(self.by_name[name], flow)


class Children(dict[tuple[str, ...], M], Generic[M]):
    """An instrument's children by their labels, in the instrument's order without `flow`."""

    def __init__(self, instrument: M, flow: str) -> None:
        super().__init__()
        self.instrument: M = instrument
        self._flow = flow

    def __missing__(self, labels: tuple[str, ...]) -> M:
        child: M = self.instrument.labels(self._flow, *labels)
        self[labels] = child
        return child

    def remove(self, *labels: str) -> None:
        """Stop exporting the metric with these labels."""
        if self.pop(labels, None) is not None:
            self.instrument.remove(self._flow, *labels)


class FlowMetrics:
    """The metrics of one flow."""

    def __init__(self, instruments: Instruments, flow: str) -> None:
        counter = partial(instruments.of, flow, Counter)
        gauge = partial(instruments.of, flow, Gauge)
        histogram = partial(instruments.of, flow, Histogram)
        # A metric without further labels has one child.
        self.received = counter("messages_received", "Messages read from Kafka, for the flow.")[()]
        self.answered = counter("queries_answered", "Queries whose result is committed, by its status.", "status")
        self.latency = histogram(
            "query_latency_seconds", "From Kafka's timestamp of a query to the commit of its result.", "status"
        )
        self.applied = counter("documents_applied", "Documents that are in the index, with their offset committed.")[()]
        self.feedback = counter("feedback", "Feedback events, by what became of them.", "outcome")
        self.unreadable = counter("documents_unreadable", "Documents whose script the embedder does not know.")[()]
        self.dead_letters = counter(
            "dead_letters",
            "Messages that became dead letters, by class and by the stage that rejected them; committed.",
            "class",
            "stage",
        )
        self.degraded = counter("degraded", "Parts of answers that were lost, by stage and reason.", "stage", "reason")
        self.legs = counter("legs", "Legs of queries by what became of them.", "leg", "outcome")
        self.stages = histogram("stage_duration_seconds", "Duration of a query's step.", "stage")
        self.lookups = counter("cache_lookups", "Lookups in caches, hit or miss.", "cache", "outcome")
        self.removed = counter("firewall_removals", "Documents that the post-filter check took out of results.")[()]
        self.policies_refused = gauge(
            "policies_refused", "1 while policies.files cannot be read, and older policies hold."
        )[()]
        self.rules_refused = gauge("rules_refused", "Records of the topic rules that were no rule.")
        self.rules_behind = gauge("rules_behind", "1 while rules cannot be read, and those that were read hold.")
        self.tables = gauge("table_entries", "Entries of a table that grows with names or texts.", "table")
        self.experiments = counter(
            "experiment_queries",
            "Queries that an experiment chose, by what became of the second ranking: compared, left_out or unfit.",
            "experiment",
            "mode",
            "outcome",
        )
        self.overlap = histogram(
            "experiment_overlap", "Rank-biased overlap of both rankings of a query.", "experiment", buckets=SHARES
        )
        self.decayed = counter("decay_applied", "Queries that were ranked by age.")[()]

        self.in_flight = gauge("in_flight", "Messages read and not committed.")
        self.credit = gauge("credit", "Messages that may be read now beyond those in flight.")
        self.lag = gauge(
            "consumer_lag",
            "Messages of an assigned partition that can be read, from the committed offset to the last stable one.",
            "topic",
            "partition",
        )
        self.unstable = gauge(
            "consumer_unstable",
            "Messages of an assigned partition behind its last stable offset: a transaction of a producer is open.",
            "topic",
            "partition",
        )
        self.rebalances = counter("rebalances", "Changes of the assigned partitions, by kind.", "kind")
        self.transactions = counter("transactions", "Transactions, by what became of them.", "outcome")
        self.transaction_duration = histogram("transaction_duration_seconds", "Duration of a transaction.")[()]
        self.replacements = counter("producer_replacements", "Transactional producers that were replaced.")[()]
        self.abandoned = counter("records_abandoned", "Records that were dropped: their partition was taken away.")[()]
        self.drains = counter("drains", "Drains, by what became of them.", "outcome")
        self.idle = gauge("worker_idle_seconds", "Time since the worker last moved: the watchdog looks at it.")
        self.idle_limit = gauge("worker_idle_limit_seconds", "How long the worker may stand still: delivery.watchdog.")

        self._calls = gauge("calls_in_flight", "Calls of a stage to its backend under way.", "stage")
        self._calls_limit = gauge("calls_limit", "Most calls of a stage that may be under way; 0: no limit.", "stage")
        self._batch = histogram(
            "batch_size", "What one call of a stage carries: texts, or documents to rerank.", "stage", buckets=SIZES
        )
        self._queue_wait = histogram(
            "queue_wait_seconds", "How long the request that waited longest waited for its call.", "stage"
        )
        self._requests = counter("backend_requests", "Requests to a backend, `ok` or by reason.", "backend", "outcome")
        self._request_duration = histogram(
            "backend_request_duration_seconds", "Duration of requests that a backend answered.", "backend"
        )
        self._breaker = gauge("breaker_open", "1 while a backend is left alone, else 0.", "backend")

    def load(self, stage: str, limit: int) -> Load:
        """The metrics of a stage's calls, of which `limit` may be under way; 0 or less is no limit."""
        self._calls_limit[(stage,)].set(max(limit, 0))
        return Load(self._batch[(stage,)].observe, self._queue_wait[(stage,)].observe, self._calls[(stage,)].set)

    def backend(self, name: str) -> "BackendMetrics":
        """The metrics of the requests to a backend."""
        return BackendMetrics(name, self._requests, self._request_duration[(name,)], self._breaker[(name,)])


class BackendMetrics(NamedTuple):
    """The requests to one backend."""

    name: str
    requests: Children[Counter]
    duration: Histogram
    breaker: Gauge

    def answered(self, seconds: float) -> None:
        """A request was answered."""
        self.requests[self.name, OK].inc()
        self.duration.observe(seconds)

    def failed(self, reason: str) -> None:
        """A request failed, for this reason."""
        self.requests[self.name, reason].inc()
