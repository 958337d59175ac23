"""What the indexing flow is built from, made of the settings."""

import asyncio
from dataclasses import dataclass
from typing import Final

from opentelemetry.trace import Tracer

from flows.assembly import query
from flows.assembly.clients import Clients
from flows.assembly.delivery import Replication
from operators.clients.qdrant.catalogue import Catalogue
from operators.delivery.consumer_loop import ConsumerLoop
from operators.delivery.sink import Delivery
from operators.indexing.apply import DocumentEmbedder, Writer
from operators.indexing.decode import DocumentDecoder
from operators.runtime.event_loop import EventLoopThread
from operators.runtime.wakeup import Wakeup
from schemas.settings import Settings

_TIMEOUT: Final = 60.0


@dataclass(frozen=True)
class IndexingParts:
    """The indexing flow's parts."""

    consumer_loop: ConsumerLoop
    delivery: Delivery
    wakeup: Wakeup
    calls: EventLoopThread
    tracer: Tracer
    decoder: DocumentDecoder
    embedder: DocumentEmbedder
    writer: Writer
    watermarks: str
    dead_letters: str


def parts(settings: Settings, made: Clients, given: Replication) -> IndexingParts:
    """The parts of the indexing flow. Raises ConfigError and BackendError."""
    catalogue = Catalogue(made.qdrant, settings.qdrant)
    for error in given.calls.run(catalogue.read(_TIMEOUT), _TIMEOUT).values():
        raise error
    asyncio.run_coroutine_threadsafe(catalogue.follow(_TIMEOUT), given.calls.loop)
    return IndexingParts(
        consumer_loop=given.consumer_loop,
        delivery=given.delivery,
        wakeup=given.wakeup,
        calls=given.calls,
        tracer=given.tracer,
        decoder=query.document_decoder(settings),
        embedder=DocumentEmbedder(made.embedder, _TIMEOUT),
        writer=Writer(made.qdrant, settings.qdrant.vectors, catalogue, _TIMEOUT),
        watermarks=settings.kafka.topics.watermarks,
        dead_letters=settings.kafka.topics.dead_letters,
    )
