"""Processes: settings become a replica and its flow, under signals, a watchdog and a health port.

Exit codes: 0 after SIGTERM or SIGINT and a drain, 1 after a failure or a stand-still, 130 at a second signal.
"""

import asyncio
import gc
import logging
import os
import threading
import time
from collections.abc import Callable, Mapping
from typing import Final
from urllib.parse import quote

import structlog
from bytewax.dataflow import Dataflow
from opentelemetry.trace import TracerProvider

from flows.assembly import clients as backends
from flows.assembly import rerankers
from flows.assembly.clients import Clients, Resources
from flows.assembly.kafka_client import of_indexing
from flows.assembly.search import Parts, StageBounds, answers, depth, embeddings
from flows.indexing import IndexingParts, indexing
from flows.process.health import Check, Health
from flows.process.replica import Replica
from flows.process.signals import StopSignals
from flows.search import search
from operators.clients.chat.temporal_expressions import ChatTemporalExtractor
from operators.clients.qdrant.analysers import Analysers
from operators.delivery.kafka_python import KAFKA, Dialect
from operators.indexing.apply import DocumentEmbedder, Writer, until_answered
from operators.indexing.decode import DocumentDecoder
from operators.query.search_bodies import Searches
from operators.runtime.event_loop import EventLoopThread
from operators.runtime.wakeup import Wakeup
from operators.stages.admit import Admission
from operators.stages.decode import Decoder
from operators.stages.publish import Finaliser, Publisher
from schemas.errors import BackendError, DeliveryError
from schemas.settings import Settings

log = structlog.stdlib.get_logger(__name__)

_WATCH_INTERVAL: Final = 0.5
_INDEXING_TIMEOUT: Final = 60.0

_GC_THRESHOLDS: Final = (50_000, 20, 100)

Built = tuple[Replica, Dataflow]
Build = Callable[[Settings, Resources], Built]


def search_replica(
    settings: Settings, resources: Resources, dialect: Dialect = KAFKA, provider: TracerProvider | None = None
) -> Built:
    """A replica of the search flow. Raises ConfigError and DeliveryError."""
    kafka = settings.kafka
    clients = Clients.of(settings, resources)
    writes = [kafka.topics.results, *kafka.topics.reply_to]
    replica = Replica(
        settings, kafka, kafka.topics.queries, writes, clients, dialect, provider, [kafka.topics.watermarks]
    )
    analysers = Analysers(clients.qdrant, settings.qdrant)
    _read(analysers, replica.calls, settings.qdrant.timeout)
    decoder = Decoder.of(settings, replica.tracer)
    _warn(settings)
    publisher = Publisher(
        kafka.topics.results,
        kafka.topics.dead_letters,
        replica.max_bytes,
        f"/rankstream/{quote(kafka.group_id, safe='')}",
        decoder.normalise.config_hash,
        clients.embedder.model if clients.embedder is not None else None,
        decoder.normalise.cursors,
    )
    cached = answers(settings.cache)
    reranking = rerankers.reranking(settings, clients.reranker, replica.meter)
    picking = rerankers.picking(settings, clients.chat, replica.meter)
    parts = Parts(
        consumer_loop=replica.consumer_loop,
        delivery=replica.delivery,
        wakeup=replica.wakeup,
        calls=replica.calls,
        bounds=StageBounds.of(settings),
        tracer=replica.tracer,
        decoder=decoder,
        admission=Admission.of(settings, analysers),
        answers=cached,
        watermarks=replica.following(kafka.topics.watermarks, settings.cache.watermark_timeout),
        timeout=settings.cache.watermark_timeout,
        embeddings=embeddings(settings, clients.embedder, tokens=reranking.reads_tokens),
        extractor=ChatTemporalExtractor(clients.chat) if clients.chat is not None else None,
        qdrant=clients.qdrant,
        searches=Searches.of(settings.qdrant),
        depth=depth(reranking, picking),
        reranking=reranking,
        picking=picking,
        finaliser=Finaliser(publisher, cached, replica.tracer),
    )
    return replica, search(parts)


