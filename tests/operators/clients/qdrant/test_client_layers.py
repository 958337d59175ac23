"""The client of a Qdrant server has the layers of every other backend: retries, a budget and a breaker."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import pytest
from aiohttp import web

from flows.assembly.clients import InProcess, make_qdrant_client
from operators.clients.admission import OPENS_AFTER
from operators.clients.qdrant.client import QdrantClient
from operators.query.backend_answers import Hits
from schemas.errors import BackendBadResponse, BackendUnavailable
from schemas.settings import load
from tests.operators.clients.http.serving import answering, json_response
from tests.operators.clients.qdrant.transports import GOOD, points
from tests.operators.samples import METRICS

FOUND = {"result": [{"points": [{"id": 1, "score": 0.5, "payload": {}}]}]}
BREAK = -1


class Server:
    """Answers as it is told, one status a request, the last one for ever; BREAK drops the connection."""

    def __init__(self, *statuses: int, result: Mapping[str, Any] = FOUND, said: str = "said") -> None:
        self._statuses = list(statuses)
        self._result = result
        self._error = {"status": {"error": said}}
        self.paths: list[str] = []

    async def __call__(self, request: web.Request) -> web.StreamResponse:
        """Answer."""
        await request.read()
        self.paths.append(request.path)
        status = self._statuses.pop(0) if len(self._statuses) > 1 else self._statuses[0]
        if status == BREAK:
            assert request.transport is not None
            request.transport.abort()
            return web.Response()
        return json_response(self._result if status == 200 else self._error, status)


def with_client(server: Server, scenario: Callable[[QdrantClient], Awaitable[None]]) -> None:
    """Run the scenario with a client as the settings make it for a server."""

    async def run() -> None:
        async with answering(server) as url:
            settings = load(None, {"qdrant": {"url": url}})
            client = make_qdrant_client(settings, InProcess(settings), METRICS)
            try:
                await scenario(client)
            finally:
                await client.aclose()

    asyncio.run(run())


@pytest.mark.parametrize("status", [BREAK, 429, 502, 503, 504])
def test_a_search_survives_a_short_outage(status: int) -> None:
    """A broken connection and an overload are tried again: the searches have their hits."""
    server = Server(status, 200)

    async def scenario(client: QdrantClient) -> None:
        (answer,) = await client.query_batch("docs", [GOOD], timeout=10)
        assert isinstance(answer, Hits)
        assert answer.ids == ["1"]

    with_client(server, scenario)
    assert len(server.paths) == 2


def test_a_write_survives_a_short_outage() -> None:
    """An upsert whose connection broke is sent again: its condition on the version makes it the same."""
    server = Server(BREAK, 200, result={"result": {"operation_id": 1, "status": "completed"}})

    async def scenario(client: QdrantClient) -> None:
        await client.upsert("docs", points(2), timeout=10)

    with_client(server, scenario)
    assert len(server.paths) == 2


def test_a_server_that_is_down_is_left_alone() -> None:
    """After failures in a row nothing is sent; every search has its error at once. The probe still sees the server."""
    server = Server(500)

    async def scenario(client: QdrantClient) -> None:
        for _ in range(OPENS_AFTER):
            (answer,) = await client.query_batch("docs", [GOOD], timeout=10)
            assert isinstance(answer, BackendUnavailable)
        asked = len(server.paths)
        answers = await client.query_batch("docs", [GOOD, GOOD], timeout=10)
        assert [type(each) for each in answers] == [BackendUnavailable] * 2
        assert len(server.paths) == asked
        with pytest.raises(BackendUnavailable, match="status 500"):
            await client.without_retries().exists("docs", timeout=10)

    with_client(server, scenario)
    assert server.paths[-1].startswith("/collections/docs/exists")


@pytest.mark.parametrize("status", [400, 401, 403, 404, 409, 413, 422])
def test_a_refusal_says_nothing_against_the_server(status: int) -> None:
    """A refused key, a missing collection, one that is there already, and a wrong request leave the breaker closed."""
    server = Server(*[status] * (3 * OPENS_AFTER), 200)

    async def scenario(client: QdrantClient) -> None:
        for _ in range(3 * OPENS_AFTER):
            (answer,) = await client.query_batch("docs", [GOOD], timeout=10)
            assert isinstance(answer, BackendBadResponse)
        (answer,) = await client.query_batch("docs", [GOOD], timeout=10)
        assert isinstance(answer, Hits)

    with_client(server, scenario)
    assert len(server.paths) == 3 * OPENS_AFTER + 1


def test_garbage_opens_the_breaker() -> None:
    """An answer that breaks the protocol is not asked for again, and counts as a failure."""
    server = Server(200, result={"result": "garbage"})

    async def scenario(client: QdrantClient) -> None:
        for _ in range(OPENS_AFTER):
            (answer,) = await client.query_batch("docs", [GOOD], timeout=10)
            assert isinstance(answer, BackendBadResponse)
        (answer,) = await client.query_batch("docs", [GOOD], timeout=10)
        assert isinstance(answer, BackendUnavailable)

    with_client(server, scenario)
    assert len(server.paths) == OPENS_AFTER
