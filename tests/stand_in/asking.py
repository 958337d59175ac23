"""Requests to a stand-in server in this process."""

import asyncio
from collections.abc import Mapping
from typing import Any

import httpx
import orjson

from tests.qdrant_server.transport import ServerTransport


class Server:
    """One stand-in, asked at its transport."""

    def __init__(self, transport: ServerTransport) -> None:
        self._transport = transport

    def answer(
        self, method: str, path: str, body: object = None, headers: Mapping[str, str] | None = None
    ) -> httpx.Response:
        """The whole answer."""
        content = b"" if body is None else orjson.dumps(body)
        request = httpx.Request(method, f"http://qdrant{path}", content=content, headers=headers)
        return asyncio.run(self._transport.handle_async_request(request))

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
