"""The clients of the backends, made of the settings; nothing here connects."""

import asyncio
import ssl
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Final, Protocol, Self

import httpx
import structlog
from opentelemetry.trace import TracerProvider

from flows.assembly import Resources
from flows.assembly.query import field_map
from operators.clients.chat.completions import APIS as CHAT_APIS
from operators.clients.chat.completions import ChatModel
from operators.clients.embedders import Embedder, SparseEncoder
from operators.clients.embedders.bi_encoders import APIS, SPARSE_APIS, BiEncoder, dense, sparse
from operators.clients.http.backend import Backend, Resilient
from operators.clients.http.dialect import MODEL
from operators.clients.http.transport import MIB, Endpoint, http_transport, proxy_for
from operators.clients.local.cross_encoder import CrossEncoder
from operators.clients.local.inference import Cores
from operators.clients.local.minilm import NAMES, MiniLM
from operators.clients.local.quantisation import chosen
from operators.clients.qdrant.answers import QDRANT, CollectionInfo
from operators.clients.qdrant.client import QdrantClient
from operators.clients.qdrant.server import ServerClient
from operators.clients.qdrant_edge.engine import EngineClient
from operators.clients.qdrant_edge.shards import Engine
from operators.clients.rerankers import Reranker
from operators.clients.rerankers.cross_encoders import APIS as RERANK_APIS
from operators.clients.rerankers.cross_encoders import HttpReranker
from operators.clients.rerankers.late_interaction import LateInteraction
from operators.clients.rerankers.listwise import ChatSelector, Orderer
from operators.clients.rerankers.token_idf import TokenIdf
from operators.clients.rerankers.token_vectors import TokenVectors
from operators.collections.catalogue import Catalogue
from operators.collections.gaps import is_searchable
from operators.collections.requirements import vectors
from operators.delivery import credentials
from operators.runtime.event_loop import EventLoopThread
from operators.telemetry.metrics import FlowMetrics, Instruments
from schemas.errors import BackendBadResponse, BackendError, ConfigError
from schemas.settings import ChatSettings, EmbedderSettings, QdrantSettings, Settings, SparseEncoderSettings
from schemas.settings.section import Backend as Section
from schemas.settings.section import ModelServer, read_secret

log = structlog.stdlib.get_logger(__name__)

ANTHROPIC_VERSION = "2023-06-01"

_MAX_QDRANT_BODY = 64 * MIB

_TEXT: Final = "a question"

_CORRECT: Final = "Correct qdrant.dimension, or the section embedder; rankstream check --part embedder asks it again."

_PROBE_TIMEOUT = 1.0
_CLOSE_TIMEOUT = 10.0

_ENGINE_QUERIES: Final = 8
"""The engine in the process holds the interpreter while it compares token vectors: more at once hold up everything."""


class Closable(Protocol):
    """A client that holds connections."""

    async def aclose(self) -> None:
        """Close them."""
        ...


Ping = Callable[[], bool]
"""True if a backend answers now."""


class InProcess(Resources):
    """The parts that flows of a process share: its metrics and, made on demand, traces, Qdrant's engine and the models.

    `traces` are others' to close; without them the process has its own.
    """

    def __init__(self, settings: Settings, traces: TracerProvider | None = None) -> None:
        super().__init__()
        self._settings = settings
        self._traces = traces
        self.instruments = Instruments()

    def metrics(self, flow: str) -> FlowMetrics:
        """The metrics of this flow."""
        return FlowMetrics(self.instruments, flow)

    @cached_property
    def traces(self) -> TracerProvider:
        """The provider of tracers. Raises ConfigError for an unknown exporter or protocol."""
        if self._traces is not None:
            return self._traces
        # Commands without a flow start sooner without the SDK.
        from operators.telemetry.export import PATIENCE, close_traces, tracer_provider

        provider = tracer_provider(PATIENCE)
        self.register("traces", partial(close_traces, provider))
        return provider

    @cached_property
    def engine(self) -> Engine:
        """Qdrant's engine on the configured directory. Raises IndexInUse if another process has it."""
        assert self._settings.qdrant.path is not None
        engine = Engine(self._settings.qdrant.path.expanduser())
        self.register("qdrant engine", engine.close)
        return engine

    @cached_property
    def _cores(self) -> Cores:
        return Cores(self._settings.threads)

    @cached_property
    def minilm(self) -> MiniLM:
        """MiniLM; its graph is built at the first time. Raises ConfigError without the weights."""
        precision = chosen(self._settings.embedder.precision)
        model = MiniLM(self._settings.cache_dir.expanduser(), precision=precision, cores=self._cores)
        self.register("minilm", lambda: asyncio.run(model.aclose()))
        return model

    @cached_property
    def cross_encoder(self) -> CrossEncoder:
        """The cross-encoder in this process. Raises ConfigError if the directory holds none that can be used."""
        section = self._settings.rerank
        assert section.path is not None
        model = CrossEncoder(
            section.path.expanduser(),
            file=section.file,
            precision=section.precision,
            cache=self._settings.cache_dir.expanduser(),
            cores=self._cores,
            documents=section.documents,
        )
        self.register("cross-encoder", lambda: asyncio.run(model.aclose()))
        return model


