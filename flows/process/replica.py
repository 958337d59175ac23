"""A replica: one member of a consumer group, the flow that it feeds, and the threads between the two.

Rules
-----
- It starts only if every topic that it reads, follows or writes to exists, and dead letters may be larger than what is
  read.
- `stop`: reading ends, what is in flight is finished and committed, the member leaves its group, `run` returns.
- A failure of the worker, the intake or the delivery is raised by `run`. The partitions' next owner reads again what
  was not committed.
"""

import time
from collections.abc import Sequence
from typing import Final

from bytewax.dataflow import Dataflow
from bytewax.testing import run_main
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.trace import TracerProvider as AnyTracerProvider

from flows.assembly.clients import Clients
from flows.assembly.kafka_client import kafka_client
from operators.delivery import topics, versions
from operators.delivery.acknowledged import AcknowledgedProducer
from operators.delivery.client import Producer
from operators.delivery.fencing import FencedProducer
from operators.delivery.kafka_python import KAFKA, Dialect
from operators.delivery.ledger import Ledger
from operators.delivery.sink import Delivery
from operators.delivery.source import ConsumerLoop
from operators.delivery.watermark_reader import WatermarkReader
from operators.runtime.event_loop import EventLoopThread
from operators.runtime.wakeup import Wakeup
from operators.telemetry.metrics import meter_provider, producer_replacements
from operators.telemetry.traces import tracer_provider
from schemas.errors import BackendError
from schemas.settings import KafkaSettings, Settings

_TRANSACTION_END: Final = 5.0
"""Seconds beyond its time-out in which a transaction must have ended: the broker has aborted it by then."""

_PROBE_TIMEOUT: Final = 1.0
_METERS_TIMEOUT_MS: Final = 1000
_CLOSE_TIMEOUT: Final = 10.0


class Replica:
    """The Kafka side of one process, and the loop on which its calls run.

    Raises ConfigError and DeliveryError if it can't start.
    """

    def __init__(
        self,
        settings: Settings,
        kafka: KafkaSettings,
        topic: str,
        writes: Sequence[str],
        clients: Clients,
        dialect: Dialect,
        provider: AnyTracerProvider | None,
        follows: Sequence[str] = (),
    ) -> None:
        dead_letters = kafka.topics.dead_letters
        if dialect is KAFKA:
            topics.require(kafka, [topic, *follows, *writes, dead_letters])
            topics.require_room(kafka, topic)
        # What is compressed may fit whatever its size: a dead letter keeps its original as long as the broker takes it.
        bounded = list(writes) if kafka.compression else [*writes, dead_letters]
        defaults = dict.fromkeys(bounded, topics.DEFAULT_MAX)
        self.max_bytes = topics.max_message_bytes(kafka, bounded) if dialect is KAFKA else defaults
        self._provider = provider if provider is not None else tracer_provider()
        self.tracer = self._provider.get_tracer("rankstream")
        self._meters = meter_provider()
        self.meter = self._meters.get_meter("rankstream")
        self.wakeup = Wakeup()
        self.calls = EventLoopThread(self.wakeup)
        self._settings = settings
        self._clients = clients
        self._watermarks: WatermarkReader | None = None
        client = self._client = kafka_client(kafka, dialect)
        max_batch = min(self.max_bytes.values())
        delivery = settings.delivery
        ledger = Ledger(delivery.max_in_flight)
        if delivery.mode == "exactly_once":
            versions.warn_of_untried(kafka, client.name)
            # The producer first: it ends what a predecessor left open, which readers of committed records wait for.
            producer: Producer = FencedProducer(
                lambda: client.transactional_producer(f"{kafka.group_id}-{delivery.replica}", max_batch),
                client.name,
                producer_replacements(self.meter, client.name, topic),
            )
            consumer = client.consumer()
        else:
            consumer = client.consumer()
            producer = AcknowledgedProducer(client.plain_producer(max_batch), consumer)
        self.consumer_loop = ConsumerLoop(consumer, ledger, topic, self.wakeup, delivery.drain_timeout)
        self._longest_try = delivery.watchdog
        if delivery.mode == "exactly_once":
            self._longest_try = min(delivery.watchdog, kafka.transaction_timeout + _TRANSACTION_END)
        interval = delivery.transaction_interval or client.transaction_interval
        self.delivery = Delivery(producer, consumer, ledger, dead_letters, interval, self.consumer_loop.fail)

    def following(self, topic: str, timeout: float) -> WatermarkReader:
        """Who reads the watermarks of `topic` for as long as this runs, and keeps nobody waiting over `timeout`."""
        self._watermarks = WatermarkReader(lambda: self._client.tail(topic), timeout)
        return self._watermarks

    def run(self, flow: Dataflow) -> None:
        """Feed the flow until `stop`. Raises what ended it otherwise."""
        if self._watermarks is not None:
            self._watermarks.start()
        self.consumer_loop.start(self.delivery.flush)
        self.delivery.start()
        try:
            run_main(flow)
            self.delivery.close()
        finally:
            self.consumer_loop.close()
            if self._watermarks is not None:
                self._watermarks.close()
            self.calls.run(self._clients.aclose(), _CLOSE_TIMEOUT)
            self.calls.close()
            if isinstance(self._provider, TracerProvider):
                self._provider.force_flush()
            if isinstance(self._meters, MeterProvider):
                self._meters.shutdown(_METERS_TIMEOUT_MS)

    def stop(self) -> None:
        """Drain, then end `run`. From any thread."""
        self.consumer_loop.stop()

    def live(self) -> bool:
        """Whether the engine's worker has moved lately."""
        return time.monotonic() - self.consumer_loop.moved_at < self._settings.delivery.watchdog

    def delivering(self) -> bool:
        """Whether the delivery isn't stuck in one try."""
        return self.delivery.stuck_for() < self._longest_try

    def stable(self) -> bool:
        """Whether the group has this member and no rebalance is under way."""
        return self.consumer_loop.stable()

    def reachable(self) -> bool:
        """Whether Qdrant answers."""
        probe = self._clients.qdrant.endpoint.fetch("GET", "/readyz", timeout=_PROBE_TIMEOUT)
        try:
            self.calls.run(probe, 2 * _PROBE_TIMEOUT)
        except (BackendError, TimeoutError):
            return False
        return True
