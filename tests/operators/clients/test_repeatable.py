"""A reading request is sent again when its connection was old; a writing one is not."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final

import orjson
import pytest

from flows.assembly.clients import Clients, InProcess
from operators.clients.chat.completions import APIS as CHAT_APIS
from operators.clients.chat.completions import ChatModel
from operators.clients.embedders.bi_encoders import APIS as EMBEDDERS
from operators.clients.embedders.bi_encoders import BiEncoder, dense
from operators.clients.http.transport import Endpoint, http_transport
from operators.clients.qdrant.client import QdrantClient
from operators.clients.qdrant.requests import UNLIMITED
from operators.clients.qdrant.server import ServerClient
from operators.clients.rerankers import RerankRequest
from operators.clients.rerankers.cross_encoders import APIS, HttpReranker
from operators.clients.rerankers.listwise import FORM
from operators.query.backend_answers import Hits
from schemas.errors import BackendUnavailable
from schemas.settings import load
from tests.operators.clients.http.closing import Close, Closing
from tests.operators.clients.qdrant.transports import GOOD
from tests.operators.samples import METRICS

Ask = Callable[[Endpoint], Awaitable[Any]]

REQUEST: Final = RerankRequest("query", {"a": "text"}, "docs", "ns")
INFO: Final = {"points_count": 0, "config": {"params": {}}}
PAGE: Final[Mapping[str, Any]] = {"points": [], "next_page_offset": None}


def _qdrant(ask: Callable[[QdrantClient], Awaitable[Any]]) -> Ask:
    return lambda endpoint: ask(ServerClient(endpoint, limits={"docs": UNLIMITED}))


async def _searched(client: QdrantClient) -> None:
    (answer,) = await client.query_batch("docs", [GOOD], timeout=10)
    assert isinstance(answer, Hits)


READS: Final[Mapping[str, tuple[Ask, Any]]] = {
    "search": (_qdrant(_searched), {"result": [{"points": []}]}),
    "fetch": (_qdrant(lambda client: client.retrieve("docs", ["1"], True, timeout=10)), {"result": []}),
    "scroll": (_qdrant(lambda client: client.scroll("docs", limit=3, timeout=10)), {"result": PAGE}),
    "count": (_qdrant(lambda client: client.count("docs", timeout=10)), {"result": {"count": 3}}),
    "facet": (
        _qdrant(lambda client: client.facet("docs", "field", limit=3, timeout=10)),
        {"result": {"hits": []}},
    ),
    "exists": (_qdrant(lambda client: client.exists("docs", timeout=10)), {"result": {"exists": True}}),
    "info": (_qdrant(lambda client: client.collection_info("docs", timeout=10)), {"result": INFO}),
    "tei": (
        lambda endpoint: BiEncoder(endpoint, "", dense(2), EMBEDDERS["tei"]).embed(
            ["text"], purpose="query", timeout=10
        ),
        [[0.6, 0.8]],
    ),
    "openai": (
        lambda endpoint: BiEncoder(endpoint, "", dense(2), EMBEDDERS["openai"]).embed(
            ["text"], purpose="query", timeout=10
        ),
        {"data": [{"index": 0, "embedding": [0.6, 0.8]}]},
    ),
    "cohere": (
        lambda endpoint: HttpReranker(endpoint, "", APIS["cohere"]).score([REQUEST], timeout=10),
        {"results": [{"index": 0, "relevance_score": 0.5}]},
    ),
    "openai chat": (
        lambda endpoint: ChatModel(endpoint, "", CHAT_APIS["openai"]).complete("system", "user", FORM, timeout=10),
        {"choices": [{"message": {"content": "text"}, "finish_reason": "stop"}]},
    ),
    "anthropic": (
        lambda endpoint: ChatModel(endpoint, "", CHAT_APIS["anthropic"]).complete("system", "user", FORM, timeout=10),
        {"content": [{"type": "text", "text": "text"}], "stop_reason": "end_turn"},
    ),
}


def asked(ask: Ask, server: Closing) -> None:
    """Ask three times, without any retry: the second and the third meet an old connection."""

    async def scenario() -> None:
        async with server.served() as url:
            endpoint = Endpoint("backend", url, http_transport())
            try:
                for _ in range(3):
                    await ask(endpoint)
            finally:
                await endpoint.aclose()

    asyncio.run(scenario())


@pytest.mark.parametrize("name", READS)
def test_a_read_survives_an_old_connection(name: str) -> None:
    """Every request that only reads has its answer though the server closes the connection under it."""
    ask, answer = READS[name]
    server = Closing(orjson.dumps(answer), lambda: Close.REQUEST_READ)
    asked(ask, server)
    assert server.connections >= 3


def test_a_deletion_is_not_sent_again() -> None:
    """A server that closed the connection may have deleted already: the client says that it doesn't know."""
    server = Closing(orjson.dumps({"result": {"status": "completed"}}), lambda: Close.REQUEST_READ)
    with pytest.raises(BackendUnavailable):
        asked(_qdrant(lambda client: client.delete("docs", {"must": []}, timeout=10)), server)
    assert len(server.requests) == 2


async def test_every_backend_gives_up_idle_connections_as_its_section_says() -> None:
    """`keep_alive` of each section holds for its own backend."""
    servers = {
        "qdrant": Closing(orjson.dumps({"result": {"exists": True}})),
        "embedder": Closing(orjson.dumps(READS["openai"][1])),
        "rerank": Closing(orjson.dumps(READS["cohere"][1])),
        "chat": Closing(orjson.dumps(READS["openai chat"][1])),
    }
    kinds: dict[str, dict[str, Any]] = {
        "embedder": {"kind": "openai"},
        "rerank": {"kind": "cohere"},
        "chat": {"kind": "openai", "model": "m"},
    }

    async def connections(name: str, keep_alive: float) -> int:
        server = servers[name]
        before = server.connections
        async with server.served() as url:
            needed: dict[str, dict[str, Any]] = {
                "qdrant": {"url": url, "dimension": 2},
                "embedder": {"kind": "none"},
                "rerank": {"kind": "none"},
            }
            section = {"url": url, **needed.get(name, {}), **kinds.get(name, {}), "keep_alive": keep_alive}
            settings = load(None, {**needed, name: section})
            clients = Clients.of(settings, InProcess(settings), METRICS)
            asks: dict[str, Callable[[], Awaitable[Any]]] = {
                "qdrant": lambda: clients.qdrant.exists("docs", timeout=10),
                "embedder": lambda: (
                    clients.embedder.embed(["text"], purpose="query", timeout=10) if clients.embedder else _none()
                ),
                "rerank": lambda: clients.reranker.score([REQUEST], timeout=10) if clients.reranker else _none(),
                "chat": lambda: clients.chat.complete("s", "u", FORM, timeout=10) if clients.chat else _none(),
            }
            await asks[name]()
            await asyncio.sleep(0.3)
            await asks[name]()
            for each in clients.connections.values():
                await each.aclose()
        return server.connections - before

    assert {name: (await connections(name, 0.1), await connections(name, 60.0)) for name in servers} == dict.fromkeys(
        servers, (2, 1)
    )


async def _none() -> None:
    raise AssertionError("the settings ask for this backend")