@dataclass(frozen=True)
class Clients:
    """One flow's clients: their connections belong to its event loop."""

    qdrant: QdrantClient
    embedder: Embedder | None
    sparse_encoder: SparseEncoder | None
    reranker: Reranker | None
    chat: ChatModel | None

    @classmethod
    def of(cls, settings: Settings, in_process: InProcess, metrics: FlowMetrics) -> Self:
        """The clients that the settings ask for. Raises ConfigError."""
        client = make_qdrant_client(settings, in_process, metrics)
        embeds = make_embedder(settings, in_process, metrics)
        chat = make_chat_model(settings.chat, metrics)
        reranks = _reranker(settings, in_process, metrics, client, embeds, chat)
        return cls(client, embeds, make_sparse_encoder(settings.sparse_encoder, metrics), reranks, chat)

    @property
    def connections(self) -> dict[str, Closable]:
        """The clients that hold connections. The models in this process serve its other flows, too."""
        local = MiniLM | CrossEncoder
        return {name: each for name, each in vars(self).items() if each is not None and not isinstance(each, local)}

    def register(
        self, resources: Resources, calls: EventLoopThread, settings: QdrantSettings, catalogue: Catalogue
    ) -> Mapping[str, Ping]:
        """Have the connections closed on the loop that opens them; the checks of backends, by name.

        Qdrant's key must open all collections that are used, and their vectors must fit: a server that is up helps
        nobody whose collection is missing, forbidden or of another dimension.
        """
        for name, client in self.connections.items():
            resources.register(name, partial(_close, client, calls))
        needed = vectors(settings)

        async def infos() -> list[CollectionInfo]:
            used = map(catalogue.capabilities_of, settings.physical)
            asked = (self.qdrant.collection_info(each.alias or each.name, timeout=_PROBE_TIMEOUT) for each in used)
            return await asyncio.gather(*asked)

        def reachable() -> bool:
            try:
                found = calls.run(infos(), 2 * _PROBE_TIMEOUT)
            except (BackendError, TimeoutError):
                return False
            return all(is_searchable(needed, info) for info in found)

        return {"qdrant": reachable}


def _close(client: Closable, calls: EventLoopThread) -> None:
    calls.run(client.aclose(), _CLOSE_TIMEOUT)


def section_of(backend: str) -> str:
    """The key of a backend's section, by which messages about the configuration name it."""
    return "rerank" if backend == "reranker" else backend


def transport(name: str, section: Section, url: str, max_connections: int = 64) -> httpx.AsyncBaseTransport:
    """Connections to the section's server: by the proxy of the environment, and trusting the section's authorities.

    Raises ConfigError for a file that can't be read.
    """
    verify: ssl.SSLContext | bool = True
    if section.tls.ca is not None:
        try:
            verify = ssl.create_default_context(cafile=str(section.tls.ca.expanduser()))
        except OSError as error:
            raise ConfigError(f"{section_of(name)}.tls.ca: {section.tls.ca}: {error.strerror or error}") from error
    keep_alive, proxy = section.keep_alive, proxy_for(url)
    return http_transport(max_connections=max_connections, keep_alive=keep_alive, verify=verify, proxy=proxy)


def _headers(name: str, section: Section, header: str = "authorization") -> dict[str, str]:
    """The headers of each request; that of the API key, if there is one, is a bearer's without a name of its own."""
    key, header = credentials.secret(section, section_of(name), "api_key"), section.api_key_header or header
    own = {} if key is None else {header: f"Bearer {key}" if header == "authorization" else key}
    try:
        return {**own, **section.headers, **{each: read_secret(path) for each, path in section.header_files.items()}}
    except OSError as error:
        raise ConfigError(f"{section_of(name)}.header_files: {error.filename}: {error.strerror}") from error


def _server(name: str, section: ModelServer, metrics: FlowMetrics, headers: Mapping[str, str] | None = None) -> Backend:
    """The server of a model; `headers` in place of those of its section."""
    assert section.url is not None
    given = _headers(name, section) if headers is None else headers
    # The stages bound the calls.
    pool = transport(name, section, section.url, max_connections=0)
    endpoint = Endpoint(
        name, section.url, pool, given, dialect=MODEL, path=section.request_path, query=section.query, body=section.body
    )
    return Resilient(endpoint, metrics=metrics.backend(name))


def make_qdrant_client(settings: Settings, in_process: InProcess, metrics: FlowMetrics) -> QdrantClient:
    """The client of the server at `url`, or of the engine in this process."""
    section, fields = settings.qdrant, field_map(settings)
    if section.url is None:
        return EngineClient(in_process.engine, fields=fields)
    headers = _headers("qdrant", section, "api-key")
    pool = transport("qdrant", section, section.url)
    endpoint = Endpoint("qdrant", section.url, pool, headers, _MAX_QDRANT_BODY, QDRANT)
    return ServerClient(Resilient(endpoint, metrics=metrics.backend("qdrant")), fields=fields)


