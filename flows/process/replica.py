"""A replica: one member of a consumer group, the flow that it feeds, and the threads between the two.

Rules:
- `stop`: reading ends, queries in flight are finished and committed, the member leaves its group, `run` returns.
- A failure of the worker, the consumer loop or the delivery is raised by `run`. The partitions' next owner reads the
  uncommitted messages again.
"""

import gc
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Final

import structlog
from bytewax.dataflow import Dataflow
from bytewax.run import cli_main

from flows.assembly import Resources
from flows.assembly.clients import Clients, InProcess, Ping
from flows.assembly.collections import ensure_collections
from flows.assembly.delivery import Replication
from flows.assembly.feedback import FeedbackParts, feedback_settings, find_needs
from flows.assembly.indexing import IndexingParts
from flows.assembly.query import rule_table
from flows.assembly.search import Parts
from flows.feedback import learning
from flows.indexing import indexing
from flows.search import search
from operators.caching.watermark_table import WatermarkTable
from operators.delivery import topics as topics_of_broker
from operators.delivery.client import TopicPartition
from operators.delivery.embedded_broker import PARTITIONS
from operators.delivery.table_reader import BrokenRules, RuleReader, WatermarkReader
from schemas.settings import Settings

log = structlog.stdlib.get_logger(__name__)

Build = Callable[[Settings, InProcess], "Replica"]

_RULES_TIMEOUT: Final = 1.0
"""Seconds for the broker to name the ends of the topic."""

_FIRST_READ: Final = 30.0
"""Seconds in which the rules must be read before the first query is."""

_GC_THRESHOLDS: Final = (200_000, 20, 100)


def freeze_heap() -> None:
    """Exempt the objects that there are from garbage collection, and let it look at new ones seldom.

    What a query makes is freed without it. Where a flow has a process, its settings, clients and models are there now.
    """
    gc.freeze()
    gc.set_threshold(*_GC_THRESHOLDS)


@dataclass(eq=False)
class Replica:
    """Feeds a flow. `watchdog` is how long, in seconds, the engine's worker may stand still.

    `resources` are closed when the flow has ended. `pings` are true for each backend that answers.
    """

    replication: Replication
    flow: Dataflow
    resources: Resources
    pings: Mapping[str, Ping]
    watchdog: float
    watermarks: WatermarkReader | None = None
    rules: RuleReader | None = None
    _ended: bool = field(default=False, init=False)

    def run(self) -> None:
        """Feed the flow, and run it until `stop`. Raises what ended it otherwise."""
        with self.feeding() as flow:
            cli_main(flow)

    @contextmanager
    def feeding(self) -> Iterator[Dataflow]:
        """The flow, which is fed as long as the block lasts that runs it. Raises what ended it, other than `stop`."""
        loop, delivery = self.replication.consumer_loop, self.replication.delivery
        asks = []
        if self.watermarks is not None:
            self.watermarks.start()
            self.resources.register("watermarks", self.watermarks.close)
            asks.append(self.watermarks.ask)
        if self.rules is not None:
            self.rules.start()
            self.resources.register("rules", self.rules.close)
            self.rules.wait(_FIRST_READ)
        loop.start(delivery.flush, delivery.advance, *asks)
        self.resources.register("consumer loop", loop.close)
        delivery.start()
        try:
            with self.replication.calls.attend():
                yield self.flow
            loop.check()
            delivery.close()
        except BaseException as error:
            log.error("the flow ended", error=type(error).__name__, reason=str(error.__cause__ or error))
            raise
        finally:
            self.resources.close()
            self._ended = True

    def stop(self) -> None:
        """Drain, then end `run`. From any thread."""
        self.replication.consumer_loop.stop()

    def live(self) -> bool:
        """True if the engine's worker has moved lately, or has ended."""
        return self._ended or time.monotonic() - self.replication.consumer_loop.moved_at < self.watchdog

    def delivering(self) -> bool:
        """True if the delivery isn't stuck in one try."""
        return self.replication.delivery.stuck_for() < self.replication.longest_try

    def committing(self) -> bool:
        """True if no failure of the delivery has lasted for longer than one try may take."""
        return self.replication.delivery.failing_for() < self.replication.longest_try

    def stable(self) -> bool:
        """True if the group has this member and no rebalance is under way."""
        return self.replication.consumer_loop.consumer.stable()

    def stable_until_end(self) -> bool:
        """True if it is stable, or has ended."""
        return self._ended or self.stable()


