"""Requests to a server."""

import asyncio
from collections.abc import Callable, Mapping
from typing import Any

import httpx
import orjson

from tests.qdrant_server.transport import ServerTransport

Send = Callable[[httpx.Request], httpx.Response]


def in_process(transport: ServerTransport) -> Send:
    """Ask a stand-in at its transport."""
    return lambda request: asyncio.run(transport.handle_async_request(request))


class Server:
    """One server, asked as `send` does it."""

    def __init__(self, send: Send) -> None:
        self._send = send

    def answer(
        self, method: str, path: str, body: object = None, headers: Mapping[str, str] | None = None
    ) -> httpx.Response:
        """The whole answer."""
        content = b"" if body is None else orjson.dumps(body)
        request = httpx.Request(method, f"http://qdrant{path}", content=content, headers=headers)
        return self._send(request)

    def done(self, method: str, path: str, body: object = None) -> Any:
        """The result of a request that must succeed."""
        response = self.answer(method, path, body)
        assert response.status_code == 200, response.text
        return response.json()["result"]

    def refused(self, method: str, path: str, body: object = None) -> str:
        """The words in which a request is refused with 400."""
        response = self.answer(method, path, body)
        assert response.status_code == 400, response.text
        words: str = response.json()["status"]["error"]
        return words