def make_embedder(settings: Settings, in_process: InProcess, metrics: FlowMetrics) -> Embedder | None:
    """The embedder that the settings name."""
    section = settings.embedder
    if section.kind == "none":
        return None
    if section.kind == "minilm":
        return in_process.minilm
    return BiEncoder(
        _server("embedder", section, metrics),
        section.model,
        dense(settings.qdrant.dimension),
        APIS[section.kind],
        max_batch=section.max_batch,
        dimensions=section.dimensions,
        purposes=section.purposes or {},
    )


def embedder_model(section: EmbedderSettings) -> str | None:
    """The name of the configured embedder's model, with its precision; None without an embedder."""
    if section.kind == "minilm":
        return NAMES[chosen(section.precision)]
    return section.model if section.served else None


def make_sparse_encoder(section: SparseEncoderSettings, metrics: FlowMetrics) -> SparseEncoder | None:
    """The sparse encoder that the settings name."""
    if section.kind == "none":
        return None
    server = _server("sparse_encoder", section, metrics)
    return BiEncoder(server, section.model, sparse, SPARSE_APIS[section.kind], max_batch=section.max_batch)


def make_chat_model(settings: ChatSettings, metrics: FlowMetrics) -> ChatModel | None:
    """The chat model that the settings name."""
    if settings.kind == "none":
        return None
    headers = None
    if settings.kind == "anthropic":
        headers = {"anthropic-version": ANTHROPIC_VERSION, **_headers("chat", settings, "x-api-key")}
    return ChatModel(
        _server("chat", settings, metrics, headers),
        settings.model,
        CHAT_APIS[settings.kind],
        max_tokens=settings.max_tokens,
        structured=settings.structured,
        parameters=settings.parameters,
    )


def _reranker(
    settings: Settings,
    in_process: InProcess,
    metrics: FlowMetrics,
    qdrant: QdrantClient,
    embedder: Embedder | None,
    chat: ChatModel | None,
) -> Reranker | None:
    section = settings.rerank
    match section.kind:
        case "none":
            return None
        case "late_interaction":
            return _late_interaction(settings, qdrant, embedder)
        case "chat":
            assert chat is not None
            return Orderer(chat) if section.mode == "order" else ChatSelector(chat)
        case _:
            return make_cross_encoder(settings, in_process, metrics)


def make_cross_encoder(settings: Settings, in_process: InProcess, metrics: FlowMetrics) -> CrossEncoder | HttpReranker:
    """The reranker that the settings name, in this process or behind a server; it needs no index."""
    section = settings.rerank
    if section.kind == "onnx":
        return in_process.cross_encoder
    return HttpReranker(
        _server("reranker", section, metrics),
        section.model,
        RERANK_APIS[section.kind],
        documents=section.documents,
        chars=section.max_batch_chars,
        trusted=section.trusted,
        templates=section.templates,
        instruction=section.instruction,
    )


def _late_interaction(settings: Settings, qdrant: QdrantClient, embedder: Embedder | None) -> LateInteraction:
    section, index = settings.rerank, settings.qdrant
    model, using = embedder.model if embedder is not None else settings.embedder.model, index.vectors.tokens
    idf = TokenIdf(qdrant) if section.idf and using is not None else None
    queries = section.documents if index.url is not None else min(section.documents, _ENGINE_QUERIES)
    made = partial(LateInteraction, qdrant, model, using=using, idf=idf, queries=queries)
    # Servers give no token vectors.
    if not isinstance(embedder, MiniLM):
        return made()
    on_the_fly = TokenVectors(embedder) if section.on_the_fly else None
    return made(on_the_fly=on_the_fly, has_token=embedder.has_token, searches=section.calls)


async def mismatch(embedder: Embedder, dimension: int, timeout: float) -> str | None:
    """The mismatch of an embedder's vectors in length, by one text; None if they fit. Raises BackendError."""
    [embedding] = await embedder.embed([_TEXT], purpose="query", timeout=timeout)
    length = len(embedding.vector)
    if length != dimension:
        return f"its vectors have {length} components, and qdrant.dimension is {dimension}"
    return None if embedding.vector.any() else "its vector of a text is zero"


def try_embedder(embedder: Embedder, settings: Settings, calls: EventLoopThread) -> Future[None]:
    """Have the embedder embed one text, behind what else starts, and log if its answer cannot be used.

    One that is away is no news here: it may come later, and calls to it say so until then.
    """
    if isinstance(embedder, BiEncoder):
        # Past the breaker and the retries, which are for queries and documents.
        embedder = replace(embedder, backend=embedder.backend.endpoint)

    async def embed() -> None:
        try:
            wrong = await mismatch(embedder, settings.qdrant.dimension, settings.embedder.timeout)
        except BackendBadResponse as error:
            wrong = str(error)
        except BackendError:
            return
        if wrong is not None:
            log.warning("embedder does not fit the configuration", reason=wrong, remedy=_CORRECT)

    return asyncio.run_coroutine_threadsafe(embed(), calls.loop)
