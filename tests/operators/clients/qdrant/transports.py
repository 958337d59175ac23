"""Transports for tests at the HTTP seam: one watches the requests to a real backend, one plays a broken one."""

import asyncio
from collections.abc import Callable
from typing import Any, Final

import httpx
import orjson

from operators.clients.http.transport import Endpoint
from operators.clients.qdrant.client import QdrantClient
from operators.clients.qdrant.requests import UNLIMITED
from operators.clients.qdrant.server import ServerClient

NO_LIMITS: Final = dict.fromkeys(("docs", "plain", "any"), UNLIMITED)
"""A client that knows them does not read the descriptions of these collections."""

Answer = Callable[[httpx.Request], httpx.Response]


class Watched(httpx.AsyncBaseTransport):
    """Passes requests on and keeps them in `requests`."""

    def __init__(self, inner: httpx.AsyncBaseTransport) -> None:
        self.inner = inner
        self.requests: list[httpx.Request] = []

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Keep the request and pass it on."""
        self.requests.append(request)
        return await self.inner.handle_async_request(request)

    def bodies(self) -> list[Any]:
        """The JSON bodies of the requests, in their order."""
        return [orjson.loads(request.content) for request in self.requests if request.content]


class Faulty(httpx.AsyncBaseTransport):
    """Answers every request with `answer` after `delay` seconds."""

    def __init__(self, answer: Answer, delay: float = 0.0) -> None:
        self.answer = answer
        self.delay = delay

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Wait and answer."""
        await asyncio.sleep(self.delay)
        return self.answer(request)


def answering(status: int, content: bytes) -> Answer:
    """The same status and body for every request."""
    return lambda request: httpx.Response(status, content=content)


def raising(error: Exception) -> Answer:
    """The same exception for every request, as a transport raises it."""

    def answer(request: httpx.Request) -> httpx.Response:
        raise error

    return answer


GOOD = {"query": [1.0, 0.0, 0.0, 0.0], "using": "dense", "limit": 3}


def qdrant(transport: httpx.AsyncBaseTransport, **options: Any) -> QdrantClient:
    """A client over this transport."""
    return ServerClient(Endpoint("qdrant", "http://qdrant", transport), **options)


def points(count: int) -> list[dict[str, Any]]:
    """Points 0 to `count` - 1, the lower the nearer to GOOD, with one payload field each."""
    return [
        {
            "id": number,
            "vector": {"dense": [1.0, number / 10, 0.0, 0.0]},
            "payload": {"n": number, "parity": number % 2},
        }
        for number in range(count)
    ]
