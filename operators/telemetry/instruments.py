"""The instruments: every metric with its name, its description, its labels, and its buckets.

Names and labels are Prometheus's, and the same over OTLP. docs/reference/observability.md has their promises, in MUST
and SHOULD. Every metric but those of the process has the label `flow`: a process may run several.

Histograms count in bulk: a sample costs a quarter of one in Prometheus's own, and a query has a dozen.
"""

import threading
import time
from collections import deque
from collections.abc import Iterable, Sequence
from typing import Any, Final, TypeVar

import numpy as np
import prometheus_client
from prometheus_client import CollectorRegistry, Counter, Gauge, ProcessCollector
from prometheus_client.samples import Exemplar, Sample

SECONDS: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
"""Upper bounds of durations: from a step within the process to the longest deadline."""

SIZES: Final = (1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0, 256.0, 512.0, 1024.0)

FLOW: Final = "flow"

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
            latest = {
                index: exemplar for index, (_, exemplar) in zip(within.tolist(), waiting, strict=True) if exemplar
            }
            for index, exemplar in latest.items():
                self._buckets[index].set_exemplar(exemplar)


M = TypeVar("M", Counter, Gauge, Histogram)


class Instruments:
    """One process's metrics, in a registry of their own."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        # The process's processor time, memory and descriptors by the names of Prometheus's clients; on Linux.
        ProcessCollector(registry=self.registry)

        self.received = self._of(Counter, "rankstream_messages_received", "Messages read from Kafka, for the flow.")
        self.answered = self._of(
            Counter, "rankstream_queries_answered", "Queries whose result is committed, by its status.", ["status"]
        )
        self.latency = self._of(
            Histogram,
            "rankstream_query_latency_seconds",
            "From Kafka's timestamp of a query to the commit of its result.",
            ["status"],
            SECONDS,
        )
        self.applied = self._of(
            Counter, "rankstream_documents_applied", "Documents that are in the index, with their offset committed."
        )
        self.unreadable = self._of(
            Counter, "rankstream_documents_unreadable", "Documents whose script the embedder does not know."
        )
        self.dead_letters = self._of(
            Counter,
            "rankstream_dead_letters",
            "Messages that became dead letters, by class and by the stage that rejected them; committed.",
            ["class", "stage"],
        )
        self.degraded = self._of(
            Counter, "rankstream_degraded", "Parts of answers that were lost, by stage and reason.", ["stage", "reason"]
        )
        self.legs = self._of(Counter, "rankstream_legs", "Legs of queries by what became of them.", ["leg", "outcome"])
        self.stages = self._of(
            Histogram, "rankstream_stage_duration_seconds", "Duration of a query's step.", ["stage"], SECONDS
        )
        self.lookups = self._of(
            Counter, "rankstream_cache_lookups", "Lookups in caches, hit or miss.", ["cache", "outcome"]
        )
        self.removed = self._of(
            Counter, "rankstream_firewall_removals", "Documents that the post-filter check took out of results."
        )
        self.policies_refused = self._of(
            Gauge, "rankstream_policies_refused", "1 while policies.files cannot be read, and older policies hold."
        )
        self.table_entries = self._of(
            Gauge, "rankstream_table_entries", "Entries of a table that grows with names or texts.", ["table"]
        )
        self.decayed = self._of(Counter, "rankstream_decay_applied", "Queries that were ranked by age.")

        self.in_flight = self._of(Gauge, "rankstream_in_flight", "Messages read and not committed.")
        self.credit = self._of(Gauge, "rankstream_credit", "Messages that may be read now beyond those in flight.")
        self.lag = self._of(
            Gauge,
            "rankstream_consumer_lag",
            "Messages of an assigned partition that can be read, from the committed offset to the last stable one.",
            ["topic", "partition"],
        )
        self.unstable = self._of(
            Gauge,
            "rankstream_consumer_unstable",
            "Messages of an assigned partition behind its last stable offset: a transaction of a producer is open.",
            ["topic", "partition"],
        )
        self.rebalances = self._of(
            Counter, "rankstream_rebalances", "Changes of the assigned partitions, by kind.", ["kind"]
        )
        self.transactions = self._of(
            Counter, "rankstream_transactions", "Transactions, by what became of them.", ["outcome"]
        )
        self.transaction_duration = self._of(
            Histogram, "rankstream_transaction_duration_seconds", "Duration of a transaction.", [], SECONDS
        )
        self.replacements = self._of(
            Counter, "rankstream_producer_replacements", "Transactional producers that were replaced."
        )
        self.abandoned = self._of(
            Counter, "rankstream_records_abandoned", "Records that were dropped: their partition was taken away."
        )
        self.drains = self._of(Counter, "rankstream_drains", "Drains, by what became of them.", ["outcome"])
        self.idle = self._of(
            Gauge, "rankstream_worker_idle_seconds", "Time since the worker last moved: the watchdog looks at it."
        )
        self.idle_limit = self._of(
            Gauge, "rankstream_worker_idle_limit_seconds", "How long the worker may stand still: delivery.watchdog."
        )

        self.calls = self._of(
            Gauge, "rankstream_calls_in_flight", "Calls of a stage to its backend under way.", ["stage"]
        )
        self.calls_limit = self._of(
            Gauge, "rankstream_calls_limit", "Most calls of a stage that may be under way; 0: no limit.", ["stage"]
        )
        self.batch = self._of(
            Histogram,
            "rankstream_batch_size",
            "What one call of a stage carries: texts, or documents to rerank.",
            ["stage"],
            SIZES,
        )
        self.queue_wait = self._of(
            Histogram,
            "rankstream_queue_wait_seconds",
            "How long the request that waited longest waited for its call.",
            ["stage"],
            SECONDS,
        )
        self.requests = self._of(
            Counter, "rankstream_backend_requests", "Requests to a backend, `ok` or by reason.", ["backend", "outcome"]
        )
        self.request_duration = self._of(
            Histogram,
            "rankstream_backend_request_duration_seconds",
            "Duration of requests that a backend answered.",
            ["backend"],
            SECONDS,
        )
        self.breaker = self._of(
            Gauge, "rankstream_breaker_open", "1 while a backend is left alone, else 0.", ["backend"]
        )

    def _of(
        self,
        kind: type[M],
        name: str,
        documentation: str,
        labels: Sequence[str] = (),
        buckets: Sequence[float] | None = None,
    ) -> M:
        bounds: dict[str, Any] = {} if buckets is None else {"buckets": buckets}
        return kind(name, documentation, [FLOW, *labels], registry=self.registry, **bounds)
