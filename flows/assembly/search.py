"""The parts of the search flow, made of the settings."""

import asyncio
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import structlog

from flows.assembly import query
from flows.assembly.clients import Clients, try_embedder
from flows.assembly.collections import CollectionLog, choice
from flows.assembly.delivery import Replication
from operators.access.filters import on_fields
from operators.caching.bounded import ExactCache, PayloadCache
from operators.caching.semantic_cache import SemanticCache
from operators.clients.chat.completions import ChatModel
from operators.clients.embedders import Embedder, SparseEncoder
from operators.clients.http.transport import MIB
from operators.clients.local.minilm import MiniLM
from operators.clients.model_caches import EmbeddingCache, ScoreCache, VerdictCache
from operators.clients.qdrant.client import all_but
from operators.clients.rerankers import Reranker
from operators.clients.rerankers.listwise import ChatSelector
from operators.collections.catalogue import Catalogue
from operators.delivery.table_reader import RuleReader, WatermarkReader
from operators.query.field_map import FieldMap
from operators.query.in_flight import InFlight
from operators.query.legs import LEG_SPECS, Searches
from operators.runtime.dispatcher import Bounds, Load
from operators.runtime.event_loop import EventLoopThread
from operators.stages.admit import Admission
from operators.stages.answers import Answers
from operators.stages.embed import Embeddings, Encodings, needs_embedding
from operators.stages.experiment import (
    TRIAL,
    ExperimentAdmission,
    ExperimentFinaliser,
    Experimenting,
    ExperimentPublisher,
    ExperimentSearches,
    TrialLeg,
)
from operators.stages.fetch import Comparing, Fetching, Neighbouring
from operators.stages.fuse import Fuzzy
from operators.stages.leg import SearchLeg
from operators.stages.locate import Locating
from operators.stages.lookup import Lookup
from operators.stages.publish import Finaliser, Publisher
from operators.stages.rerank import Reranking
from operators.stages.rules import RuledAdmission
from operators.stages.temporal_expression import ByChatModel
from operators.telemetry.metrics import FlowMetrics
from operators.wire.message import Message
from schemas.document import index_keys
from schemas.errors import ConfigError
from schemas.result import CONTEXT_LEGS, FUZZY, LEARNED, PINNED
from schemas.settings import (
    CacheSettings,
    EmbedderSettings,
    PolicySettings,
    QdrantSettings,
    Settings,
    SourcePolicy,
    SparseEncoderSettings,
)
from schemas.settings.policies import PolicyCheck

log = structlog.stdlib.get_logger(__name__)


