"""The parts of the indexing flow, made of the settings."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, Final

from flows.assembly import query
from flows.assembly.clients import Clients, InProcess, try_embedder
from flows.assembly.collections import CollectionLog, choice
from flows.assembly.delivery import Replication
from operators.collections.catalogue import Catalogue
from operators.indexing.apply import DocumentEmbedder, DocumentEncoder, DocumentStage, Writer
from operators.indexing.context import ContextWriter
from operators.indexing.copying import Copier
from operators.indexing.deletion import EVERY, Deletion, Expiry
from operators.indexing.document import DocumentFinaliser
from operators.runtime.event_loop import EventLoopThread, Wakeup
from schemas.settings import DocumentSettings, Settings

_TIMEOUT: Final = 60.0
_COPYING: Final = 3600.0
"""Seconds for a page of a copy: the new collection and the models are waited for."""

CopyPage = Callable[[str, str, str | None], tuple[int, str | None]]
"""Copies a page from one collection to another, from an offset on: its documents, and where the next one begins."""


class DocumentStages:
    """The stages behind `decode`, each None where the settings have no use for it.

    `count` is called for each document that the embedder can't read.
    """

    def __init__(
        self, settings: Settings, made: Clients, catalogue: Catalogue, count: Callable[[], None] = lambda: None
    ) -> None:
        index, encoder = settings.qdrant, made.sparse_encoder
        given = made.qdrant, index.vectors, index.context, catalogue, _TIMEOUT
        self.embedder = DocumentEmbedder(made.embedder, _TIMEOUT, count)
        self.encoder = DocumentEncoder(encoder, _TIMEOUT) if encoder is not None else None
        self.context = ContextWriter(*given) if index.context.on else None
        self.writer = Writer(*given, self.context)


class IndexingParts:
    """The parts of the indexing flow, a member of `group` that reads a topic of so many partitions.

    Raises ConfigError and BackendError.
    """

    def __init__(self, settings: Settings, made: Clients, member: Replication, group: str, partitions: int) -> None:
        self.consumer_loop, self.delivery, self.calls = member.consumer_loop, member.delivery, member.calls
        self.deserialiser = member.deserialiser(settings.limits.max_document_bytes, ordered=True)
        self.decoder = query.document_decoder(settings)
        names = query.own_names(settings)
        self.finaliser = DocumentFinaliser(settings.kafka.topics.watermarks, partitions, member.way_out, names)
        seen = CollectionLog(settings, {"alias", "terms"}).seen
        self.catalogue = catalogue = Catalogue(made.qdrant, settings.qdrant, seen, choice=choice(settings, group))
        _start(settings, made, catalogue, member.calls)
        member.calls.keep("catalogue", lambda: catalogue.refresh_periodically(_TIMEOUT))
        self.stages = DocumentStages(settings, made, catalogue, member.signals.metrics.unreadable.inc)
        deletion = Deletion(made.qdrant, self.stages.context, _TIMEOUT)
        expiry = Expiry(deletion, catalogue, tuple(settings.qdrant.physical))
        member.calls.keep("expiry", expiry.delete_all, pause=EVERY)


def _start(settings: Settings, made: Clients, catalogue: Catalogue, calls: EventLoopThread) -> None:
    """Read what the collections are, and try the embedder. Raises BackendError."""
    for error in calls.run(catalogue.refresh(_TIMEOUT), _TIMEOUT).values():
        raise error
    if made.embedder is not None:
        try_embedder(made.embedder, settings, calls)


@contextmanager
def open_copier(settings: Settings, in_process: InProcess) -> Iterator[CopyPage]:
    """Have documents copied into the collections of these settings, until the block ends.

    Raises ConfigError and BackendError.
    """
    calls = EventLoopThread(Wakeup())
    made = Clients.of(settings, in_process, in_process.metrics("indexing"))
    try:
        catalogue = Catalogue(made.qdrant, settings.qdrant, choice=choice(settings))
        _start(settings, made, catalogue, calls)
        stages = DocumentStages(settings, made, catalogue)
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
