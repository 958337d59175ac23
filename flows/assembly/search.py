"""What the search flow is built from, made of the settings."""

from collections.abc import Callable
from dataclasses import dataclass

from opentelemetry.trace import Tracer

from operators.caching.answer_cache import AnswerCache
from operators.caching.exact_cache import ExactCache
from operators.caching.semantic_cache import SemanticCache
from operators.clients.chat.temporal_expressions import TemporalExtractor
from operators.clients.embedders import Embedder
from operators.clients.embedders.cached import CachedEmbeddings
from operators.clients.http.transport import MIB
from operators.clients.qdrant.client import QdrantClient
from operators.delivery.sink import Delivery
from operators.delivery.source import ConsumerLoop
from operators.query.in_flight import InFlight
from operators.query.search_bodies import Searches
from operators.runtime.dispatcher import Bounds
from operators.runtime.event_loop import EventLoopThread
from operators.runtime.wakeup import Wakeup
from operators.stages.admit import Admission
from operators.stages.decode import Decoder
from operators.stages.embed import Embeddings
from operators.stages.lookup import Answers, WatermarkTable
from operators.stages.publish import Finaliser
from operators.stages.rerank import Reranking
from schemas.settings import CacheSettings, Settings


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

    consumer_loop: ConsumerLoop
    delivery: Delivery
    wakeup: Wakeup
    calls: EventLoopThread
    bounds: StageBounds
    tracer: Tracer
    decoder: Decoder
    admission: Admission
    answers: Answers
    watermarks: WatermarkTable
    timeout: float
    embeddings: Embeddings
    extractor: TemporalExtractor | None
    qdrant: QdrantClient
    searches: Searches
    depth: Callable[[InFlight], int]
    reranking: Reranking
    picking: Reranking
    finaliser: Finaliser


def embeddings(settings: Settings, embedder: Embedder | None, *, tokens: bool) -> Embeddings:
    """Who embeds the queries' texts; `tokens`: whether a reranker reads token vectors."""
    section = settings.embedder
    cached = CachedEmbeddings(section.cache_mib * MIB) if section.cache_mib else None
    bounds = Bounds(section.timeout, section.max_batch, section.max_concurrency)
    return Embeddings(embedder, settings.qdrant.dimension, tokens, bounds, cached)


def answers(settings: CacheSettings) -> Answers:
    """The answers that are kept, within the bounds that the settings give."""
    exact = ExactCache(settings.exact_mib * MIB, settings.ttl)
    semantic = SemanticCache(settings.semantic_mib * MIB, settings.ttl, settings.threshold, settings.per_scope)
    return Answers(AnswerCache(exact, semantic), settings.clock_bucket)


def depth(*stages: Reranking) -> Callable[[InFlight], int]:
    """How many candidates of a query are fetched: up to the page's end, and what is reranked."""

    def of(query: InFlight) -> int:
        asked = query.asked.canonical
        return max(asked.skip + asked.limit, *(each.depth(query) for each in stages))

    return of
