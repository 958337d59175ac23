"""What the search flow is built from, made of the settings."""

from collections.abc import Callable
from dataclasses import dataclass, replace

from opentelemetry.trace import Tracer

from operators.clients.anchors import AnchorExtractor
from operators.clients.bm25 import Bm25
from operators.clients.embedders import Embedder
from operators.clients.qdrant.client import QdrantClient
from operators.decode import Decoder
from operators.delivery.sink import Delivery
from operators.delivery.source import Intake
from operators.dispatcher import Bounds
from operators.event_loop import EventLoopThread
from operators.inflight import InFlight
from operators.publish import Publisher
from operators.rerank import Rerankers
from operators.searches import Searches
from operators.wakeup import Wakeup
from schemas.settings import EmbedderSettings, QdrantSettings, RerankSettings, Settings


@dataclass(frozen=True)
class StageBounds:
    """How much each stage that calls somebody takes on."""

    embedder: Bounds
    qdrant: Bounds
    rerank: Bounds
    chat: Bounds

    @classmethod
    def of(cls, settings: Settings) -> "StageBounds":
        """The bounds that the settings give."""

        def bounds(section: EmbedderSettings | QdrantSettings | RerankSettings) -> Bounds:
            return Bounds(section.timeout, section.max_batch, section.max_concurrency)

        # One query a completion.
        chat = Bounds(settings.chat.timeout, 1, settings.chat.max_concurrency)
        rerank = bounds(settings.rerank)
        if settings.chat.kind != "none":
            # A chat model's pick is made in the same stage.
            rerank = replace(rerank, timeout=max(rerank.timeout, chat.timeout))
        return cls(bounds(settings.embedder), bounds(settings.qdrant), rerank, chat)


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
    embedder: Embedder | None
    dimension: int
    anchors: AnchorExtractor | None
    qdrant: QdrantClient
    searches: Searches
    depth: Callable[[InFlight], int]
    rerankers: Rerankers
    publisher: Publisher


def depth(rerankers: Rerankers) -> Callable[[InFlight], int]:
    """How many candidates of a query are fetched: the page, and what is reranked."""

    def of(query: InFlight) -> int:
        return max(query.event.page_size, rerankers.depth(query))

    return of
