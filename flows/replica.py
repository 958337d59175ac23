"""A replica: one member of a consumer group, the flow that it feeds, and the threads between the two.

Rules
-----
- It starts only if every topic that it writes to exists, and dead letters may be larger than what is read.
- `stop`: reading ends, what is in flight is finished and committed, the member leaves its group, `run` returns.
- A failure of the worker, the intake or the delivery is raised by `run`. The partitions' next owner reads again what
  was not committed.
"""

import time
from collections.abc import Callable
from typing import Final

from bytewax.dataflow import Dataflow
from bytewax.testing import run_main
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.trace import TracerProvider as AnyTracerProvider

from flows.backends import Clients
from operators.delivery import topics
from operators.delivery.client import Consumer, Producer
from operators.delivery.kafka_python import (
    KAFKA,
    AcknowledgedProducer,
    Dialect,
    KafkaPythonConsumer,
    TransactionalProducer,
)
from operators.delivery.ledger import Ledger
from operators.delivery.sink import Delivery
from operators.delivery.source import Intake
from operators.event_loop import EventLoopThread
from operators.telemetry import tracer_provider
from operators.wakeup import Wakeup
from schemas.errors import BackendError
from schemas.settings import KafkaSettings, Settings

_PROBE_TIMEOUT: Final = 1.0
_CLOSE_TIMEOUT: Final = 10.0


class Replica:
    """The Kafka side of one process, and the loop on which its calls run.

    Raises FatalDelivery if it can't start.
    """

    def __init__(
        self,
        settings: Settings,
        kafka: KafkaSettings,
        topic: str,
        writes: str,
        clients: Clients,
        dialect: Dialect,
        provider: AnyTracerProvider | None,
    ) -> None:
        dead_letters = kafka.topics.dead_letters
        if dialect is KAFKA:
            topics.require(kafka, [topic, writes, dead_letters])
            topics.require_room(kafka, topic)
        self.max_record = topics.max_message_bytes(kafka, writes) if dialect is KAFKA else topics.DEFAULT_MAX
        self._provider = provider if provider is not None else tracer_provider()
        self.tracer = self._provider.get_tracer("rankstream")
        self.wakeup = Wakeup()
        self.calls = EventLoopThread(self.wakeup)
        self._settings = settings
        self._clients = clients
        ledger = Ledger(settings.delivery.max_in_flight)
        producer, consumer = _kafka_clients(settings, kafka, dialect)
        drain = settings.delivery.drain_timeout
        self.intake = Intake(consumer, ledger, topic, self.wakeup, drain)
        interval = settings.delivery.transaction_interval
        self.delivery = Delivery(producer, consumer, ledger, dead_letters, interval, self.intake.fail)

    def run(self, flow: Dataflow) -> None:
        """Feed the flow until `stop`. Raises what ended it otherwise."""
        self.intake.start()
        self.delivery.start()
        try:
            _run(flow)
            self.delivery.close()
        finally:
            self.intake.close()
            self.calls.run(self._clients.aclose(), _CLOSE_TIMEOUT)
            self.calls.close()
            if isinstance(self._provider, TracerProvider):
                self._provider.force_flush()

    def stop(self) -> None:
        """Drain, then end `run`. From any thread."""
        self.intake.stop()

    def live(self) -> bool:
        """Whether the engine's worker has moved lately."""
        return time.monotonic() - self.intake.moved_at < self._settings.delivery.watchdog

    def delivering(self) -> bool:
        """Whether the delivery isn't stuck in one try."""
        return self.delivery.stuck_for() < self._settings.delivery.watchdog

    def stable(self) -> bool:
        """Whether the group has this member and no rebalance is under way."""
        return self.intake.stable()

    def reachable(self) -> bool:
        """Whether Qdrant answers."""
        probe = self._clients.qdrant.endpoint.fetch("GET", "/readyz", timeout=_PROBE_TIMEOUT)
        try:
            self.calls.run(probe, 2 * _PROBE_TIMEOUT)
        except (BackendError, TimeoutError):
            return False
        return True


_run: Callable[[Dataflow], None] = run_main


def _kafka_clients(settings: Settings, kafka: KafkaSettings, dialect: Dialect) -> tuple[Producer, Consumer]:
    # The producer first: it ends what a predecessor left open, which readers of committed records wait for.
    if settings.delivery.mode == "exactly_once":
        producer = TransactionalProducer(kafka, f"{kafka.group_id}-{settings.delivery.replica}", dialect)
        return producer, KafkaPythonConsumer(kafka, dialect)
    consumer = KafkaPythonConsumer(kafka, dialect)
    return AcknowledgedProducer(kafka, consumer, dialect), consumer
