"""Settings become rerankers: who is asked, what a call carries, what is kept, and what a key is seen by."""

import asyncio
import logging
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from bench import random_bert
from flows.assembly.clients import Clients, InProcess
from flows.assembly.search import picking, reranking
from operators.clients.admission import OPENS_AFTER
from operators.clients.chat.temporal_expressions import extract_time
from operators.clients.local.cross_encoder import CrossEncoder
from operators.clients.rerankers import Capacity, Reranker, RerankRequest
from operators.clients.rerankers.cross_encoders import APIS, HttpReranker
from operators.clients.rerankers.late_interaction import DOCUMENTS, LateInteraction
from operators.clients.rerankers.listwise import CAPACITY, ChatSelector, Orderer
from schemas.errors import BackendError, BackendUnavailable
from schemas.settings import Settings, load
from tests.operators.clients.http.serving import answering, json_response
from tests.operators.clients.rerankers.servers import Cohere
from tests.operators.samples import METRICS

CHAT: dict[str, Any] = {"kind": "openai", "url": "http://c/v1", "model": "gpt"}
SERVER: dict[str, Any] = {"url": "http://r", "model": "bge"}
CANARY = "sk-canary-5e1f0c8e2b46"
REQUEST = RerankRequest("a query", {"a": "one text", "b": "another"}, "docs", "tenant")


def configured(qdrant: dict[str, Any] | None = None, chat: dict[str, Any] = CHAT, **rerank: Any) -> Settings:
    """Settings with this section, a chat model, and nobody who embeds."""
    sections = {"qdrant": qdrant or {"url": "http://q"}, "embedder": {"kind": "none"}, "chat": chat, "rerank": rerank}
    return load(None, sections)


async def closed(clients: Clients) -> None:
    """Close the connections."""
    for connection in clients.connections.values():
        await connection.aclose()


@contextmanager
def made(settings: Settings) -> Iterator[Clients]:
    """The clients that the settings ask for."""
    resources = InProcess(settings)
    try:
        clients = Clients.of(settings, resources, METRICS)
        yield clients
        asyncio.run(closed(clients))
    finally:
        resources.close()


def reranker(settings: Settings) -> Reranker:
    """The reranker that the settings ask for."""
    with made(settings) as clients:
        assert clients.reranker is not None
        return clients.reranker


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The directory of a cross-encoder."""
    directory = tmp_path_factory.mktemp("models") / "a-cross-encoder"
    random_bert.write(directory, layers=1, vocabulary=50)
    return directory


LIMITS = {"tei": 32, "nim": 512, "dashscope": 500}


@pytest.mark.parametrize("kind", [kind for kind, api in APIS.items() if not api.pairs])
def test_one_query_a_call(kind: str) -> None:
    """These carry one query, its documents and characters as configured, or what suits the kind."""
    documents = LIMITS.get(kind, 1000)
    found = reranker(configured(kind=kind, **SERVER))
    assert isinstance(found, HttpReranker)
    assert found.api is APIS[kind]
    assert (found.model, found.capacity) == ("bge", Capacity(1, documents))
    found = reranker(configured(kind=kind, **SERVER, max_batch=7, max_batch_chars=4000))
    assert found.capacity == Capacity(1, 7, 4000)


@pytest.mark.parametrize(("kind", "documents"), [("vllm_score", 512), ("tei_predict", 32)])
def test_many_queries_a_call(kind: str, documents: int) -> None:
    """These carry pairs of as many queries as there are, of one namespace unless the server is trusted."""
    found = reranker(configured(kind=kind, **SERVER))
    assert isinstance(found, HttpReranker)
    assert found.api is APIS[kind]
    assert (found.model, found.capacity) == ("bge", Capacity(documents, documents, apart="namespace"))
    found = reranker(configured(kind=kind, **SERVER, max_batch=7, max_batch_chars=4000, trusted=True))
    assert found.capacity == Capacity(7, 7, 4000)


@pytest.mark.parametrize(("mode", "kind_of"), [("order", Orderer), ("pick", ChatSelector)])
def test_a_chat_model_gets_a_query_whole(mode: str, kind_of: type[Reranker]) -> None:
    """It compares a query's documents with each other: all go in one call, which no setting divides."""
    found = reranker(configured(kind="chat", mode=mode))
    assert type(found) is kind_of
    assert (found.model, found.capacity) == ("gpt", CAPACITY)