def search_replica(settings: Settings, in_process: InProcess, *, embedded: bool = False) -> Replica:
    """A replica of the search flow, on the `embedded` broker or on Kafka. Raises ConfigError and DeliveryError."""
    kafka, topics = settings.kafka, settings.kafka.topics
    metrics = in_process.metrics("search")
    clients = Clients.of(settings, in_process, metrics)
    with Resources() as resources:
        member = Replication(settings, kafka, topics.queries, in_process.traces, metrics, resources, embedded=embedded)
        marks, timeout = WatermarkTable(), settings.cache.watermark_timeout
        watermarks = WatermarkReader(lambda: member.client.tail(topics.watermarks), timeout, marks)
        metrics.tables["watermarks",].set_function(marks.__len__)
        rules = None
        if (name := topics.rules) is not None:
            first, ledger = TopicPartition(topics.queries, 0), member.consumer_loop.ledger
            broken = BrokenRules(member.client.plain_producer, member.way_out, lambda: first in ledger.partitions)
            table = rule_table(settings)
            rules = RuleReader(lambda: member.client.tail(name), _RULES_TIMEOUT, table, broken.add)
            metrics.tables["rules",].set_function(table.__len__)
            metrics.rules_refused[()].set_function(lambda: rules.refused)
            metrics.rules_behind[()].set_function(lambda: rules.behind)
            member.calls.keep("broken rules", broken.send, pause=1.0)
        parts = Parts(settings, clients, member, watermarks, rules)
        pings = clients.register(resources, member.calls, settings.qdrant, parts.catalogue)
        flow, watchdog = search(parts), settings.delivery.watchdog
        return Replica(member, flow, resources.pop_all(), pings, watchdog, watermarks, rules)


def indexing_replica(settings: Settings, in_process: InProcess, *, embedded: bool = False) -> Replica:
    """A replica of the indexing flow, in the group that its collections note, or else in the indexing flow's own.

    It makes the collections that do not exist. Raises ConfigError, DeliveryError and BackendError.
    """
    group = ensure_collections(settings, in_process).group or settings.kafka.indexing.group_id
    kafka, topic = settings.kafka.model_copy(update={"group_id": group}), settings.kafka.topics.documents
    metrics = in_process.metrics("indexing")
    clients = Clients.of(settings, in_process, metrics)
    with Resources() as resources:
        member = Replication(settings, kafka, topic, in_process.traces, metrics, resources, embedded=embedded)
        partitions = PARTITIONS if embedded else topics_of_broker.partitions(kafka, topic)
        parts = IndexingParts(settings, clients, member, group, partitions)
        pings = clients.register(resources, member.calls, settings.qdrant, parts.catalogue)
        return Replica(member, indexing(parts), resources.pop_all(), pings, settings.delivery.watchdog)


def feedback_replica(settings: Settings, in_process: InProcess, *, embedded: bool = False) -> Replica:
    """A replica of the feedback flow, in a group of its own. Raises ConfigError and DeliveryError."""
    topic, preferences, tokens = find_needs(settings)
    own, metrics = feedback_settings(settings), in_process.metrics("feedback")
    kafka = settings.kafka.model_copy(update={"group_id": f"{settings.kafka.group_id}-feedback"})
    if not embedded:
        topics_of_broker.require(kafka, [topic])
        topics_of_broker.require_broker_time(kafka, topic)
    with Resources() as resources:
        member = Replication(own, kafka, topic, in_process.traces, metrics, resources, embedded=embedded)
        flow = learning(FeedbackParts(settings, preferences, tokens, member))
        return Replica(member, flow, resources.pop_all(), {}, settings.delivery.watchdog)
