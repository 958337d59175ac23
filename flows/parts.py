"""What the search flow is built from, made of the settings."""

from collections.abc import Callable
from dataclasses import dataclass

from opentelemetry.trace import Tracer

from operators.clients.anchors import AnchorExtractor
from operators.clients.bm25 import Bm25
from operators.clients.embedders import Embedder
from operators.clients.embedders.kept import KeptEmbeddings
from operators.clients.qdrant.client import QdrantClient
from operators.clients.transport import MIB
from operators.decode import Decoder
from operators.delivery.sink import Delivery
from operators.delivery.source import Intake
from operators.dispatcher import Bounds
from operators.embed import Embeddings
from operators.event_loop import EventLoopThread
from operators.inflight import InFlight
from operators.publish import Publisher
from operators.rerank import Reranking
from operators.searches import Searches
from operators.wakeup import Wakeup
from schemas.settings import Settings


@dataclass(frozen=True)
class StageBounds:
    """How much the stages that ask Qdrant, and the one that asks a chat model for anchors, take on."""

    qdrant: Bounds
    chat: Bounds

    @classmethod
    def of(cls, settings: Settings) -> "StageBounds":
        """The bounds that the settings give."""
        qdrant, chat = settings.qdrant, settings.chat
        return cls(
            Bounds(qdrant.timeout, qdrant.max_batch, qdrant.max_concurrency),
            # One query a completion.
            Bounds(chat.timeout, 1, chat.max_concurrency),
        )


@dataclass(frozen=True)
class Parts:
    """The search flow's parts."""

    intake: Intake
    delivery: Delivery
    wakeup: Wakeup
    calls: EventLoopThread
    bounds: StageBounds
    tracer: Tracer
    decoder: Decoder
    bm25: Bm25
    embeddings: Embeddings
    anchors: AnchorExtractor | None
    qdrant: QdrantClient
    searches: Searches
    depth: Callable[[InFlight], int]
    reranking: Reranking
    picking: Reranking
    publisher: Publisher


def embeddings(settings: Settings, embedder: Embedder | None, *, tokens: bool) -> Embeddings:
    """Who embeds the queries' texts; `tokens`: whether a reranker reads token vectors."""
    section = settings.embedder
    kept = KeptEmbeddings(section.cache_mib * MIB) if section.cache_mib else None
    bounds = Bounds(section.timeout, section.max_batch, section.max_concurrency)
    return Embeddings(embedder, settings.qdrant.dimension, tokens, bounds, kept)


def depth(*stages: Reranking) -> Callable[[InFlight], int]:
    """How many candidates of a query are fetched: the page, and what is reranked."""

    def of(query: InFlight) -> int:
        return max(query.event.page_size, *(each.depth(query) for each in stages))

    return of
