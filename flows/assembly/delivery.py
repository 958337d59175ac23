"""The Kafka side of a flow, made of the settings: the client, the consumer loop, the delivery and their resources."""

import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final
from urllib.parse import quote

from opentelemetry.trace import Tracer, TracerProvider

from flows.assembly.query import replies
from flows.assembly.resources import Resources
from operators.delivery import topics
from operators.delivery.broker import reach, require_features
from operators.delivery.client import ANY_BATCH, KafkaClient, Producer
from operators.delivery.embedded_broker import PARTITIONS
from operators.delivery.kafka_python import KafkaPython
from operators.delivery.ledger import Ledger
from operators.delivery.librdkafka import Librdkafka
from operators.delivery.producers import AcknowledgedProducer, FencedProducer
from operators.delivery.reply_topics import ReplyTopics
from operators.delivery.schema_registry import SchemaRegistry
from operators.delivery.sink import Delivery
from operators.delivery.source import ConsumerLoop
from operators.delivery.way_out import WayOut
from operators.runtime.event_loop import EventLoopThread, Wakeup
from operators.telemetry.export import PATIENCE, close_traces, tracer_provider
from operators.telemetry.metrics import FlowMetrics
from operators.telemetry.traces import Signals
from schemas.settings import KafkaSettings, Settings
from schemas.settings.section import is_pattern


def kafka_client(settings: KafkaSettings) -> KafkaClient:
    """The client of the settings' broker, by the library that they name. Raises ConfigError."""
    return KafkaPython(settings) if settings.client == "kafka-python" else Librdkafka(settings)


def connect(settings: KafkaSettings) -> KafkaClient:
    """The client for a command, which can't wait until there is a broker. Raises FatalDelivery if none answers."""
    reach(settings.bootstrap_servers)
    return kafka_client(settings)


_TRANSACTION_END: Final = 5.0
"""Seconds beyond its time-out in which a transaction must have ended: the broker has aborted it by then."""


_CLOSE_TIMEOUT: Final = 10.0


@dataclass(frozen=True)
class Replication:
    """One member of a consumer group, and what its flow runs on.

    `longest_try` is how many seconds one try to deliver may take. `registry` has the schemas of events, if any has.
    """

    client: KafkaClient
    consumer_loop: ConsumerLoop
    delivery: Delivery
    longest_try: float
    way_out: WayOut
    wakeup: Wakeup
    calls: EventLoopThread
    signals: Signals
    registry: SchemaRegistry | None


def replication(
    settings: Settings,
    kafka: KafkaSettings,
    topic: str,
    writes: Sequence[str],
    follows: Sequence[str],
    provider: TracerProvider | None,
    metrics: FlowMetrics,
    resources: Resources,
    *,
    tells: bool,
    embedded: bool,
) -> Replication:
    """The member of the group that reads `topic`; it starts only if every topic that it needs exists.

    `tells`: who sent a refused message is told by a result. `embedded`: the broker is the embedded one, which has every
    topic as soon as it is named, and tells nothing about itself.
    Raises ConfigError and DeliveryError.
    """
    dead_letters, results = kafka.topics.dead_letters, kafka.topics.results
    present = [topic, *follows, *writes, dead_letters]
    if not embedded:
        require_features(kafka, kafka.client, settings.delivery.mode)
        topics.require(kafka, present)
        topics.warn_of_room(kafka, topic)
    # What is compressed may fit whatever its size: a dead letter keeps its original as long as the broker takes it.
    bounded = list(writes) if kafka.compression else [*writes, dead_letters]
    defaults = dict.fromkeys(bounded, topics.DEFAULT_MAX)
    max_bytes = defaults if embedded else topics.max_message_bytes(kafka, bounded)
    signals = Signals(_tracer(provider, resources), metrics, kafka.group_id)
    wakeup = Wakeup()
    calls = EventLoopThread(wakeup)
    resources.register("calls", calls.close)
    registry = SchemaRegistry(kafka.schema_registry) if kafka.schema_registry.url is not None else None
    if registry is not None:
        resources.register("schema registry", partial(_close, registry, calls))
    delivery, client, max_batch = settings.delivery, kafka_client(kafka), min(max_bytes.values())
    if any(map(is_pattern, kafka.topics.reply_to)):
        max_batch = min(max_batch, ANY_BATCH)
    ledger = Ledger(delivery.max_in_flight, kafka.offset_metadata)
    longest_try = delivery.watchdog
    headers_decide = topic == kafka.topics.queries and settings.policies.identity.by == "header"
    if delivery.mode == "exactly_once":
        longest_try = min(longest_try, kafka.transaction_timeout + _TRANSACTION_END)
        # The producer first: it ends what a predecessor left open, which readers of committed records wait for.
        producer: Producer = FencedProducer(
            lambda: client.transactional_producer(f"{kafka.group_id}-{delivery.replica}", max_batch),
            client.name,
            metrics.replacements.inc,
        )
        consumer = client.consumer(headers_decide=headers_decide)
    else:
        consumer = client.consumer(headers_decide=headers_decide)
        producer = AcknowledgedProducer(client.plain_producer(max_batch), consumer)
    loop = ConsumerLoop(consumer, ledger, topic, wakeup, delivery.drain_timeout, metrics)
    interval = delivery.transaction_interval or client.transaction_interval
    reply_topics = ReplyTopics(present, max_bytes, lambda names: _look(kafka, names, embedded=embedded))
    way_out = WayOut(
        results,
        dead_letters,
        replies(settings),
        reply_topics.limits,
        f"/rankstream/{quote(settings.kafka.group_id, safe='')}",
        settings.config_hash(),
        tells,
        signals,
    )
    sink = Delivery(producer, consumer, ledger, way_out, interval, loop.fail, metrics, reply_topics)
    metrics.watch(
        lambda: ledger.in_flight, lambda: ledger.credit, lambda: time.monotonic() - loop.moved_at, delivery.watchdog
    )
    return Replication(client, loop, sink, longest_try, way_out, wakeup, calls, signals, registry)


def _close(registry: SchemaRegistry, calls: EventLoopThread) -> None:
    calls.run(registry.aclose(), _CLOSE_TIMEOUT)


def _look(kafka: KafkaSettings, names: Sequence[str], *, embedded: bool) -> dict[str, topics.TopicState | None]:
    if embedded:
        return dict.fromkeys(names, topics.TopicState(PARTITIONS, topics.DEFAULT_MAX))
    return topics.find_states(kafka, names)


def _tracer(provider: TracerProvider | None, resources: Resources) -> Tracer:
    if provider is None:
        provider = tracer_provider(PATIENCE)
        resources.register("traces", partial(close_traces, provider))
    return provider.get_tracer("rankstream")
