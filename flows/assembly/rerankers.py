"""Settings become rerankers, and what else the rerank stage and the pick stage need."""

from collections.abc import Callable
from typing import Final

from flows.assembly.query import measure, selects
from operators.clients.chat.completions import ChatModel
from operators.clients.embedders import Embedder
from operators.clients.http.backend import Backend
from operators.clients.local.cross_encoder import CrossEncoder
from operators.clients.local.minilm import MiniLM
from operators.clients.model_caches import ScoreCache, VerdictCache
from operators.clients.qdrant.client import QdrantClient
from operators.clients.rerankers import Reranker
from operators.clients.rerankers.cross_encoders import APIS, HttpReranker, Templates
from operators.clients.rerankers.late_interaction import LateInteraction
from operators.clients.rerankers.listwise import ChatSelector, Orderer
from operators.clients.rerankers.token_idf import TokenIdf
from operators.clients.rerankers.token_vectors import TokenVectors
from operators.runtime.dispatcher import Bounds
from operators.stages.rerank import Reranking
from operators.telemetry.metrics import FlowMetrics
from schemas.settings import RerankSettings, Settings

_ENGINE_QUERIES: Final = 8
"""The engine in the process holds the interpreter while it compares token vectors: more at once hold up everything."""


def reranker(
    settings: Settings,
    qdrant: QdrantClient,
    embedder: Embedder | None,
    chat: ChatModel | None,
    opened: Callable[[RerankSettings], Backend],
    cross_encoder: Callable[[], CrossEncoder],
) -> Reranker | None:
    """The reranker that the settings name; `opened` gives its server, `cross_encoder` the model in this process."""
    section = settings.rerank
    match section.kind:
        case "none":
            return None
        case "late_interaction":
            return _late_interaction(settings, qdrant, embedder)
        case "onnx":
            return cross_encoder()
        case "chat":
            assert chat is not None
            return Orderer(chat) if section.mode == "order" else ChatSelector(chat)
        case kind:
            return HttpReranker(
                opened(section),
                section.model,
                APIS[kind],
                documents=section.documents,
                chars=section.max_batch_chars,
                trusted=section.trusted,
                templates=Templates(*section.templates) if section.templates is not None else None,
                instruction=section.instruction,
            )


def _late_interaction(settings: Settings, qdrant: QdrantClient, embedder: Embedder | None) -> LateInteraction:
    section, index = settings.rerank, settings.qdrant
    queries = section.documents if index.url is not None else min(section.documents, _ENGINE_QUERIES)
    idf = TokenIdf(qdrant) if section.idf and index.vectors.tokens is not None else None
    model, using = embedder.model if embedder is not None else settings.embedder.model, index.vectors.tokens
    # Servers give no token vectors.
    if not isinstance(embedder, MiniLM):
        return LateInteraction(qdrant, model, using=using, idf=idf, queries=queries)
    on_the_fly = TokenVectors(embedder) if section.on_the_fly else None
    return LateInteraction(
        qdrant,
        model,
        using=using,
        idf=idf,
        on_the_fly=on_the_fly,
        has_token=embedder.has_token,
        queries=queries,
        searches=section.calls,
    )


def reranking(settings: Settings, reranker: Reranker | None, metrics: FlowMetrics) -> Reranking | None:
    """The rerank stage, if there is a reranker."""
    if reranker is None:
        return None
    section = settings.rerank
    timeout, calls = section.timeout, section.calls
    if reranker.reads == "tokens":
        # A query whose documents' token vectors are computed would keep others from their calls: it bounds them itself.
        calls = 0
    if section.kind == "chat":
        timeout, calls = settings.chat.timeout, settings.chat.max_concurrency
    compares, kept = section.kind == "chat", section.cache
    # Those of late interaction depend on the namespace's token frequencies, and change with the index.
    lasting = section.kind != "late_interaction"
    return Reranking(
        reranker,
        Bounds(timeout, section.documents, calls),
        selects=selects(section),
        max_doc_chars=section.max_doc_chars,
        compares=compares,
        omits=section.omitted == "drop",
        measure=measure(section),
        cache=ScoreCache(kept) if kept and lasting and not compares else None,
        verdicts=VerdictCache(kept) if kept and lasting else None,
        load=metrics.load("rerank", calls),
    )


def picking(settings: Settings, chat: ChatModel | None, metrics: FlowMetrics) -> Reranking | None:
    """The pick stage, if there is a chat model: for recipes with the stage `llm_rerank`."""
    if chat is None:
        return None
    calls = settings.chat.max_concurrency
    bounds = Bounds(settings.chat.timeout, 1, calls)
    return Reranking(
        ChatSelector(chat),
        bounds,
        picking=True,
        selects=True,
        compares=True,
        verdicts=VerdictCache(settings.rerank.cache) if settings.rerank.cache else None,
        load=metrics.load("pick", calls),
    )
