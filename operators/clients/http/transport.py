"""The one seam to every HTTP backend: JSON out, JSON in, or a typed error.

A backend is an `Endpoint` over an `httpx.AsyncBaseTransport`. In production that is aiohttp behind httpx's types; the
embedded Qdrant engine is one too; a test passes one that misbehaves. No `AsyncClient`: on this path it costs more than
the request itself.

What an endpoint promises of every call:
- it ends within its time-out, counted over connecting, sending and reading the whole body;
- a refused connection, a broken one, a closed transport, 429 and 5xx are BackendUnavailable; 408, which is how a server
  says that it ran out of its time, is BackendTimeout; any other status but 2xx, an answer that isn't HTTP, an encoded
  or over-long body, a body that isn't JSON (NaN included) and a request that can't be written as JSON are
  BackendBadResponse; nothing else is raised;
- messages name the backend and the symptom: no URL, header, request or response text, so that none can leak, and no
  library's error is chained to them, for those hold all of these.
"""

import asyncio
import functools
import ssl
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

import aiohttp
import httpx
import orjson
from httpx_aiohttp import AiohttpTransport

from schemas.errors import BackendBadResponse, BackendError, BackendTimeout, BackendUnavailable, ConfigError

MIB = 1024 * 1024

T = TypeVar("T")


# Parsing a URL costs as much as writing a small request.
_url = functools.lru_cache(maxsize=256)(httpx.URL)


class _Answer(aiohttp.ClientResponse):
    """An answer without its reason phrase: httpx-aiohttp fails on one that isn't UTF-8 and leaks the connection."""

    async def start(self, connection: aiohttp.connector.Connection) -> aiohttp.ClientResponse:
        await super().start(connection)
        self.reason = None
        return self


class _HttpTransport(AiohttpTransport):
    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        if len(request.content) > MIB:
            # aiohttp warns of large bodies given as bytes.
            body = httpx.ByteStream(request.content)
            request = httpx.Request(request.method, request.url, headers=request.headers, stream=body)
        if self._closed():
            raise httpx.ConnectError("the transport is closed")
        try:
            return await super().handle_async_request(request)
        except asyncio.CancelledError:
            # A closing pool cancels those that wait for a connection; their tasks were not cancelled.
            task = asyncio.current_task()
            if self._closed() and task is not None and not task.cancelling():
                raise httpx.ConnectError("the transport was closed") from None
            raise

    def _closed(self) -> bool:
        return isinstance(self.client, aiohttp.ClientSession) and self.client.closed


def http_transport(*, max_connections: int = 64, verify: ssl.SSLContext | bool = True) -> httpx.AsyncBaseTransport:
    """A pooled transport to servers, opened at its first request on the loop that makes it.

    `max_connections` of 0: no bound.
    """

    def session() -> aiohttp.ClientSession:
        connector = aiohttp.TCPConnector(limit=max_connections, ssl=verify)
        jar = aiohttp.DummyCookieJar()
        return aiohttp.ClientSession(connector=connector, cookie_jar=jar, response_class=_Answer)

    # `verify` here would build a second TLS context, in 80 ms, for connections that this transport never opens itself.
    return _HttpTransport(client=session, verify=False)


@dataclass(frozen=True, slots=True)
class Endpoint:
    """One backend: where it is, what every request to it carries, and how much it may answer.

    Raises ConfigError for a URL or a header that no request could carry.
    """

    name: str
    base_url: str
    transport: httpx.AsyncBaseTransport
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    max_body: int = 8 * MIB

    def __post_init__(self) -> None:
        if not _is_base_url(self.base_url):
            raise ConfigError(f"{self.name}: the URL must be http(s)://host[:port][/path] and carry no secret")
        for header, value in self.headers.items():
            if not (value.isascii() and value.isprintable()):
                raise ConfigError(f"{self.name}: the header {header} may hold printable ASCII only")

    @property
    def endpoint(self) -> "Endpoint":
        """Itself: there is no layer above."""
        return self

    async def ask(
        self, path: str, body: object, read: Callable[[Any], T], *, timeout: float, method: str = "POST"
    ) -> T:
        """Call once and return what `read` makes of the parsed answer. Raises what both raise."""
        return read(await self.call(method, path, body, timeout=timeout))

    async def call(self, method: str, path: str, body: object = None, *, timeout: float) -> Any:
        """Send `body` as JSON and return the parsed answer, all within `timeout` seconds.

        Raises BackendTimeout, BackendUnavailable or BackendBadResponse (with the status, where there was one).
        """
        content = await self.fetch(method, path, body, timeout=timeout)
        try:
            return orjson.loads(content)
        except orjson.JSONDecodeError as error:
            symptom = error.msg
        raise BackendBadResponse(f"{self.name}: the body is not JSON: {symptom}")

    async def fetch(self, method: str, path: str, body: object = None, *, timeout: float) -> bytes:
        """Like `call`, for answers that aren't JSON: the body's bytes."""
        request = self._request(method, path, body)
        try:
            async with asyncio.timeout(timeout):
                response = await self.transport.handle_async_request(request)
                try:
                    return await self._read(response)
                finally:
                    await response.aclose()
        except (httpx.TransportError, aiohttp.ClientError, OSError) as error:
            failure = self._failure(error)
        # Raised out here, where nothing is chained to it.
        raise failure

    async def aclose(self) -> None:
        """Close the transport's connections; calls under way and later ones are BackendUnavailable."""
        await self.transport.aclose()

    def _request(self, method: str, path: str, body: object) -> httpx.Request:
        headers = {"accept": "application/json", "accept-encoding": "identity", **self.headers}
        content = b""
        if body is not None:
            content = self._json(body)
            headers["content-type"] = "application/json"
        return httpx.Request(method, _url(self.base_url.rstrip("/") + path), headers=headers, content=content)

    def _json(self, body: object) -> bytes:
        try:
            return orjson.dumps(body, option=orjson.OPT_SERIALIZE_NUMPY)
        except orjson.JSONEncodeError:
            pass
        raise BackendBadResponse(f"{self.name}: the request can't be written as JSON")

    def _failure(self, error: Exception) -> BackendError:
        # httpx-aiohttp maps a connection that closed to ConnectTimeout: the cause tells.
        broke = isinstance(error.__cause__, aiohttp.ClientConnectionError)
        if isinstance(error, TimeoutError | httpx.TimeoutException) and not broke:
            return BackendTimeout(f"{self.name}: no answer in time")
        if isinstance(error, aiohttp.ClientResponseError):
            return BackendBadResponse(f"{self.name}: not an HTTP answer")
        symptom = "the connection broke" if broke else type(error).__name__
        return BackendUnavailable(f"{self.name}: {symptom}")

    async def _read(self, response: httpx.Response) -> bytes:
        status = response.status_code
        if status == httpx.codes.REQUEST_TIMEOUT:
            raise BackendTimeout(f"{self.name}: status {status}", status)
        if status == httpx.codes.TOO_MANY_REQUESTS or status >= httpx.codes.INTERNAL_SERVER_ERROR:
            raise BackendUnavailable(f"{self.name}: status {status}", status)
        if not httpx.codes.is_success(status):
            raise BackendBadResponse(f"{self.name}: status {status}", status)
        if response.headers.get("content-encoding", "identity").lower() != "identity":
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


def _is_base_url(text: str) -> bool:
    try:
        url = httpx.URL(text)
    except httpx.InvalidURL:
        return False
    return url.scheme in {"http", "https"} and bool(url.host) and not (url.userinfo or url.query or url.fragment)
