"""The parts of the indexing flow, made of the settings."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, Final

from flows.assembly import query
from flows.assembly.clients import Clients, InProcess, try_embedder
from flows.assembly.collections import CollectionLog, choice
from flows.assembly.delivery import Replication
from operators.collections.catalogue import Catalogue
from operators.delivery.schema_registry import Deserialiser
from operators.delivery.sink import Delivery
from operators.delivery.source import ConsumerLoop
from operators.delivery.way_out import WayOut
from operators.indexing.apply import DocumentEmbedder, DocumentEncoder, DocumentStage, Writer
from operators.indexing.context import ContextWriter
from operators.indexing.copying import Copier
from operators.indexing.decode import DocumentDecoder
from operators.indexing.expiry import EVERY, Expiry
from operators.runtime.event_loop import EventLoopThread, Wakeup
from schemas.settings import DocumentSettings, Settings

_TIMEOUT: Final = 60.0
_COPYING: Final = 3600.0
"""Seconds for a page of a copy: the new collection and the models are waited for."""

CopyPage = Callable[[str, str, str | None], tuple[int, str | None]]
"""Copies a page from one collection to another, from an offset on: its documents, and where the next one begins."""


@dataclass(frozen=True)
class DocumentStages:
    """The stages behind `decode`, each None where the settings have no use for it."""

    embedder: DocumentEmbedder
    encoder: DocumentEncoder | None
    writer: Writer
    context: ContextWriter | None

    @classmethod
    def of(
        cls, settings: Settings, made: Clients, catalogue: Catalogue, count: Callable[[], None] = lambda: None
    ) -> "DocumentStages":
        """The stages; `count` is called for each document that the embedder can't read."""
        index = settings.qdrant
        context = (
            ContextWriter(made.qdrant, index.vectors, index.context, catalogue, _TIMEOUT) if index.context.on else None
        )
        return cls(
            DocumentEmbedder(made.embedder, _TIMEOUT, count),
            DocumentEncoder(made.sparse_encoder, _TIMEOUT) if made.sparse_encoder is not None else None,
            Writer(made.qdrant, index.vectors, index.context, catalogue, _TIMEOUT, context),
            context,
        )


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
    stages: DocumentStages
    watermarks: str
    partitions: int
    catalogue: Catalogue


def indexing_parts(settings: Settings, made: Clients, given: Replication, group: str, partitions: int) -> IndexingParts:
    """The parts of the indexing flow, a member of `group` that reads a topic of so many partitions.

    Raises ConfigError and BackendError.
    """
    index = settings.qdrant
    log = CollectionLog(settings, {"alias", "terms"})
    catalogue = Catalogue(made.qdrant, index, log.seen, choice=choice(settings, group))
    for error in given.calls.run(catalogue.read(_TIMEOUT), _TIMEOUT).values():
        raise error
    given.calls.keep("catalogue", lambda: catalogue.follow(_TIMEOUT))
    if made.embedder is not None:
        try_embedder(made.embedder, settings, given.calls)
    stages = DocumentStages.of(settings, made, catalogue, given.signals.metrics.unreadable.inc)
    expiry = Expiry(made.qdrant, catalogue, tuple(index.physical), stages.context, _TIMEOUT)
    given.calls.keep("expiry", expiry.follow, pause=EVERY)
    return IndexingParts(
        consumer_loop=given.consumer_loop,
        delivery=given.delivery,
        wakeup=given.wakeup,
        calls=given.calls,
        way_out=given.way_out,
        deserialiser=Deserialiser(given.registry, settings.limits.max_document_bytes, ordered=True)
        if given.registry is not None
        else None,
        decoder=query.document_decoder(settings),
        stages=stages,
        watermarks=settings.kafka.topics.watermarks,
        partitions=partitions,
        catalogue=catalogue,
    )


@contextmanager
def open_copier(settings: Settings, in_process: InProcess) -> Iterator[CopyPage]:
    """Have documents copied into the collections of these settings, until the block ends.

    Raises ConfigError and BackendError.
    """
    calls = EventLoopThread(Wakeup())
    made = Clients.of(settings, in_process, in_process.metrics("indexing"))
    try:
        catalogue = Catalogue(made.qdrant, settings.qdrant, choice=choice(settings))
        for error in calls.run(catalogue.read(_TIMEOUT), _TIMEOUT).values():
            raise error
        if made.embedder is not None:
            try_embedder(made.embedder, settings, calls)
        stages = DocumentStages.of(settings, made, catalogue)
        used: list[DocumentStage[Any] | None] = [stages.embedder, stages.encoder, stages.writer, stages.context]
        # Fields have their own names in a collection, whatever the messages call them.
        as_stored = DocumentSettings(expire_after=settings.documents.expire_after)
        copier = Copier(
            made.qdrant,
            replace(query.document_decoder(settings), documents=as_stored),
            [each for each in used if each is not None],
            settings.qdrant.vectors.dense if made.embedder is None else None,
            _TIMEOUT,
        )
        yield lambda source, target, offset: calls.run(copier.copy_page(source, target, offset), _COPYING)
    finally:
        for client in made.connections.values():
            calls.run(client.aclose(), _TIMEOUT)
        calls.close()
