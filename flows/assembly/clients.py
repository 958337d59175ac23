"""Settings become clients; nothing here connects."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Self

from flows.assembly.rerankers import reranker
from operators.clients.chat import ChatModel
from operators.clients.chat.anthropic import AnthropicChat
from operators.clients.chat.openai import OpenAIChat
from operators.clients.embedders import Embedder
from operators.clients.embedders.openai import OpenAIEmbedder
from operators.clients.embedders.tei import TeiEmbedder
from operators.clients.http.resilient import ResilientEndpoint
from operators.clients.http.transport import MIB, Endpoint, http_transport
from operators.clients.local.cross_encoder import CrossEncoder
from operators.clients.local.minilm.model import MiniLM
from operators.clients.qdrant.client import QdrantClient
from operators.clients.qdrant_edge.engine import EngineTransport
from operators.clients.qdrant_edge.shards import Engine
from operators.clients.rerankers import Reranker
from schemas.errors import ConfigError
from schemas.settings import ChatSettings, QdrantSettings, RerankSettings, Settings
from schemas.settings.section import Backend

ANTHROPIC_VERSION = "2023-06-01"

_MAX_QDRANT_BODY = 64 * MIB
_MAX_ENGINE_UPSERT = 2 * MIB


class Resources:
    """What a process has once, however many flows it runs: the engine and the model in it, made on demand."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings

    @cached_property
    def engine(self) -> Engine:
        """Qdrant's engine on the configured directory. Raises ConfigError if another process has it."""
        assert self._settings.qdrant.path is not None
        return Engine(self._settings.qdrant.path.expanduser())

    @cached_property
    def minilm(self) -> MiniLM:
        """MiniLM; its graph is built at the first time. Raises ConfigError without the weights."""
        return MiniLM(self._settings.cache_dir.expanduser(), threads=self._settings.threads)

    @cached_property
    def cross_encoder(self) -> CrossEncoder:
        """The cross-encoder in this process. Raises ConfigError if the directory holds none that can be used."""
        section = self._settings.rerank
        assert section.path is not None
        return CrossEncoder(section.path.expanduser(), threads=self._settings.threads, documents=section.documents)

    def close(self) -> None:
        """Close what was made."""
        if "engine" in self.__dict__:
            self.engine.close()


@dataclass(frozen=True)
class Clients:
    """One flow's clients: their connections belong to its event loop."""

    qdrant: QdrantClient
    embedder: Embedder | None
    reranker: Reranker | None
    chat: ChatModel | None

    @classmethod
    def of(cls, settings: Settings, resources: Resources) -> Self:
        """The clients that the settings ask for. Raises ConfigError."""
        client = qdrant(settings.qdrant, lambda: resources.engine)
        embeds = embedder(settings, lambda: resources.minilm)
        chat = chat_model(settings.chat)

        def server(section: RerankSettings) -> ResilientEndpoint:
            return _guarded("reranker", section.url, _bearer(_key("rerank", section)))

        reranks = reranker(settings, client, embeds, chat, server, lambda: resources.cross_encoder)
        return cls(client, embeds, reranks, chat)

    async def aclose(self) -> None:
        """Close the connections."""
        await self.qdrant.endpoint.aclose()
        for client in (self.embedder, self.reranker, self.chat):
            if client is not None and not isinstance(client, MiniLM | CrossEncoder):
                await client.aclose()


def _key(name: str, section: Backend) -> str | None:
    try:
        return section.key()
    except OSError as error:
        raise ConfigError(f"{name}.api_key_file: {error.strerror}") from error


def _bearer(key: str | None) -> dict[str, str]:
    return {"authorization": f"Bearer {key}"} if key else {}


def _guarded(name: str, url: str | None, headers: Mapping[str, str]) -> ResilientEndpoint:
    assert url is not None
    # The stages bound the calls.
    return ResilientEndpoint(Endpoint(name, url, http_transport(max_connections=0), headers))


def qdrant(settings: QdrantSettings, engine: Callable[[], Engine]) -> QdrantClient:
    """The client of the server at `url`, or of the engine in this process."""
    if settings.url is None:
        transport = EngineTransport(engine())
        endpoint = Endpoint("qdrant", "http://engine", transport, max_body=_MAX_QDRANT_BODY)
        # The engine holds the interpreter while it writes: small writes let the searches in between.
        return QdrantClient(endpoint, max_upsert=_MAX_ENGINE_UPSERT)
    key = _key("qdrant", settings)
    headers = {"api-key": key} if key else {}
    return QdrantClient(Endpoint("qdrant", settings.url, http_transport(), headers, max_body=_MAX_QDRANT_BODY))


def embedder(settings: Settings, minilm: Callable[[], MiniLM]) -> Embedder | None:
    """The embedder that the settings name; `minilm` gives the model in this process."""
    section = settings.embedder
    if section.kind == "none":
        return None
    if section.kind == "minilm":
        return minilm()
    server = _guarded("embedder", section.url, _bearer(_key("embedder", section)))
    dimension = settings.qdrant.dimension
    if section.kind == "openai":
        return OpenAIEmbedder(server, section.model, dimension, max_batch=section.max_batch)
    return TeiEmbedder(server, section.model, dimension, max_batch=section.max_batch)


def chat_model(settings: ChatSettings) -> ChatModel | None:
    """The chat model that the settings name."""
    if settings.kind == "none":
        return None
    key = _key("chat", settings)
    if settings.kind == "openai":
        server = _guarded("chat", settings.url, _bearer(key))
        return OpenAIChat(server, settings.model, max_tokens=settings.max_tokens)
    headers = {"anthropic-version": ANTHROPIC_VERSION} | ({"x-api-key": key} if key else {})
    return AnthropicChat(_guarded("chat", settings.url, headers), settings.model, max_tokens=settings.max_tokens)
