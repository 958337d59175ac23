"""The search process: settings become clients, the clients a flow, and the flow runs until it is told to stop.

Rules
-----
- It starts only if every topic that it writes to exists.
- SIGTERM or SIGINT: reading stops, what is in flight is finished and committed, the member leaves its group, exit 0.
- The worker, the intake or the delivery failed, or stood still for too long: exit 1. The partitions' next owner reads
  again what was not committed.
"""

import logging
import os
import threading
import time
from collections.abc import Callable

import structlog
from bytewax.testing import run_main
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.trace import TracerProvider as AnyTracerProvider

from flows import backends
from flows.backends import Clients, Resources
from flows.health import Health
from flows.parts import Parts, StageBounds, depth
from flows.search import search
from flows.signals import StopSignals
from operators.async_io import EventLoopThread
from operators.decode import Decoder
from operators.delivery import topics
from operators.delivery.client import Producer
from operators.delivery.kafka_python import (
    AcknowledgedProducer,
    KafkaPythonConsumer,
    Options,
    TransactionalProducer,
)
from operators.delivery.ledger import Ledger
from operators.delivery.sink import Delivery
from operators.delivery.source import Intake
from operators.publish import Publisher
from operators.retrieve import Searches
from operators.telemetry import tracer_provider
from operators.wakeup import Wakeup
from schemas.errors import BackendError, FatalDelivery
from schemas.settings import Settings

log = structlog.stdlib.get_logger(__name__)

_PROBE_TIMEOUT = 1.0
_CLOSE_TIMEOUT = 10.0
_WATCH_INTERVAL = 0.5


class SearchProcess:
    """One replica. Raises ConfigError and FatalDelivery when it can't start."""

    def __init__(
        self,
        settings: Settings,
        resources: Resources,
        *,
        broker: Options | None = None,
        provider: AnyTracerProvider | None = None,
    ) -> None:
        """`broker` holds client options for a broker that isn't Kafka: it has the topics as soon as they are named."""
        self._settings = settings
        self._clients = clients = Clients.of(settings, resources)
        self._provider = provider if provider is not None else tracer_provider()
        kafka = settings.kafka
        if broker is None:
            topics.require(kafka, [kafka.topics.queries, kafka.topics.results, kafka.topics.dead_letters])
        max_result = topics.max_message_bytes(kafka, kafka.topics.results) if broker is None else topics.DEFAULT_MAX
        tracer = self._provider.get_tracer("rankstream")
        self._wakeup = Wakeup()
        self._calls = EventLoopThread(self._wakeup)
        ledger = Ledger(settings.delivery.max_in_flight)
        producer, consumer = _kafka_clients(settings, broker or {})
        self.intake = Intake(consumer, ledger, kafka.topics.queries, self._wakeup, settings.delivery.drain_timeout)
        self._delivery = Delivery(
            producer,
            consumer,
            ledger,
            kafka.topics.dead_letters,
            settings.delivery.transaction_interval,
            self.intake.fail,
        )
        self._flow = search(
            Parts(
                intake=self.intake,
                delivery=self._delivery,
                wakeup=self._wakeup,
                calls=self._calls,
                bounds=StageBounds.of(settings),
                tracer=tracer,
                decoder=Decoder.of(settings, tracer),
                bm25=backends.bm25(settings.qdrant),
                embedder=clients.embedder,
                dimension=settings.qdrant.dimension,
                qdrant=clients.qdrant,
                searches=Searches.of(settings.qdrant, settings.defaults.over_sample),
                depth=depth(settings),
                reranker=clients.reranker,
                top=settings.rerank.top,
                weight=settings.rerank.weight,
                publisher=Publisher(
                    kafka.topics.results,
                    kafka.topics.dead_letters,
                    max_result - topics.RECORD_OVERHEAD,
                    settings.config_hash(),
                    clients.embedder.model if clients.embedder is not None else None,
                    clients.reranker.model if clients.reranker is not None else None,
                ),
            )
        )

    def run(self) -> None:
        """Answer queries until `stop`. Raises what ended the flow otherwise."""
        self.intake.start()
        self._delivery.start()
        try:
            run_main(self._flow)
            self._delivery.close()
        finally:
            self.intake.close()
            self._calls.run(self._clients.aclose(), _CLOSE_TIMEOUT)
            self._calls.close()
            if isinstance(self._provider, TracerProvider):
                self._provider.force_flush()

    def stop(self) -> None:
        """Drain, then end `run`. From any thread."""
        self.intake.stop()

    def live(self) -> bool:
        """Whether the engine's worker has moved lately."""
        return time.monotonic() - self.intake.moved_at < self._settings.delivery.watchdog

    def reachable(self) -> bool:
        """Whether Qdrant answers."""
        try:
            probe = self._clients.qdrant.endpoint.fetch("GET", "/readyz", timeout=_PROBE_TIMEOUT)
            self._calls.run(probe, 2 * _PROBE_TIMEOUT)
        except (BackendError, TimeoutError):
            return False
        return True


