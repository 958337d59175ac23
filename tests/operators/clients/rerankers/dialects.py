"""The dialects of cross-encoders, each with the servers that speak it, and one call of each."""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import httpx
import orjson
import pytest

from operators.clients.http.backend import Resilient
from operators.clients.http.transport import Endpoint
from operators.clients.rerankers import RerankRequest
from operators.clients.rerankers.cross_encoders import APIS, HttpReranker, RerankApi
from operators.query.backend_answers import Scores
from schemas.errors import BackendError
from tests.operators.clients.http.serving import Handler, answering, backend
from tests.operators.clients.rerankers.servers import (
    Cohere,
    DashScope,
    Infinity,
    Jina,
    LlamaServer,
    LocalAi,
    Mixedbread,
    Nim,
    Server,
    SgLang,
    Tei,
    TeiPredict,
    VllmRerank,
    VllmScore,
    Voyage,
    Xinference,
    relevance,
)

MODEL = "bge-reranker-v2-m3"
QUERY = "who found penicillin"
TEXTS = ("Fleming did, by chance", "a mould", "zebras graze")


@dataclass(frozen=True)
class Dialect:
    """The API of a kind, and a server of it."""

    kind: str
    server: type[Server]

    @property
    def api(self) -> RerankApi:
        """The API that rerankers of the kind have."""
        return APIS[self.kind]

    def over(self, endpoint: Endpoint, documents: int | None = None) -> HttpReranker:
        """A new client."""
        return HttpReranker(Resilient(endpoint), MODEL, self.api, documents=documents or self.server.limit)

    def right(self, requests: Sequence[RerankRequest]) -> Any:
        """The server's right answer to `requests`."""
        server = self.server()
        asyncio.run(_score(self, Local(server), requests))
        return server.answer(server.requests[0])


SERVERS: dict[str, type[Server]] = {
    "cohere": Cohere,
    "voyage": Voyage,
    "tei": Tei,
    "tei_predict": TeiPredict,
    "vllm_score": VllmScore,
    "sglang": SgLang,
    "nim": Nim,
    "dashscope": DashScope,
    "mixedbread": Mixedbread,
    "jina": Jina,
    "infinity": Infinity,
    "vllm": VllmRerank,
    "llama_server": LlamaServer,
    "xinference": Xinference,
    "localai": LocalAi,
}
SPOKEN = {kind: Dialect(kind, server) for kind, server in SERVERS.items()}
"""Every kind, with its server."""

DIALECTS = {kind: dialect for kind, dialect in SPOKEN.items() if kind == "cohere" or dialect.api is not APIS["cohere"]}
"""The kinds whose APIs differ."""

TEI = DIALECTS["tei"]
TEI_PREDICT = DIALECTS["tei_predict"]
VLLM_SCORE = DIALECTS["vllm_score"]


def by_dialect(dialects: dict[str, Dialect]) -> pytest.MarkDecorator:
    """Run a test for each of `dialects`."""
    return pytest.mark.parametrize("dialect", dialects.values(), ids=dialects.keys())


EVERY_DIALECT = by_dialect(DIALECTS)
EVERY_SERVER = by_dialect(SPOKEN)
INDEXED = by_dialect({name: dialect for name, dialect in DIALECTS.items() if not dialect.api.labels})
PAIRS = by_dialect({name: dialect for name, dialect in DIALECTS.items() if dialect.api.pairs})


class Local(httpx.AsyncBaseTransport):
    """A transport to a server in this process, or to an answer that is always the same."""

    def __init__(self, source: Server | bytes) -> None:
        self._source = source

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Answer one request."""
        if isinstance(self._source, bytes):
            return httpx.Response(200, content=self._source)
        body = orjson.loads(request.content)
        self._source.requests.append(body)
        return httpx.Response(200, content=orjson.dumps(self._source.answer(body)))


def request_of(*texts: str, query: str = QUERY, namespace: str = "docs") -> RerankRequest:
    """A request for `texts`, whose ids are letters."""
    return RerankRequest(query, {chr(ord("a") + place): text for place, text in enumerate(texts)}, "docs", namespace)


def many(count: int, query: str = QUERY) -> RerankRequest:
    """A request of `count` candidates."""
    return RerankRequest(query, {f"id-{number}": f"document {number}" for number in range(count)}, "docs", "docs")


def right_scores(request: RerankRequest) -> Scores:
    """The scores of a right answer to `request`."""
    return {point: relevance(request.query, text) for point, text in request.documents.items()}


async def _score(
    dialect: Dialect, transport: httpx.AsyncBaseTransport, requests: Sequence[RerankRequest]
) -> Sequence[Scores | BackendError]:
    reranker = dialect.over(Endpoint("backend", "http://local/base", transport))
    return await reranker.score(requests, timeout=5)


def read_locally(
    dialect: Dialect, source: Server | bytes, requests: Sequence[RerankRequest]
) -> Sequence[Scores | BackendError]:
    """The reading of an answer by a new client of `dialect`, without a connection."""
    return asyncio.run(_score(dialect, Local(source), requests))


def scored(
    dialect: Dialect,
    handler: Handler,
    *requests: RerankRequest,
    timeout: float = 5.0,
    documents: int | None = None,
) -> Sequence[Scores | BackendError]:
    """The outcome of one call of a new client of `dialect` to an HTTP server of `handler`."""

    async def scenario() -> Sequence[Scores | BackendError]:
        async with answering(handler) as url, backend(f"{url}/base") as endpoint:
            return await dialect.over(endpoint, documents).score(requests, timeout=timeout)

    return asyncio.run(scenario())


def failure(call: Callable[[], object]) -> BackendError:
    """The error of the tree that `call` must raise; it quotes nothing of the request."""
    with pytest.raises(BackendError) as caught:
        call()
    message = str(caught.value)
    assert not any(text in message for text in (QUERY, MODEL, "/base", *TEXTS))
    assert caught.value.__cause__ is None
    return caught.value
