"""The parts of the search flow, made of the settings."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import structlog

from flows.assembly import query, rerankers
from flows.assembly.clients import Clients, try_embedder
from flows.assembly.collections import CollectionLog, choice
from flows.assembly.delivery import Replication
from operators.access.filters import on_fields
from operators.caching.bounded import ExactCache
from operators.caching.payload_cache import TTL, PayloadCache
from operators.caching.semantic_cache import SemanticCache
from operators.clients.chat import ChatModel
from operators.clients.chat.temporal_expressions import ChatTemporalExtractor
from operators.clients.embedders import Embedder, SparseEncoder
from operators.clients.http.transport import MIB
from operators.clients.local.minilm import MiniLM
from operators.clients.model_caches import EmbeddingCache
from operators.clients.qdrant.client import AllBut
from operators.clients.qdrant.programs import Runner
from operators.collections.catalogue import Catalogue
from operators.delivery.schema_registry import Deserialiser
from operators.delivery.sink import Delivery
from operators.delivery.source import ConsumerLoop
from operators.query.field_map import FieldMap
from operators.query.in_flight import InFlight
from operators.query.legs import LEGS, Searches
from operators.runtime.dispatcher import Bounds
from operators.runtime.event_loop import EventLoopThread, Wakeup
from operators.stages.admit import Admission
from operators.stages.answers import Answers
from operators.stages.decode import Decoder
from operators.stages.embed import Embeddings, Encodings, needs_embedding
from operators.stages.fetch import Comparing, Fetching, Neighbouring
from operators.stages.fuse import Fuzzy
from operators.stages.leg import SearchLeg
from operators.stages.locate import Locating
from operators.stages.lookup import Lookup, Watermarks
from operators.stages.publish import Finaliser, Publisher
from operators.stages.rerank import Reranking
from operators.stages.temporal_expression import ByChatModel
from operators.telemetry.metrics import FlowMetrics
from schemas.document import index_keys
from schemas.errors import ConfigError
from schemas.result import CONTEXT_LEGS, FUZZY, LEARNED
from schemas.settings import (
    CacheSettings,
    EmbedderSettings,
    PolicySettings,
    Settings,
    SourcePolicy,
    SparseEncoderSettings,
)
from schemas.settings.policies import Check

log = structlog.stdlib.get_logger(__name__)


@dataclass(frozen=True)
class Parts:
    """The search flow's parts; a stage whose backend is not configured has none."""

    consumer_loop: ConsumerLoop
    delivery: Delivery
    wakeup: Wakeup
    calls: EventLoopThread
    deserialiser: Deserialiser | None
    decoder: Decoder
    admission: Admission
    answers: Answers
    lookup: Lookup
    embeddings: Embeddings | None
    encodings: Encodings | None
    temporal_expressions: ByChatModel | None
    searches: Searches
    legs: Sequence[SearchLeg]
    fuzzy: Fuzzy | None
    comparing: Comparing
    texts: Fetching | None
    reranking: Reranking | None
    page: Fetching
    picking: Reranking | None
    neighbours: Neighbouring | None
    locating: Locating | None
    finaliser: Finaliser