def test_a_model_in_this_process_is_one(model: Path) -> None:
    """It is named by its directory, takes pairs of many queries of any namespaces, and is loaded once a process."""
    settings = configured(kind="onnx", path=str(model), max_batch=9)
    resources = InProcess(settings)
    first, second = Clients.of(settings, resources, METRICS), Clients.of(settings, resources, METRICS)
    assert type(first.reranker) is CrossEncoder
    assert (first.reranker.model, first.reranker.capacity) == ("a-cross-encoder", Capacity(9, 9))
    assert second.reranker is first.reranker
    asyncio.run(closed(first))
    (scores,) = asyncio.run(first.reranker.score([REQUEST], timeout=10))
    assert not isinstance(scores, BackendError)
    assert scores.keys() == {"a", "b"}
    asyncio.run(first.reranker.aclose())


@pytest.mark.parametrize(
    ("server", "rerank", "queries"),
    [
        (False, {}, 8),
        (False, {"max_batch": 100}, 8),
        (False, {"max_batch": 3}, 3),
        (True, {}, 16),
        (True, {"max_batch": 100}, 100),
    ],
)
def test_late_interaction_asks_the_engine_little(
    tmp_path: Path, server: bool, rerank: dict[str, Any], queries: int
) -> None:
    """The engine in the process gets at most 8 queries a call, a server as many as are configured; of one collection,
    whole.
    """
    qdrant = {"url": "http://q"} if server else {"path": str(tmp_path / "engine")}
    found = reranker(configured(qdrant, **rerank))
    assert type(found) is LateInteraction
    assert found.capacity == Capacity(queries, DOCUMENTS, whole=True, apart="collection")
    assert found.reads == "stored_tokens"


@pytest.mark.parametrize("precision", ["int8", "float32"])
def test_late_interaction_says_the_embedders_bits(tmp_path: Path, precision: str) -> None:
    """It compares the embedder's own token vectors, and is named after the model that made them."""
    sections = {"qdrant": {"path": str(tmp_path)}, "embedder": {"kind": "minilm", "precision": precision}}
    with made(load(None, sections)) as clients:
        assert clients.embedder is not None
        assert clients.reranker is not None
        assert clients.reranker.model == f"late-interaction:{clients.embedder.model}"
        assert clients.reranker.model.endswith(":int8") == (precision == "int8")


def test_a_query_that_computes_token_vectors_is_alone_in_its_call(tmp_path: Path) -> None:
    """On the fly, the stage bounds no calls: a query that computes takes none that another needs. Without MiniLM, or
    with another reranker, nothing is computed and nothing changes.
    """
    computing = {"kind": "late_interaction", "on_the_fly": True}
    sections = {"qdrant": {"path": str(tmp_path)}, "embedder": {"kind": "minilm"}, "rerank": computing}
    with made(load(None, sections)) as clients:
        stage = reranking(load(None, sections), clients.reranker, METRICS)
        assert stage is not None
        assert (stage.reranker.reads, stage.reranker.capacity.queries, stage.bounds.max_concurrency) == ("tokens", 1, 0)
    for rerank, calls in ((computing, 16), ({"kind": "cohere", **SERVER}, 16)):
        with made(configured(**rerank)) as clients:
            stage = reranking(configured(**rerank), clients.reranker, METRICS)
            assert stage is not None
            assert (stage.reranker.reads == "tokens", stage.bounds.max_concurrency) == (False, calls)


def test_nobody_reranks_if_nobody_is_named() -> None:
    """No client, and no stage."""
    settings = configured(kind="none")
    with made(settings) as clients:
        assert (clients.reranker, reranking(settings, clients.reranker, METRICS)) == (None, None)


