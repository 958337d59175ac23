"""The one seam to every HTTP backend: JSON out, JSON in, or a typed error.

A backend is an `Endpoint` over an `httpx.AsyncBaseTransport`. In production that is aiohttp behind httpx's types; the
embedded Qdrant engine is one too; a test passes one that misbehaves. No `AsyncClient`: on this path it costs more than
the request itself.

What an endpoint promises of every call:
- it ends within its time-out, counted over connecting, sending and reading the whole body;
- a refused connection, a broken one, 429 and 5xx are BackendUnavailable; any other status but 2xx, an encoded or
  over-long body and a body that isn't JSON (NaN included) are BackendBadResponse; nothing else is raised;
- messages name the backend and the symptom: no URL, header, request or response text, so that none can leak.
"""

import asyncio
import ssl
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import aiohttp
import httpx
import orjson
from httpx_aiohttp import AiohttpTransport

from schemas.errors import BackendBadResponse, BackendTimeout, BackendUnavailable

MIB = 1024 * 1024


def http_transport(*, max_connections: int = 64, verify: ssl.SSLContext | bool = True) -> httpx.AsyncBaseTransport:
    """A pooled transport to servers, opened at its first request on the loop that makes it."""

    def session() -> aiohttp.ClientSession:
        connector = aiohttp.TCPConnector(limit=max_connections, ssl=verify)
        return aiohttp.ClientSession(connector=connector, cookie_jar=aiohttp.DummyCookieJar())

    return AiohttpTransport(client=session)


@dataclass(frozen=True, slots=True)
class Endpoint:
    """One backend: where it is, what every request to it carries, and how much it may answer."""

    name: str
    base_url: str
    transport: httpx.AsyncBaseTransport
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    max_body: int = 8 * MIB

    async def call(self, method: str, path: str, body: object = None, *, timeout: float) -> Any:
        """Send `body` as JSON and return the parsed answer, all within `timeout` seconds.

        Raises BackendTimeout, BackendUnavailable or BackendBadResponse (with the status, where there was one).
        """
        content = await self.fetch(method, path, body, timeout=timeout)
        try:
            return orjson.loads(content)
        except orjson.JSONDecodeError as error:
            raise BackendBadResponse(f"{self.name}: the body is not JSON: {error.msg}") from error

    async def fetch(self, method: str, path: str, body: object = None, *, timeout: float) -> bytes:
        """Like `call`, for answers that aren't JSON: the body's bytes."""
        request = self._request(method, path, body)
        try:
            async with asyncio.timeout(timeout):
                response = await self.transport.handle_async_request(request)
                try:
                    content = await self._read(response)
                finally:
                    await response.aclose()
        except (TimeoutError, httpx.TimeoutException) as error:
            # aiohttp reports a closed connection in a class that httpx-aiohttp maps to ConnectTimeout.
            if isinstance(error.__cause__, aiohttp.ClientConnectionError):
                raise BackendUnavailable(f"{self.name}: the connection broke") from error
            raise BackendTimeout(f"{self.name}: no answer in time") from error
        except (httpx.TransportError, aiohttp.ClientConnectionError, OSError) as error:
            raise BackendUnavailable(f"{self.name}: {type(error).__name__}") from error
        except aiohttp.ClientError as error:
            raise BackendBadResponse(f"{self.name}: not an HTTP answer: {type(error).__name__}") from error
        return content

    async def aclose(self) -> None:
        """Close the transport's connections."""
        await self.transport.aclose()

    def _request(self, method: str, path: str, body: object) -> httpx.Request:
        headers = {"accept": "application/json", "accept-encoding": "identity", **self.headers}
        content = b""
        if body is not None:
            content = orjson.dumps(body, option=orjson.OPT_SERIALIZE_NUMPY)
            headers["content-type"] = "application/json"
        return httpx.Request(method, self.base_url.rstrip("/") + path, headers=headers, content=content)

    async def _read(self, response: httpx.Response) -> bytes:
        status = response.status_code
        if status == httpx.codes.TOO_MANY_REQUESTS or status >= httpx.codes.INTERNAL_SERVER_ERROR:
            raise BackendUnavailable(f"{self.name}: status {status}")
        if not httpx.codes.is_success(status):
            raise BackendBadResponse(f"{self.name}: status {status}", status)
        if response.headers.get("content-encoding", "identity") != "identity":
            raise BackendBadResponse(f"{self.name}: an encoded body was not asked for")
        chunks = []
        size = 0
        assert isinstance(response.stream, httpx.AsyncByteStream)
        async for chunk in response.stream:
            size += len(chunk)
            if size > self.max_body:
                raise BackendBadResponse(f"{self.name}: the body is over {self.max_body} bytes")
            chunks.append(chunk)
        return b"".join(chunks)
