"""Requests to the embedded engine in tests, straight at its transport."""

import asyncio
from collections.abc import Callable
from typing import Any

import httpx
import orjson

from operators.clients.qdrant_edge.shards import Engine
from tests.qdrant_server.transport import ServerTransport

CREATED = {
    "vectors": {
        "dense": {"size": 2, "distance": "Dot"},
        "tokens": {"size": 2, "distance": "Dot", "multivector_config": {"comparator": "max_sim"}},
    },
    "sparse_vectors": {"bm25": {"modifier": "idf"}},
}
UUID = "e1407479-3136-56c0-9908-bb02fb0339e2"


async def ask(
    engine: Engine,
    method: str,
    path: str,
    body: object = None,
    transport: Callable[[Engine], httpx.AsyncBaseTransport] = ServerTransport,
) -> tuple[int, Any]:
    """The status and the parsed answer to one request, by default of the stand-in, which knows more routes."""
    content = b"" if body is None else orjson.dumps(body)
    request = httpx.Request(method, f"http://engine{path}", content=content)
    response = await transport(engine).handle_async_request(request)
    return response.status_code, orjson.loads(response.content)


def done(engine: Engine, method: str, path: str, body: object = None) -> Any:
    """The result of a request that must succeed."""
    status, answer = asyncio.run(ask(engine, method, path, body))
    assert status == 200, answer
    return answer["result"]


def refusal(engine: Engine, method: str, path: str, body: object = None) -> tuple[int, str]:
    """The status and the words of a request that must be refused."""
    status, answer = asyncio.run(ask(engine, method, path, body))
    assert status >= 400
    return status, answer["status"]["error"]