class Parts:
    """The search flow's parts, made of the settings; None for a stage whose backend is not configured.

    Raises ConfigError.
    """

    def __init__(
        self,
        settings: Settings,
        clients: Clients,
        member: Replication,
        watermarks: WatermarkReader,
        rules: RuleReader | None = None,
    ) -> None:
        _warn(settings)
        self.consumer_loop, self.delivery, self.calls = member.consumer_loop, member.delivery, member.calls
        self.deserialiser = member.deserialiser(settings.limits.max_message_bytes, ordered=False)
        decoder = query.decoder(settings, member.signals)

        index, bounds, metrics = settings.qdrant, _bounds(settings.qdrant), member.signals.metrics
        embedder, encoder, nearby = clients.embedder, clients.sparse_encoder, index.context
        seen, hides = CollectionLog(settings).seen, settings.firewall.enabled
        self.catalogue = catalogue = Catalogue(clients.qdrant, index, seen, hides=hides, choice=choice(settings))
        known = _read(catalogue, self.calls, index.timeout)
        able = [catalogue.capabilities_of(name) for name in index.physical]
        context = any(each.has(vector) for each in able for vector in ("dense_context", "sparse_context"))
        configured = dict.fromkeys(CONTEXT_LEGS, nearby.on or not known or context)
        configured |= {LEARNED: encoder is not None, FUZZY: index.vectors.fuzzy is not None, PINNED: rules is not None}
        built = [leg for leg in LEG_SPECS.values() if configured.get(leg.name, True)]
        if embedder is not None:
            try_embedder(embedder, settings, self.calls)
        policy_files = PolicyFiles(settings.policies, _policy_check(settings, clients.qdrant.fields), metrics)
        if settings.policies.files:
            self.calls.keep("policies", partial(asyncio.to_thread, policy_files.reload))
        payloads = PayloadCache(settings.cache.payload_mib * MIB) if settings.cache.payload_mib else None
        if payloads is not None:
            metrics.tables["payloads",].set_function(payloads.__len__)

        self.reranking = reranking(settings, clients.reranker, metrics)
        self.picking = picking(settings, clients.chat, metrics)
        tokens = self.reranking is not None and self.reranking.reads_tokens
        admission = Admission(
            catalogue,
            query.expression_columns(settings),
            query.ordering_fields(index),
            index.grouping_fields,
            partial(needs_embedding, tokens=tokens) if embedder is None else None,
            clients.qdrant.fields,
            max(nearby.before, nearby.after) if nearby.on else 0,
        )
        admit: Callable[[InFlight], InFlight] = RuledAdmission(admission, rules.of) if rules is not None else admission
        self.answers = cached_answers(settings.cache, metrics)
        self.lookup = Lookup(self.answers, watermarks, settings.cache.watermark_timeout)
        self.embeddings = embeddings(settings, embedder, metrics, tokens=tokens) if embedder is not None else None
        self.encodings = encodings(settings, encoder, metrics) if encoder is not None else None
        self.temporal_expressions = by_chat_model(settings, clients.chat) if clients.chat is not None else None

        client = replace(clients.qdrant, successor=catalogue.successor)
        searches = Searches(query.bodies(index), frozenset(leg.name for leg in built))
        self.searches: Callable[[InFlight], InFlight] = searches
        self.legs: list[SearchLeg] = [SearchLeg(leg.name, client, bounds) for leg in built if not leg.last]
        self.fuzzy = next((Fuzzy(leg.name, client, bounds, catalogue) for leg in built if leg.last), None)
        self.comparing = Comparing(client, index.vectors.dense, bounds)
        rest = all_but(index_keys(index.search_fields))
        to_rerank = partial(candidates_to_rerank, self.reranking) if self.reranking is not None else None
        self.texts = Fetching(client, to_rerank, bounds, payloads, rest) if to_rerank is not None else None
        self.page = Fetching(client, partial(candidates_to_fetch, self.picking), bounds, payloads, rest)
        self.neighbours = Neighbouring(client, bounds) if nearby.on else None
        self.locating = Locating(embedder, _bounds(settings.embedder)) if isinstance(embedder, MiniLM) else None

        self.experimenting: Callable[[InFlight], InFlight] | None = None
        if experiments := dict(sorted(settings.experiments.items())):
            normalise = decoder.normalise
            admit = ExperimentAdmission(admit, experiments, normalise.planner, normalise.policies, metrics)
            self.searches, self.experimenting = ExperimentSearches(searches), Experimenting(metrics)
            asked = {leg for each in experiments.values() for leg in settings.recipes[each.recipe].fusion.legs}
            self.legs += [TrialLeg(TRIAL + leg.name, client, bounds, leg.name) for leg in built if leg.name in asked]

        models = [each.model if each is not None else None for each in (embedder, encoder)]
        self.decoder: Callable[[Message], InFlight] = decoder
        self.admission: Callable[[InFlight], InFlight] = admit
        if (names := query.own_names(settings)) is not None and names.columns:
            self.decoder, self.admission = names.around(decoder), names.around(admit)
        of = (member.way_out, models[0], decoder.normalise.cursors, models[1], names)
        topic = settings.kafka.topics.experiments
        self.finaliser = Finaliser(Publisher(*of), self.answers)
        if experiments and topic is not None:
            publisher = ExperimentPublisher(*of, tokens=query.tokens(settings))
            self.finaliser = ExperimentFinaliser(publisher, self.answers, topic)


def embeddings(settings: Settings, embedder: Embedder, metrics: FlowMetrics, *, tokens: bool) -> Embeddings:
    """The embed stage; `tokens`: a reranker reads token vectors."""
    section = settings.embedder
    provider = {} if section.kind == "minilm" else {"provider": section.kind}
    cache, load = _cache_and_load(section, Embeddings.name, metrics)
    dimension = settings.qdrant.dimension
    return Embeddings(embedder, _bounds(section), cache, load, dimension=dimension, tokens=tokens, **provider)


def encodings(settings: Settings, encoder: SparseEncoder, metrics: FlowMetrics) -> Encodings:
    """The encode stage."""
    section = settings.sparse_encoder
    return Encodings(encoder, _bounds(section), *_cache_and_load(section, Encodings.name, metrics), section.kind)


def _bounds(section: EmbedderSettings | SparseEncoderSettings | QdrantSettings) -> Bounds:
    return Bounds(section.timeout, section.max_batch, section.max_concurrency)


def _cache_and_load(
    section: EmbedderSettings | SparseEncoderSettings, stage: str, metrics: FlowMetrics
) -> tuple[EmbeddingCache[Any] | None, Load]:
    """The cache of a stage, if it has one, and the load of its calls, both of which are in the metrics."""
    load = metrics.load(stage, section.max_concurrency)
    if not section.cache_mib:
        return None, load
    cache: EmbeddingCache[Any] = EmbeddingCache(section.cache_mib * MIB)
    metrics.tables[stage,].set_function(cache.__len__)
    return cache, load