@pytest.mark.parametrize(
    ("rerank", "keeps"),
    [
        *(({"kind": kind, **SERVER}, True) for kind in ("cohere", "voyage", "tei", "vllm_score", "tei_predict")),
        ({"kind": "onnx"}, True),
        ({"kind": "cohere", **SERVER, "cache": 0}, False),
        ({"kind": "late_interaction"}, False),
        ({"kind": "chat"}, False),
        ({"kind": "chat", "mode": "pick"}, False),
    ],
)
def test_scores_of_cross_encoders_alone_are_kept(model: Path, rerank: dict[str, Any], keeps: bool) -> None:
    """A reranker that compares candidates scores a text by its company; `cache: 0` keeps nothing."""
    if rerank["kind"] == "onnx":
        rerank = {**rerank, "path": str(model)}
    settings = configured(**rerank)
    with made(settings) as clients:
        stage, pick = reranking(settings, clients.reranker, METRICS), picking(settings, clients.chat, METRICS)
        assert stage is not None
        assert pick is not None
        assert (stage.cache is not None) == keeps
        assert pick.cache is None


def test_what_a_verdict_does_is_configured() -> None:
    """The cut of documents reaches the stage; only a chat model selects."""
    settings = configured(kind="cohere", **SERVER, max_doc_chars=300)
    with made(settings) as clients:
        stage = reranking(settings, clients.reranker, METRICS)
        assert stage is not None
        assert (stage.selects, stage.max_doc_chars, stage.picking) == (False, 300, False)
    settings = configured(kind="chat", mode="pick")
    with made(settings) as clients:
        stage, pick = reranking(settings, clients.reranker, METRICS), picking(settings, clients.chat, METRICS)
        assert stage is not None
        assert pick is not None
        assert stage.selects
        assert pick.picking


async def outcome(client: Reranker | None) -> object:
    """The reranker's answer to REQUEST."""
    assert client is not None
    try:
        return (await client.score([REQUEST], timeout=5))[0]
    except BackendError as error:
        return error


@pytest.mark.parametrize("fails", [False, True])
def test_the_key_goes_to_the_server_alone(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, fails: bool
) -> None:
    """As a bearer token; it is in no representation, no log of any level and no error."""
    caplog.set_level(logging.DEBUG)
    monkeypatch.setenv("RANKSTREAM_RERANK__API_KEY", CANARY)
    keys: list[str | None] = []
    server = Cohere()

    async def handler(request: web.Request) -> web.Response:
        keys.append(request.headers.get("authorization"))
        return json_response({}, 401) if fails else await server(request)

    async def scenario() -> str:
        async with answering(handler) as url:
            settings = configured(kind="cohere", url=f"{url}/base", model="bge")
            clients = Clients.of(settings, InProcess(settings), METRICS)
            said = await outcome(clients.reranker)
            assert isinstance(said, BackendError) == fails
            stage = reranking(settings, clients.reranker, METRICS)
            assert isinstance(clients.reranker, HttpReranker)
            backend = clients.reranker.backend
            shown = [clients, clients.reranker, backend, backend.endpoint, stage, settings, said]
            await closed(clients)
            return "".join(f"{each!r} {each}" for each in shown)

    shown = asyncio.run(scenario())
    assert keys == [f"Bearer {CANARY}"]
    assert CANARY not in shown
    assert CANARY not in caplog.text


def test_all_uses_of_the_chat_model_share_a_breaker() -> None:
    """A breaker that reranking failures opened is open for picks and anchors, too; it is closed once."""
    calls = 0

    async def handler(_: web.Request) -> web.Response:
        nonlocal calls
        calls += 1
        return json_response({}, 500)

    async def scenario() -> list[object]:
        async with answering(handler) as url:
            settings = configured(chat={**CHAT, "url": f"{url}/v1"}, kind="chat")
            clients = Clients.of(settings, InProcess(settings), METRICS)
            for _ in range(OPENS_AFTER):
                assert isinstance(await outcome(clients.reranker), BackendUnavailable)
            assert clients.chat is not None
            pick = picking(settings, clients.chat, METRICS)
            assert pick is not None
            picked = await outcome(pick.reranker)
            anchored: object = None
            try:
                await extract_time(clients.chat, "a week ago", 0.0, timeout=5)
            except BackendError as error:
                anchored = error
            await closed(clients)
            return [picked, anchored]

    refused = asyncio.run(scenario())
    # Each failure has a control request.
    assert calls == 2 * OPENS_AFTER
    assert [str(error) for error in refused] == ["chat: not asked, its breaker is open"] * 2