def search_parts(settings: Settings, clients: Clients, given: Replication, watermarks: Watermarks) -> Parts:
    """The parts of the search flow. Raises ConfigError."""
    _warn(settings)
    qdrant = Bounds(settings.qdrant.timeout, settings.qdrant.max_batch, settings.qdrant.max_concurrency)
    decoder = query.decoder(settings, given.signals)
    hides = settings.firewall.enabled
    catalogue = Catalogue(
        clients.qdrant, settings.qdrant, CollectionLog(settings).seen, hides=hides, choice=choice(settings)
    )
    known = _read(catalogue, given.calls, settings.qdrant.timeout)
    able = [catalogue.of(name) for name in settings.qdrant.physical]
    contexts = any(each.has(vector) for each in able for vector in ("dense_context", "sparse_context"))
    context = settings.qdrant.context.on or not known or contexts
    configured = dict.fromkeys(CONTEXT_LEGS, context)
    configured |= {LEARNED: clients.sparse_encoder is not None, FUZZY: settings.qdrant.vectors.fuzzy is not None}
    built = [leg for leg in LEGS.values() if configured.get(leg.name, True)]
    if clients.embedder is not None:
        try_embedder(clients.embedder, settings, given.calls)
    policy_files = PolicyFiles(settings.policies, _policy_check(settings, clients.qdrant.fields), given.signals.metrics)
    if settings.policies.files:
        given.calls.keep("policies", partial(asyncio.to_thread, policy_files.read))
    nearby = settings.qdrant.context
    cached = answers(settings.cache, given.signals.metrics)
    kept = PayloadCache(settings.cache.payload_mib * MIB, TTL) if settings.cache.payload_mib else None
    if kept is not None:
        given.signals.metrics.table("payloads", kept.__len__)
    reranking = rerankers.reranking(settings, clients.reranker, given.signals.metrics)
    picking = rerankers.picking(settings, clients.chat, given.signals.metrics)
    tokens = reranking is not None and reranking.reads_tokens
    unembedded = partial(needs_embedding, tokens=tokens) if clients.embedder is None else None
    client = replace(clients.qdrant, successor=catalogue.successor)
    runner = Runner(client)
    embedder = clients.embedder.model if clients.embedder is not None else None
    encoder = clients.sparse_encoder.model if clients.sparse_encoder is not None else None
    publisher = Publisher(given.way_out, embedder, decoder.normalise.cursors, encoder)
    fields = AllBut(index_keys(settings.qdrant.search_fields))
    fetching = partial(Fetching, client, bounds=qdrant, cache=kept, fields=fields)
    return Parts(
        consumer_loop=given.consumer_loop,
        delivery=given.delivery,
        wakeup=given.wakeup,
        calls=given.calls,
        deserialiser=Deserialiser(given.registry, settings.limits.max_message_bytes, ordered=False)
        if given.registry is not None
        else None,
        decoder=decoder,
        admission=Admission(
            catalogue,
            settings.qdrant.column_names,
            query.ordering_fields(settings.qdrant),
            settings.qdrant.grouping_fields,
            unembedded,
            clients.qdrant.fields,
            max(nearby.before, nearby.after) if nearby.on else 0,
        ),
        answers=cached,
        lookup=Lookup(cached, watermarks, settings.cache.watermark_timeout),
        embeddings=embeddings(settings, clients.embedder, given.signals.metrics, tokens=tokens)
        if clients.embedder is not None
        else None,
        encodings=encodings(settings, clients.sparse_encoder, given.signals.metrics)
        if clients.sparse_encoder is not None
        else None,
        temporal_expressions=by_chat_model(settings, clients.chat) if clients.chat is not None else None,
        searches=Searches(query.bodies(settings.qdrant), frozenset(leg.name for leg in built)),
        legs=[SearchLeg(leg.name, runner, qdrant) for leg in built if not leg.last],
        fuzzy=next((Fuzzy(leg.name, runner, qdrant) for leg in built if leg.last), None),
        comparing=Comparing(client, settings.qdrant.vectors.dense, qdrant),
        texts=fetching(depth=partial(read, reranking)) if reranking is not None else None,
        reranking=reranking,
        page=fetching(depth=partial(candidates_to_fetch, picking)),
        picking=picking,
        neighbours=Neighbouring(client, qdrant) if nearby.on else None,
        locating=Locating(clients.embedder, _bounds(settings.embedder))
        if isinstance(clients.embedder, MiniLM)
        else None,
        finaliser=Finaliser(publisher, cached),
    )


def embeddings(settings: Settings, embedder: Embedder, metrics: FlowMetrics, *, tokens: bool) -> Embeddings:
    """The embed stage; `tokens`: a reranker reads token vectors."""
    section = settings.embedder
    load = metrics.load(Embeddings.name, section.max_concurrency)
    provider = {} if section.kind == "minilm" else {"provider": section.kind}
    dimension = settings.qdrant.dimension
    cache = _cache(section, Embeddings.name, metrics)
    return Embeddings(embedder, _bounds(section), cache, load, dimension=dimension, tokens=tokens, **provider)


def encodings(settings: Settings, encoder: SparseEncoder, metrics: FlowMetrics) -> Encodings:
    """The encode stage."""
    section = settings.sparse_encoder
    load = metrics.load(Encodings.name, section.max_concurrency)
    cache = _cache(section, Encodings.name, metrics)
    return Encodings(encoder, _bounds(section), cache, load, section.kind)


def _bounds(section: EmbedderSettings | SparseEncoderSettings) -> Bounds:
    return Bounds(section.timeout, section.max_batch, section.max_concurrency)


def _cache(
    section: EmbedderSettings | SparseEncoderSettings, stage: str, metrics: FlowMetrics
) -> EmbeddingCache[Any] | None:
    if not section.cache_mib:
        return None
    cache: EmbeddingCache[Any] = EmbeddingCache(section.cache_mib * MIB)
    metrics.table(stage, cache.__len__)
    return cache


def by_chat_model(settings: Settings, chat: ChatModel) -> ByChatModel:
    """The stage that has the chat model read temporal expressions, one query a completion."""
    bounds = Bounds(settings.chat.timeout, 1, settings.chat.max_concurrency)
    return ByChatModel(ChatTemporalExtractor(chat), bounds, settings.chat.kind)


