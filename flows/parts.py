"""What the search flow is built from, made of the settings."""

from collections.abc import Callable
from dataclasses import dataclass

from opentelemetry.trace import Tracer

from operators.admit import Admission
from operators.cascade.answer_cache import AnswerCache
from operators.cascade.exact_cache import ExactCache
from operators.cascade.semantic_cache import SemanticCache
from operators.clients.anchors import AnchorExtractor
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
from operators.lookup import Answers, Watermarks
from operators.publish import Ending
from operators.rerank import Reranking
from operators.searches import Searches
from operators.wakeup import Wakeup
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

    intake: Intake
    delivery: Delivery
    wakeup: Wakeup
    calls: EventLoopThread
    bounds: StageBounds
    tracer: Tracer
    decoder: Decoder
    admission: Admission
    answers: Answers
    watermarks: Watermarks
    patience: float
    embeddings: Embeddings
    anchors: AnchorExtractor | None
    qdrant: QdrantClient
    searches: Searches
    depth: Callable[[InFlight], int]
    reranking: Reranking
    picking: Reranking
    ending: Ending


def embeddings(settings: Settings, embedder: Embedder | None, *, tokens: bool) -> Embeddings:
    """Who embeds the queries' texts; `tokens`: whether a reranker reads token vectors."""
    section = settings.embedder
    kept = KeptEmbeddings(section.cache_mib * MIB) if section.cache_mib else None
    bounds = Bounds(section.timeout, section.max_batch, section.max_concurrency)
    return Embeddings(embedder, settings.qdrant.dimension, tokens, bounds, kept)


def answers(settings: CacheSettings) -> Answers:
    """The answers that are kept, within the bounds that the settings give."""
    exact = ExactCache(settings.exact_mib * MIB, settings.ttl)
    semantic = SemanticCache(settings.semantic_mib * MIB, settings.ttl, settings.threshold, settings.per_scope)
    return Answers(AnswerCache(exact, semantic), settings.clock_bucket)


def depth(*stages: Reranking) -> Callable[[InFlight], int]:
    """How many candidates of a query are fetched: up to the page's end, and what is reranked."""

    def of(query: InFlight) -> int:
        asked = query.canonical
        return max(asked.skip + asked.limit, *(each.depth(query) for each in stages))

    return of