def _kafka_clients(settings: Settings, broker: Options) -> tuple[Producer, KafkaPythonConsumer]:
    # The producer first: it ends what a predecessor left open, which readers of committed records wait for.
    if settings.delivery.mode == "exactly_once":
        replica = f"{settings.kafka.group_id}-{settings.delivery.replica}"
        producer: Producer = TransactionalProducer(settings.kafka, replica, broker)
        return producer, KafkaPythonConsumer(settings.kafka, broker)
    consumer = KafkaPythonConsumer(settings.kafka, broker)
    return AcknowledgedProducer(settings.kafka, consumer, broker), consumer


def serve(settings: Settings) -> int:
    """Run one replica under signals, watchdog and health port; the exit code."""
    resources = Resources(settings)
    try:
        process = SearchProcess(settings, resources)
    except FatalDelivery as error:
        log.error("cannot start", reason=str(error))
        return 1
    code = supervise(settings, process.run, process.stop, process.live, process.intake.stable, process.reachable)
    resources.close()
    return code


def supervise(
    settings: Settings,
    run: Callable[[], None],
    stop: Callable[[], None],
    live: Callable[[], bool],
    stable: Callable[[], bool],
    reachable: Callable[[], bool],
) -> int:
    """Run until a signal, a failure or a stand-still; the exit code."""
    StopSignals(stop)
    telemetry = settings.telemetry
    health = None
    if telemetry.port is not None:
        ready = {"group": stable, "qdrant": reachable}
        health = Health(telemetry.host, telemetry.port, {"worker": live}, ready)
        log.info("health port open", port=health.port)
    watch = {"worker": live, "group": _patient(stable, settings.kafka.max_poll_interval)}
    threading.Thread(target=_watchdog, args=(watch,), name="watchdog", daemon=True).start()
    try:
        run()
    except Exception as error:  # noqa: BLE001  whatever ended the flow ends the process
        log.error("the flow ended", error=type(error).__name__, reason=str(error.__cause__ or error))
        logging.shutdown()
        # Threads of a failed flow may hang in a client: nothing is worth waiting for them.
        os._exit(1)
    if health is not None:
        health.close()
    log.info("drained")
    return 0


def _patient(check: Callable[[], bool], patience: float) -> Callable[[], bool]:
    held = time.monotonic()

    def holds() -> bool:
        nonlocal held
        now = time.monotonic()
        if check():
            held = now
        return now - held < patience

    return holds


def _watchdog(checks: dict[str, Callable[[], bool]]) -> None:
    while True:
        time.sleep(_WATCH_INTERVAL)
        for name, holds in checks.items():
            if not holds():
                log.error("watchdog: stood still for too long", part=name)
                logging.shutdown()
                os._exit(1)