def answers(settings: CacheSettings, metrics: FlowMetrics) -> Answers:
    """The cached answers, within the bounds that the settings give."""
    exact = ExactCache(settings.exact_mib * MIB, settings.ttl)
    semantic = SemanticCache(settings.semantic_mib * MIB, settings.ttl, settings.threshold, settings.per_scope)
    metrics.table("exact", exact.__len__)
    metrics.table("semantic", semantic.__len__)
    return Answers(exact, semantic, settings.clock_bucket)


def read(reranking: Reranking, query: InFlight) -> int:
    """The number of candidates fetched for the reranker; with the page, where no stage behind changes the order."""
    top = reranking.top(query)
    asked = query.asked.canonical
    return max(top, asked.skip + asked.limit) if top and not query.asked.plan.recipe.behind else top


def candidates_to_fetch(picking: Reranking | None, query: InFlight) -> int:
    """The number of candidates fetched in the end: up to the page's end, and those that the chat model reads."""
    asked = query.asked.canonical
    return max(asked.skip + asked.limit, picking.top(query) if picking is not None else 0)


def _warn(settings: Settings) -> None:
    """Say what protects less than it may seem to."""
    if settings.cursor.signing_secret is None and settings.cursor.signing_secret_file is None:
        log.warning("cursor.signing_secret isn't set: cursors are checksummed, and not signed")
    selecting = sorted(name for name, recipe in settings.recipes.items() if recipe.picking is not None)
    if selecting and settings.chat.kind == "none":
        log.warning("chat.kind is none: the stage llm_rerank is skipped", recipes=selecting)
    weighing = sorted(name for name, recipe in settings.recipes.items() if LEARNED in recipe.fusion.legs)
    if weighing and not settings.sparse_encoder.served:
        log.warning("sparse_encoder.kind is none: the leg learned is skipped", recipes=weighing)
    if settings.unread_decay:
        log.warning("no profile's recipe has the stage decay: tiers of decay are not read", tiers=settings.unread_decay)
    hiding = [path for path, policy in settings.policies.by_path.items() if policy.hides]
    hiding += ["files"] if settings.policies.listed.hides else []
    if hiding and not settings.firewall.enabled:
        log.warning("firewall.enabled isn't set: clearances and labels hide nothing", policies=hiding)


class PolicyFiles:
    """Reads the files of policies again when they have changed; those that can't be used change nothing."""

    def __init__(self, policies: PolicySettings, check: Check, metrics: FlowMetrics) -> None:
        self._policies = policies
        self._check = check
        self._refused = metrics.policies_refused
        self._reason: str | None = None

    def read(self) -> None:
        """Read them if they are others than before; say so, or why not, once."""
        reason = None
        try:
            if self._policies.read_files(self._check):
                log.info("policies were read", sources=len(self._policies.listed.policies))
        except ConfigError as error:
            reason = str(error)
            if reason != self._reason:
                log.error("policies cannot be read, and stay what they were", reason=reason)
        self._reason = reason
        self._refused.set(reason is not None)


def _policy_check(settings: Settings, fields: FieldMap) -> Check:
    """The check of a policy, and the first of all that there are. Raises ConfigError.

    A collection of another tool may not be able to answer a policy's filter.
    """
    of_names = settings.check_policy

    def check(path: str, policy: SourcePolicy) -> None:
        of_names(path, policy)
        for at, each in on_fields(policy.filters, f"{path}.filters"):
            if (reason := fields.refusal(each)) is not None:
                raise ValueError(f"{at}.field: {reason} ({each.field!r})")

    policies = settings.policies
    # Of the files', only those whose fields may have other names are made once more.
    listed = [name for name, each in policies.listed.policies.items() if not fields.same or b"#" in each]
    try:
        for path, policy in policies.by_path.items():
            check(f"policies.{path}", policy)
        for source in listed:
            check(f"policies.files: {source}", policies.of(source))
    except ValueError as error:
        raise ConfigError(str(error)) from None
    return check


def _read(catalogue: Catalogue, calls: EventLoopThread, timeout: float) -> bool:
    """Read what the collections are, if Qdrant says it in time, and have it read again behind the queries.

    True if Qdrant has said it of all.
    """
    known = False
    reading = asyncio.run_coroutine_threadsafe(catalogue.read(timeout), calls.loop)
    try:
        known = not reading.result(timeout)
    except TimeoutError:
        log.warning("Qdrant did not say in time what its collections are: taken as configured")
    calls.keep("catalogue", lambda: catalogue.follow(timeout))
    return known