def indexing_replica(
    settings: Settings, resources: Resources, dialect: Dialect = KAFKA, provider: TracerProvider | None = None
) -> Built:
    """A replica of the indexing flow, in a group of its own; makes the collections that don't exist.

    Raises ConfigError, DeliveryError and BackendError.
    """
    ensure_collections(settings, resources)
    kafka = of_indexing(settings.kafka)
    clients = Clients.of(settings, resources)
    replica = Replica(settings, kafka, kafka.topics.documents, [kafka.topics.watermarks], clients, dialect, provider)
    analysers = Analysers(clients.qdrant, settings.qdrant)
    replica.calls.run(analysers.read(_INDEXING_TIMEOUT), _INDEXING_TIMEOUT)
    parts = IndexingParts(
        consumer_loop=replica.consumer_loop,
        delivery=replica.delivery,
        wakeup=replica.wakeup,
        calls=replica.calls,
        tracer=replica.tracer,
        decoder=DocumentDecoder.of(settings),
        embedder=DocumentEmbedder(clients.embedder, _INDEXING_TIMEOUT),
        writer=Writer(clients.qdrant, settings.qdrant.vectors, analysers, _INDEXING_TIMEOUT),
        watermarks=kafka.topics.watermarks,
        dead_letters=kafka.topics.dead_letters,
    )
    return replica, indexing(parts)


def _warn(settings: Settings) -> None:
    """Say what protects less than it may seem to."""
    if settings.cursor.signing_secret is None and settings.cursor.signing_secret_file is None:
        log.warning("cursor.signing_secret isn't set: cursors are checksummed, and not signed")
    hiding = [path for path, policy in settings.policies.by_path.items() if policy.hides]
    if hiding and not settings.firewall.enabled:
        log.warning("firewall.enabled isn't set: clearances and labels hide nothing", policies=hiding)


def _read(analysers: Analysers, calls: EventLoopThread, timeout: float) -> None:
    """Read how the collections' terms are made; who can't be reached now is asked again behind the queries."""
    reading = asyncio.run_coroutine_threadsafe(until_answered(lambda: analysers.read(timeout)), calls.loop)
    try:
        reading.result(timeout)
    except TimeoutError:
        log.warning("Qdrant didn't say in time how terms are made: as configured, until it does")
    except BackendError as error:
        log.warning("Qdrant doesn't say how terms are made: as configured", reason=str(error))


def ensure_collections(settings: Settings, resources: Resources) -> list[str]:
    """Create the collections that don't exist, with their indexes; the names of those. Raises BackendError."""
    # Qdrant's models take a second to import: only who makes collections waits for them.
    from operators.indexing import collection

    calls = EventLoopThread(Wakeup())
    client = backends.qdrant(settings.qdrant, lambda: resources.engine)
    try:
        return calls.run(collection.ensure(client, settings.qdrant, _INDEXING_TIMEOUT), _INDEXING_TIMEOUT)
    finally:
        calls.run(client.endpoint.aclose(), _INDEXING_TIMEOUT)
        calls.close()


def serve(settings: Settings, build: Build) -> int:
    """Run one replica until a signal, a failure or a stand-still; the exit code. Raises ConfigError."""
    resources = Resources(settings)
    try:
        replica, flow = build(settings, resources)
    except (DeliveryError, BackendError) as error:
        log.error("cannot start", reason=str(error))
        return 1
    # What there is now stays: the collector needn't look at it again. What a query makes is freed without it.
    gc.freeze()
    gc.set_threshold(*_GC_THRESHOLDS)
    StopSignals(replica.stop)
    telemetry = settings.telemetry
    health = None
    if telemetry.port is not None:
        ready = {"group": replica.stable, "qdrant": replica.reachable}
        health = Health(telemetry.host, telemetry.port, {"worker": replica.live, "delivery": replica.delivering}, ready)
        log.info("health port open", port=health.port)
    group = _patient(replica.stable, settings.kafka.max_poll_interval)
    watched = {"worker": replica.live, "delivery": replica.delivering, "group": group}
    threading.Thread(target=_watchdog, args=(watched,), name="watchdog", daemon=True).start()
    try:
        replica.run(flow)
    except Exception as error:  # noqa: BLE001  whatever ended the flow ends the process
        log.error("the flow ended", error=type(error).__name__, reason=str(error.__cause__ or error))
        _exit()
    if health is not None:
        health.close()
    resources.close()
    log.info("drained")
    return 0


def _patient(check: Check, timeout: float) -> Check:
    held = time.monotonic()

    def holds() -> bool:
        nonlocal held
        now = time.monotonic()
        if check():
            held = now
        return now - held < timeout

    return holds


def _watchdog(checks: Mapping[str, Check]) -> None:
    while True:
        time.sleep(_WATCH_INTERVAL)
        for name, holds in checks.items():
            if not holds():
                log.error("watchdog: stood still for too long", part=name)
                _exit()


def _exit() -> None:
    logging.shutdown()
    # Threads of a failed flow may hang in a client: nothing is worth waiting for them.
    os._exit(1)