def reranking(settings: Settings, reranker: Reranker | None, metrics: FlowMetrics) -> Reranking | None:
    """The rerank stage, if there is a reranker."""
    if reranker is None:
        return None
    section, chat = settings.rerank, settings.rerank.kind == "chat"
    timeout, calls = section.timeout, section.calls
    if reranker.reads == "tokens":
        # A query whose documents' token vectors are computed would keep others from their calls: it bounds them itself.
        calls = 0
    if chat:
        timeout, calls = settings.chat.timeout, settings.chat.max_concurrency
    # Those of late interaction depend on the namespace's token frequencies, and change with the index.
    cached = section.cache if section.kind != "late_interaction" else 0
    return Reranking(
        reranker,
        Bounds(timeout, section.documents, calls),
        selects=query.selects(section),
        max_doc_chars=section.max_doc_chars,
        compares=chat,
        omits=section.omitted == "drop",
        measure=query.score_measure(section),
        cache=ScoreCache(cached) if cached and not chat else None,
        verdicts=VerdictCache(cached) if cached else None,
        load=metrics.load("rerank", calls),
    )


def picking(settings: Settings, chat: ChatModel | None, metrics: FlowMetrics) -> Reranking | None:
    """The pick stage, if there is a chat model: for recipes with the stage `llm_rerank`."""
    if chat is None:
        return None
    verdicts = VerdictCache(settings.rerank.cache) if settings.rerank.cache else None
    load = metrics.load("pick", settings.chat.max_concurrency)
    bounds = Bounds(settings.chat.timeout, 1, settings.chat.max_concurrency)
    return Reranking(
        ChatSelector(chat), bounds, picking=True, selects=True, compares=True, verdicts=verdicts, load=load
    )


def by_chat_model(settings: Settings, chat: ChatModel) -> ByChatModel:
    """The stage that has the chat model read temporal expressions, one query a completion."""
    bounds = Bounds(settings.chat.timeout, 1, settings.chat.max_concurrency)
    return ByChatModel(chat, bounds, settings.chat.kind)


def cached_answers(settings: CacheSettings, metrics: FlowMetrics) -> Answers:
    """The cached answers, within the bounds that the settings give."""
    exact = ExactCache(settings.exact_mib * MIB, settings.ttl)
    semantic = SemanticCache(settings.semantic_mib * MIB, settings.ttl, settings.threshold, settings.per_scope)
    metrics.tables["exact",].set_function(exact.__len__)
    metrics.tables["semantic",].set_function(semantic.__len__)
    return Answers(exact, semantic, settings.clock_bucket)


def candidates_to_rerank(reranking: Reranking, query: InFlight) -> int:
    """The number of candidates fetched for the reranker; with the page, where no stage behind changes the order."""
    top = reranking.top(query)
    asked = query.asked
    return max(top, asked.skip + asked.limit) if top and not query.asked.plan.recipe.behind else top


def candidates_to_fetch(picking: Reranking | None, query: InFlight) -> int:
    """The number of candidates fetched in the end: up to the page's end, and those that the chat model reads."""
    asked = query.asked
    return max(asked.skip + asked.limit, picking.top(query) if picking is not None else 0)


def _warn(settings: Settings) -> None:
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
        log.warning("the firewall is off: clearances and labels hide nothing", policies=hiding)


class PolicyFiles:
    """Reads the files of policies again when they have changed; those that can't be used change nothing."""

    def __init__(self, policies: PolicySettings, check: PolicyCheck, metrics: FlowMetrics) -> None:
        self._policies = policies
        self._check = check
        self._refused = metrics.policies_refused
        self._reason: str | None = None

    def reload(self) -> None:
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


def _policy_check(settings: Settings, fields: FieldMap) -> PolicyCheck:
    """The check of a policy, and the first of all that there are. Raises ConfigError.

    A collection of another tool may not be able to answer a policy's filter.
    """
    of_names = settings.check_policy

    def check(path: str, policy: SourcePolicy) -> None:
        of_names(path, policy)
        for at, each in on_fields(policy.filters, f"{path}.filters"):
            if (reason := fields.refusal(each)) is not None:
                raise ValueError(f"{at}: {reason} ({each.field!r})")

    policies = settings.policies
    # Of the files', only those whose fields may have other names are made once more.
    listed = [name for name, each in policies.listed.policies.items() if not fields.same or b"#" in each]
    try:
        for path, policy in policies.by_path.items():
            check(f"policies.{path}", policy)
        for source in listed:
            check(f"policies.files: {source}", policies.policy_for(source))
    except ValueError as error:
        raise ConfigError(str(error)) from None
    return check


def _read(catalogue: Catalogue, calls: EventLoopThread, timeout: float) -> bool:
    """Read the collections now, and again behind the queries. True if Qdrant has described all of them in time."""
    try:
        return not calls.run(catalogue.refresh(timeout), timeout)
    except TimeoutError:
        log.warning("Qdrant did not say in time what its collections are: taken as configured")
        return False
    finally:
        calls.keep("catalogue", lambda: catalogue.refresh_periodically(timeout))
