"""The parts of the indexing flow, made of the settings."""

import asyncio
from dataclasses import dataclass
from typing import Final

from flows.assembly import query
from flows.assembly.clients import Clients
from flows.assembly.collections import choice
from flows.assembly.delivery import Replication
from flows.assembly.suitability import try_embedder
from operators.clients.qdrant.collections.catalogue import Catalogue
from operators.delivery.schema_registry import Deserialiser
from operators.delivery.sink import Delivery
from operators.delivery.source import ConsumerLoop
from operators.delivery.way_out import WayOut
from operators.indexing.apply import DocumentEmbedder, DocumentEncoder, Writer
from operators.indexing.context import ContextWriter
from operators.indexing.decode import DocumentDecoder
from operators.indexing.expiry import Expiry
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
    way_out: WayOut
    deserialiser: Deserialiser | None
    decoder: DocumentDecoder
    embedder: DocumentEmbedder
    encoder: DocumentEncoder | None
    writer: Writer
    context: ContextWriter | None
    watermarks: str
    catalogue: Catalogue


def indexing_parts(settings: Settings, made: Clients, given: Replication, group: str) -> IndexingParts:
    """The parts of the indexing flow, a member of `group`. Raises ConfigError and BackendError."""
    index = settings.qdrant
    catalogue = Catalogue(made.qdrant, index, choice=choice(settings, group))
    for error in given.calls.run(catalogue.read(_TIMEOUT), _TIMEOUT).values():
        raise error
    asyncio.run_coroutine_threadsafe(catalogue.follow(_TIMEOUT), given.calls.loop)
    if made.embedder is not None:
        try_embedder(made.embedder, settings, given.calls)
    context = (
        ContextWriter(made.qdrant, index.vectors, index.context, catalogue, _TIMEOUT) if index.context.on else None
    )
    expiry = Expiry(made.qdrant, catalogue, tuple(index.physical), context, _TIMEOUT)
    asyncio.run_coroutine_threadsafe(expiry.follow(), given.calls.loop)
    return IndexingParts(
        consumer_loop=given.consumer_loop,
        delivery=given.delivery,
        wakeup=given.wakeup,
        calls=given.calls,
        way_out=given.way_out,
        deserialiser=Deserialiser(given.registry, ordered=True) if given.registry is not None else None,
        decoder=query.document_decoder(settings),
        embedder=DocumentEmbedder(made.embedder, _TIMEOUT, given.signals.metrics.unreadable.inc),
        encoder=DocumentEncoder(made.sparse_encoder, _TIMEOUT) if made.sparse_encoder is not None else None,
        writer=Writer(made.qdrant, index.vectors, index.context, catalogue, _TIMEOUT, context),
        context=context,
        watermarks=settings.kafka.topics.watermarks,
        catalogue=catalogue,
    )
