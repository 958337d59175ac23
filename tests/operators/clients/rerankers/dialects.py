"""Rerank servers that answer in their dialects' recorded shapes and enforce their limits."""

import asyncio
from collections.abc import Callable, Mapping
from typing import Any

import pytest
from aiohttp import web

from operators.clients.rerankers import Reranker, RerankRequest, Scores
from operators.clients.rerankers.cohere import CohereReranker
from operators.clients.rerankers.tei import TeiReranker
from operators.clients.transport import Endpoint
from schemas.errors import BackendError
from tests.operators.clients.serving import Handler, answering, backend, json_response

Make = Callable[[Endpoint], Reranker]


def relevance(query: str, document: str) -> float:
    """The score that the servers here give `document`: one of its own."""
    return len(query) + sum(map(ord, document)) / 1000


class Server:
    """A reranker that counts its requests and how many of them it had in hand at once."""

    def __init__(self, latency: float = 0.0) -> None:
        self.requests: list[dict[str, Any]] = []
        self.most_at_once = 0
        self._at_once = 0
        self._latency = latency

    async def __call__(self, request: web.Request) -> web.Response:
        """Keep the request and answer it after the latency."""
        assert (request.method, request.path) == ("POST", "/v2/rerank")
        body = await request.json()
        self.requests.append(body)
        self._at_once += 1
        self.most_at_once = max(self.most_at_once, self._at_once)
        await asyncio.sleep(self._latency)
        self._at_once -= 1
        return self.answer(body)

    def answer(self, body: dict[str, Any]) -> web.Response:
        """The dialect's answer to `body`."""
        raise NotImplementedError


def sorted_scores(key: str, query: str, documents: list[str]) -> list[dict[str, Any]]:
    """Entries of index and `key`, best first."""
    entries = [{"index": index, key: relevance(query, document)} for index, document in enumerate(documents)]
    return sorted(entries, key=lambda entry: entry[key], reverse=True)


class Cohere(Server):
    """A Cohere v2 server."""

    def answer(self, body: dict[str, Any]) -> web.Response:
        """The `top_n` best of all documents."""
        results = sorted_scores("relevance_score", body["query"], body["documents"])[: body["top_n"]]
        meta = {"api_version": {"version": "2"}, "billed_units": {"search_units": 1}}
        return json_response({"id": "07734bd2", "results": results, "meta": meta})


class Tei(Server):
    """A text-embeddings-inference server with its default limit of 32 texts a request."""

    def answer(self, body: dict[str, Any]) -> web.Response:
        """All texts' scores, sorted; 413 above the limit."""
        if len(body["texts"]) > 32:
            error = f"batch size {len(body['texts'])} > maximum allowed batch size 32"
            return json_response({"error": error, "error_type": "Validation"}, 413)
        return json_response(sorted_scores("score", body["query"], body["texts"]))


def cohere(endpoint: Endpoint) -> Reranker:
    """The Cohere-style reranker."""
    return CohereReranker(endpoint, "rerank-v3.5", max_concurrency=4)


def tei(endpoint: Endpoint) -> Reranker:
    """The TEI reranker with its default limit."""
    return TeiReranker(endpoint, "bge-reranker-base", max_concurrency=4)


DIALECTS = pytest.mark.parametrize(("make", "server"), [(cohere, Cohere), (tei, Tei)])


def request_of(count: int, query: str = "a query") -> RerankRequest:
    """A request of `count` candidates."""
    return RerankRequest(query, {f"id-{number}": f"document {'x' * number}" for number in range(count)}, "docs")


def right_scores(request: RerankRequest) -> Mapping[str, float]:
    """What a right answer to `request` comes to."""
    return {point: relevance(request.query, document) for point, document in request.documents.items()}


def rerank(
    make: Make, handler: Handler, requests: list[RerankRequest], timeout: float = 5.0
) -> list[Scores | BackendError]:
    """What `make`'s reranker returns for `requests` from a server of `handler`."""

    async def scenario() -> list[Scores | BackendError]:
        async with answering(handler) as url, backend(f"{url}/v2") as endpoint:
            return await make(endpoint).rerank(requests, timeout=timeout)

    return asyncio.run(scenario())
