"""What the indexing flow is built from, made of the settings."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from opentelemetry.trace import Tracer

from flows.assembly import clients, query
from flows.assembly.clients import Clients, InProcess
from flows.assembly.delivery import Replication
from operators.clients.qdrant.catalogue import Catalogue
from operators.clients.qdrant.client import QdrantClient
from operators.delivery.sink import Delivery
from operators.delivery.source import ConsumerLoop
from operators.indexing.apply import DocumentEmbedder, Writer
from operators.indexing.decode import DocumentDecoder
from operators.runtime.event_loop import EventLoopThread
from operators.runtime.wakeup import Wakeup
from schemas.errors import ConfigError
from schemas.settings import Settings

if TYPE_CHECKING:
    from operators.indexing.collection import Held

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


def ensure_collections(settings: Settings, in_process: InProcess) -> "Held":
    """Create the collections that don't exist, and the indexes that those of ours lack.

    Raises BackendError, and ConfigError for a collection of ours that does not fit.
    """
    # Qdrant's models take a second to import: only what makes collections waits for them.
    from operators.indexing import collection

    with asking(settings, in_process) as (calls, client):
        return calls.run(collection.ensure(client, settings.qdrant, _TIMEOUT), _TIMEOUT)


def writable_collections(settings: Settings, in_process: InProcess) -> None:
    """Ensure the collections; raises ConfigError, too, if one is not ours to write to."""
    if foreign := ensure_collections(settings, in_process).foreign:
        raise ConfigError(
            f"Qdrant collections that rankstream did not create: {', '.join(foreign)}. It only reads them. To let it"
            " write to a collection, add its name to qdrant.owned; to index other destinations only, leave this one's"
            " out of the indexing flow's configuration"
        )


@contextmanager
def asking(settings: Settings, in_process: InProcess) -> Iterator[tuple[EventLoopThread, QdrantClient]]:
    """A client of Qdrant for one command, and the loop that it is called on."""
    calls = EventLoopThread(Wakeup())
    client = clients.qdrant(settings.qdrant, lambda: in_process.engine)
    try:
        yield calls, client
    finally:
        calls.run(client.backend.aclose(), _TIMEOUT)
        calls.close()
