"""The Kafka side of a flow, made of the settings: the client, the consumer loop, the delivery and their resources."""

import time
from collections.abc import Sequence
from typing import Final
from urllib.parse import quote

from opentelemetry.trace import TracerProvider

from flows.assembly import Resources
from flows.assembly.query import replies
from operators.delivery import topics
from operators.delivery.broker import reach, require_features
from operators.delivery.client import ANY_BATCH, KafkaClient, Producer
from operators.delivery.embedded_broker import PARTITIONS
from operators.delivery.kafka_python import KafkaPython
from operators.delivery.ledger import Ledger
from operators.delivery.librdkafka import Librdkafka
from operators.delivery.producers import AcknowledgedProducer, FencedProducer
from operators.delivery.schema_registry import Deserialiser, SchemaRegistry
from operators.delivery.sink import Delivery
from operators.delivery.source import ConsumerLoop
from operators.delivery.way_out import WayOut
from operators.runtime.event_loop import EventLoopThread, Wakeup
from operators.telemetry.metrics import FlowMetrics
from operators.telemetry.traces import Signals
from schemas.settings import KafkaSettings, Settings
from schemas.settings.section import is_pattern


def kafka_client(settings: KafkaSettings) -> KafkaClient:
    """The client of the settings' broker, by the library that they name. Raises ConfigError."""
    return KafkaPython(settings) if settings.client == "kafka-python" else Librdkafka(settings)


def connect(settings: KafkaSettings) -> KafkaClient:
    """The client for a command, which can't wait until there is a broker. Raises FatalDelivery if none answers."""
    reach(settings)
    return kafka_client(settings)


ENDS_TIMEOUT: Final = 10.0
"""Seconds for the broker to name the ends of a topic, and for each next record up to them."""

_TRANSACTION_END: Final = 5.0
"""Seconds beyond its time-out in which a transaction must have ended: the broker has aborted it by then."""


_CLOSE_TIMEOUT: Final = 10.0


class Replication:
    """One member of a consumer group, and what its flow runs on; it starts only if every topic that it needs exists.

    `longest_try` is how many seconds one try to deliver may take.
    """

    def __init__(
        self,
        settings: Settings,
        kafka: KafkaSettings,
        topic: str,
        traces: TracerProvider,
        metrics: FlowMetrics,
        resources: Resources,
        *,
        embedded: bool,
    ) -> None:
        """Join the group of `kafka`, to read `topic`. `embedded`: the broker is the embedded one, which has every topic
        as soon as it is named, and tells nothing about itself.

        Raises ConfigError and DeliveryError.
        """
        names, delivery = kafka.topics, settings.delivery
        answering = topic == names.queries
        found = [names.experiments] if answering and names.experiments is not None else []
        written = names.preferences if topic == names.feedback else names.watermarks
        writes = [*names.listed_replies, *found] if answering or written is None else [written]
        tables = [*filter(None, (names.watermarks, names.rules))] if answering else []
        present = [*dict.fromkeys((topic, *tables, *writes, names.dead_letters))]
        if not embedded:
            require_features(kafka, kafka.client, delivery.mode)
            topics.require(kafka, present)
            topics.warn_of_room(kafka, topic)
        # What is compressed may fit whatever its size: a dead letter keeps its original if the broker takes it.
        bounded = writes if kafka.compression else [*writes, names.dead_letters]
        max_bytes = dict.fromkeys(bounded, topics.DEFAULT_MAX) if embedded else topics.max_message_bytes(kafka, bounded)
        max_batch = min(max_bytes.values())
        if any(map(is_pattern, names.reply_to)):
            max_batch = min(max_batch, ANY_BATCH)

        self.signals = Signals(traces.get_tracer("rankstream"), metrics, kafka.group_id)
        self.wakeup = Wakeup()
        self.calls = calls = EventLoopThread(self.wakeup)
        resources.register("calls", calls.close)
        self._registry = registry = SchemaRegistry(kafka.schema_registry) if kafka.schema_registry.url else None
        if registry is not None:
            resources.register("schema registry", lambda: calls.run(registry.aclose(), _CLOSE_TIMEOUT))
        self.client = client = kafka_client(kafka)
        self.longest_try = delivery.watchdog
        headers_decide = answering and settings.policies.identity.by == "header"
        if delivery.mode == "exactly_once":
            self.longest_try = min(delivery.watchdog, kafka.transaction_timeout + _TRANSACTION_END)
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
        ledger = Ledger(delivery.max_in_flight, kafka.offset_metadata)
        self.consumer_loop = loop = ConsumerLoop(consumer, ledger, topic, self.wakeup, delivery.drain_timeout, metrics)
        reply_topics = topics.ReplyTopics(present, max_bytes, lambda names: _look(kafka, names, embedded=embedded))
        self.way_out = WayOut(
            names.results,
            names.dead_letters,
            replies(settings),
            reply_topics.limits,
            f"/rankstream/{quote(settings.kafka.group_id, safe='')}",
            settings.config_hash(),
            answering and delivery.refusals == "result_and_dead_letter",
            self.signals,
        )
        interval = delivery.transaction_interval or client.transaction_interval
        self.delivery = Delivery(producer, consumer, ledger, self.way_out, interval, loop.fail, metrics, reply_topics)
        metrics.in_flight[()].set_function(lambda: ledger.in_flight)
        metrics.credit[()].set_function(lambda: ledger.credit)
        metrics.idle[()].set_function(lambda: time.monotonic() - loop.moved_at)
        metrics.idle_limit[()].set(delivery.watchdog)

    def deserialiser(self, max_bytes: int, *, ordered: bool) -> Deserialiser | None:
        """The stage that reads events by their schemas, if there is a registry of them."""
        return Deserialiser(self._registry, max_bytes, ordered=ordered) if self._registry is not None else None


def _look(kafka: KafkaSettings, names: Sequence[str], *, embedded: bool) -> dict[str, topics.TopicState | None]:
    if embedded:
        return dict.fromkeys(names, topics.TopicState(PARTITIONS, topics.DEFAULT_MAX))
    return topics.find_states(kafka, names)
