"""The one seam to every HTTP backend: JSON out, JSON in, or a typed error.

A backend is an `Endpoint` over an `httpx.AsyncBaseTransport`. In production that is a pool of connections
(`operators.clients.http.pool`); a test passes one that misbehaves. No `AsyncClient`: on this path it costs more than
the request itself.

Promises of every call:
- it ends within its time-out, counted over connecting, sending and reading the whole body;
- a call that is `repeatable`, and met a broken connection which had carried other requests, is sent once more at once,
  on a connection of its own: the server may have closed the idle first one; a new one that breaks is a failure;
- a refused connection, a broken one, a closed transport, 429 and 5xx are BackendUnavailable; 408, which is how a server
  says that it ran out of its time, is BackendTimeout; any other status but 2xx, an answer that isn't HTTP, an encoded
  or over-long body, a body that isn't JSON (NaN included) and a request that can't be written as JSON are
  BackendBadResponse; a `dialect` may know better what a status means, and which one an answer of 200 stands for;
  nothing else is raised;
- messages name the backend and the symptom; without an answer also the address and the cause, such as an untrusted
  certificate. They hold no header, no path, and no text of a request or answer apart from the `dialect`'s quotations,
  without the values of headers. No library's error is chained to them, for those hold all of these.
"""

import asyncio
import contextlib
import errno
import ipaddress
import os
import re
import socket
import ssl
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC
from email.utils import parsedate_to_datetime
from importlib.metadata import version
from typing import Any, Final, Generic, NamedTuple, TypeVar

# The one of the environment, which typeshed does not know: `proxy_bypass` asks the system where it is no Linux.
from urllib.request import getproxies_environment, proxy_bypass_environment  # type: ignore[attr-defined]

import httpx
import orjson
from opentelemetry import propagate
from opentelemetry.context import Context
from opentelemetry.trace import get_current_span, set_span_in_context

from operators.clients.http.connection import NotHttp, SilentEnd
from operators.clients.http.dialect import PLAIN, Dialect
from operators.clients.http.pool import MET, OWN_CONNECTION, Met, PooledTransport
from schemas.errors import (
    AnswerTooLong,
    BackendBadResponse,
    BackendError,
    BackendTimeout,
    BackendUnavailable,
    ConfigError,
)

MIB = 1024 * 1024

T = TypeVar("T")

_SHORTEST_KEY: Final = 6
"""Characters of a key, at least."""

_USER_AGENT: Final = f"rankstream/{version('rankstream')}"

_KINDS = 256
"""Kinds of requests whose URL and headers are cached: to make them costs more than to write a small request."""

_REFUSAL: Final = 0.5
"""Most seconds for the body of an answer without success; half of what is left, if that is less."""

_TRANSPORT_ERRORS = (httpx.TransportError, OSError)


def http_transport(
    *,
    max_connections: int = 64,
    keep_alive: float = 3.0,
    verify: ssl.SSLContext | bool = True,
    proxy: str | None = None,
) -> httpx.AsyncBaseTransport:
    """A pooled transport to servers, opened at its first request on the loop that makes it, or one through `proxy`.

    `max_connections` of 0: no bound. A connection that was idle for `keep_alive` seconds isn't used again.
    """
    if proxy is None:
        return PooledTransport(max_connections=max_connections, keep_alive=keep_alive, verify=verify)
    if verify is True:
        # The same authorities as without a proxy: the system's.
        verify = ssl.create_default_context()
    limits = httpx.Limits(max_connections=max_connections or None, keepalive_expiry=keep_alive)
    return _Proxied(verify=verify, limits=limits, proxy=proxy)


class _Proxied(httpx.AsyncHTTPTransport):
    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        # The pool frames its requests itself; h11 wants it said.
        request.headers["content-length"] = str(len(request.content))
        return await super().handle_async_request(request)


def proxy_for(url: str) -> str | None:
    """The proxy that the environment names for a URL, by HTTP_PROXY, HTTPS_PROXY, ALL_PROXY and NO_PROXY.

    A server of this machine, or one whose name has no dot, is called without one. NO_PROXY may name networks, such as
    10.0.0.0/8; an entry with a slash that is none names no server. Raises ConfigError for a proxy that is not HTTP's.
    """
    address = httpx.URL(url)
    proxies = getproxies_environment()
    proxy = proxies.get(address.scheme) or proxies.get("all")
    near = _is_near(address.host, proxies.get("no", ""))
    if not proxy or near or proxy_bypass_environment(address.netloc.decode("ascii"), proxies):
        return None
    proxy = proxy if "://" in proxy else f"http://{proxy}"
    if not proxy.startswith(("http://", "https://")):
        raise ConfigError(f"the proxy for {address.scheme} in the environment must be http(s)://host:port")
    return proxy


def _is_near(host: str, no_proxy: str) -> bool:
    try:
        own = ipaddress.ip_address(host)
    except ValueError:
        return "." not in host
    for each in no_proxy.split(","):
        with contextlib.suppress(ValueError):
            if "/" in each and own in ipaddress.ip_network(each.strip(), strict=False):
                return True
    return own.is_loopback


CONTROL: Final = "water"
"""A text that every model reads."""


class Call(NamedTuple, Generic[T]):
    """A request, of which each try is the same: its path, its body, and the reading of the parsed answer.

    `read` raises BackendError for an answer that breaks the protocol. `repeatable`: the request only reads, so it may
    be sent again on a new connection when an old one breaks. `control` is a small request that a backend in order
    answers: it tells a request that the backend cannot digest from a backend that fails.
    """

    path: str
    body: object
    read: Callable[[Any], T]
    method: str = "POST"
    repeatable: bool = False
    control: "Call[Any] | None" = None


@dataclass(frozen=True, slots=True)
class Endpoint:
    """One backend. Raises ConfigError for a URL or a header that no request could carry.

    `path` stands for the path of every request, `query` is the URL's query, and `body` is a JSON merge patch of every
    request's body; `max_body` bounds an answer's, in bytes.
    """

    name: str
    base_url: str
    transport: httpx.AsyncBaseTransport
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    max_body: int = 8 * MIB
    dialect: Dialect = PLAIN
    path: str | None = None
    query: Mapping[str, str] = field(default_factory=dict, repr=False)
    body: Mapping[str, Any] = field(default_factory=dict)
    _kinds: dict[tuple[str, str, bool], tuple[httpx.URL, httpx.Headers]] = field(
        default_factory=dict, init=False, repr=False, compare=False
    )

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

    @property
    def address(self) -> str:
        """Scheme, host and port, for operators."""
        url = httpx.URL(self.base_url)
        return f"{url.scheme}://{url.netloc.decode('ascii')}"

    async def ask(self, call: Call[T], *, timeout: float) -> T:
        """Make the call once, and return what `read` makes of the parsed answer. Raises BackendError."""
        request = call.method, call.path, call.body
        return call.read(await self.call(*request, timeout=timeout, repeatable=call.repeatable))

    async def call(self, method: str, path: str, body: Any = None, *, timeout: float, repeatable: bool = False) -> Any:
        """Send `body` as JSON and return the parsed answer, all within `timeout` seconds. Raises BackendError."""
        content = await self._fetch(self._request(method, path, body), timeout, repeatable)
        try:
            answer = orjson.loads(content)
        except orjson.JSONDecodeError as error:
            symptom = error.msg
        else:
            status = self.dialect.failure(answer)
            if status is None:
                return answer
            raise self.dialect.error(self.name, status, self._mask(content))
        raise BackendBadResponse(f"{self.name}: the body is not JSON: {symptom}")

    async def _fetch(self, request: httpx.Request, timeout: float, repeatable: bool) -> bytes:
        until = time.monotonic() + timeout
        try:
            async with asyncio.timeout(timeout):
                try:
                    return await self._answer(request, until)
                except _TRANSPORT_ERRORS as error:
                    stale = request.extensions.get(MET) is Met.REUSED_CONNECTION
                    if not (stale and repeatable and type(self._failure(error, request)) is BackendUnavailable):
                        raise
                # Other pooled connections may be as old.
                request.extensions[OWN_CONNECTION] = True
                return await self._answer(request, until)
        except _TRANSPORT_ERRORS as error:
            failure = self._failure(error, request)
        # Raised out here, where nothing is chained to it.
        raise failure

    async def aclose(self) -> None:
        """Close the transport's connections; calls under way and later ones are BackendUnavailable."""
        await self.transport.aclose()

    def _request(self, method: str, path: str, body: object) -> httpx.Request:
        kind = method, path, body is not None
        if (known := self._kinds.get(kind)) is None:
            url = httpx.URL(self.base_url.rstrip("/") + (self.path or path))
            if self.query:
                url = url.copy_merge_params(self.query)
            host, typed = url.netloc.decode("ascii"), {} if body is None else {"content-type": "application/json"}
            accepted = {"accept": "application/json", "accept-encoding": "identity"}
            known = url, httpx.Headers({"host": host, "user-agent": _USER_AGENT, **accepted, **self.headers, **typed})
            if len(self._kinds) < _KINDS:
                self._kinds[kind] = known
        content = b"" if body is None else self.encode(body)
        own = known[1]
        if get_current_span().is_recording():
            carrier: dict[str, str] = {}
            # The span alone: baggage is a producer's, and no backend's.
            propagate.inject(carrier, set_span_in_context(get_current_span(), Context()))
            own = httpx.Headers([*own.items(), *carrier.items()])
        # A request that is given as a stream gets no headers but these, at a tenth of the cost.
        request = httpx.Request(method, known[0], headers=own, stream=httpx.ByteStream(content))
        request.read()
        return request

    def encode(self, body: object) -> bytes:
        """A body as JSON, arrays included, with the endpoint's patch. Raises BackendBadResponse."""
        if self.body and isinstance(body, dict):
            body = _patch(body, self.body)
        try:
            return orjson.dumps(body, option=orjson.OPT_SERIALIZE_NUMPY)
        except orjson.JSONEncodeError:
            pass
        raise BackendBadResponse(f"{self.name}: the request can't be written as JSON")

    def _failure(self, error: Exception, request: httpx.Request) -> BackendError:
        who = f"{self.name} at {self.address}"
        came = request.extensions.get(MET, Met.NO_POOL)
        if isinstance(error, TimeoutError | httpx.TimeoutException):
            return BackendTimeout(f"{who}: no {'connection' if came is Met.NO_CONNECTION else 'answer'} in time")
        if isinstance(error, NotHttp):
            spoken = ": http spoken to a TLS port" if error.alert else ""
            return BackendBadResponse(f"{who}: not an HTTP answer{spoken}")
        cause = cause_of(error)
        if cause == SILENT_END and came is Met.NEW_CONNECTION and self.base_url.startswith("http:"):
            cause += ", as a port of TLS or of another protocol ends one that speaks http"
        return BackendUnavailable(f"{who}: {cause}")

    async def _answer(self, request: httpx.Request, until: float) -> bytes:
        response = await self.transport.handle_async_request(request)
        stream = response.stream
        assert isinstance(stream, httpx.AsyncByteStream)
        try:
            if not httpx.codes.is_success(response.status_code):
                text = await self._read_refusal(stream, min(_REFUSAL, (until - time.monotonic()) / 2))
                error = self.dialect.error(self.name, response.status_code, text)
                raise error.but(retry_after=_retry_after(response.headers))
            return await self._read_body(response.headers, stream)
        finally:
            await stream.aclose()

    async def _read_refusal(self, stream: httpx.AsyncByteStream, timeout: float) -> bytes:
        """Read of an error's body what the dialect needs and comes in time, and mask the values of headers."""
        text = b""
        if self.dialect.read:
            # The status is an answer by itself.
            with contextlib.suppress(*_TRANSPORT_ERRORS):
                async with asyncio.timeout(timeout):
                    async for chunk in stream:
                        text += chunk
                        if len(text) >= self.dialect.read:
                            break
        return self._mask(text)

    def _mask(self, text: bytes) -> bytes:
        """Cut a body to what the dialect reads, and mask the values of headers and of the URL's query."""
        words = (word for value in (*self.headers.values(), *self.query.values()) for word in value.split())
        # Words that may be keys; shorter ones stand in any text.
        for secret in (word.encode() for word in words if len(word) >= _SHORTEST_KEY):
            text = text.replace(secret, b"***")
        return text[: self.dialect.read]

    async def _read_body(self, headers: httpx.Headers, stream: httpx.AsyncByteStream) -> bytes:
        # As they are on the wire: to decode them costs more.
        encodings = {value.lower() for name, value in headers.raw if name.lower() == b"content-encoding"}
        if encodings - {b"identity", b""}:
            raise BackendBadResponse(f"{self.name}: an encoded body was not asked for")
        chunks = []
        size = 0
        async for chunk in stream:
            size += len(chunk)
            if size > self.max_body:
                raise AnswerTooLong(f"{self.name}: the body is over {self.max_body} bytes")
            chunks.append(chunk)
        return b"".join(chunks)


def _patch(target: object, patch: object) -> object:
    """The target after a JSON merge patch (RFC 7396): null removes a member, objects are patched, all else replaces."""
    if not isinstance(patch, Mapping):
        return patch
    patched = dict(target) if isinstance(target, dict) else {}
    for name, value in patch.items():
        if value is None:
            patched.pop(name, None)
        else:
            patched[name] = _patch(patched.get(name), value)
    return patched


_NUMBER: Final = re.compile(r"\s*(\d+(?:\.\d*)?|\.\d+)\s*(?:,|$)", re.ASCII)
"""A decimal number, the first where a proxy has repeated the header."""

_MOST_SECONDS: Final = 1e9


def _retry_after(headers: httpx.Headers) -> float:
    """The seconds of a header `Retry-After`, a number of seconds or a date, or of `retry-after-ms`; 0 without both."""
    value = headers.get("retry-after", "")
    if number := _NUMBER.match(value):
        return min(float(number[1]), _MOST_SECONDS)
    if (until := read_http_date(value)) is not None:
        return max(0.0, until - time.time())
    number = _NUMBER.match(headers.get("retry-after-ms", ""))
    return min(float(number[1]) / 1000, _MOST_SECONDS) if number else 0.0


def read_http_date(text: str) -> float | None:
    """The Unix seconds of a date as HTTP writes it, in GMT if it names no zone; None if it can't be read."""
    try:
        moment = parsedate_to_datetime(text)
    except (ValueError, OverflowError):
        return None
    return (moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)).timestamp()


def _is_base_url(text: str) -> bool:
    try:
        url = httpx.URL(text)
    except httpx.InvalidURL:
        return False
    return url.scheme in {"http", "https"} and bool(url.host) and not (url.userinfo or url.query or url.fragment)


SILENT_END: Final = "the connection broke without an answer"

_NOT_TLS: Final = frozenset({"WRONG_VERSION_NUMBER", "RECORD_LAYER_FAILURE", "UNEXPECTED_EOF_WHILE_READING"})


def cause_of(error: Exception) -> str:
    """The cause of an httpx.TransportError or OSError in words for operators, without what the error quotes."""
    cause = error.__cause__ or error
    if isinstance(error, httpx.ProxyError):
        return "the proxy refused the connection"
    if isinstance(cause, socket.gaierror):
        return "name not found"
    if isinstance(cause, ssl.SSLCertVerificationError):
        return f"certificate not trusted: {cause.verify_message}"
    if isinstance(cause, SilentEnd):
        return SILENT_END
    if isinstance(cause, httpx.ReadError | httpx.WriteError | httpx.RemoteProtocolError):
        return "the connection broke"
    if isinstance(cause, ssl.SSLError):
        reason = cause.reason or type(cause).__name__
        meant = ": https spoken to a plain port" if reason in _NOT_TLS else ""
        return f"no TLS connection ({reason}){meant}"
    if isinstance(cause, ConnectionError) and cause.errno is None:
        # Only a handshake ends so: a connection that is made or refused has a number.
        return "the connection broke in the TLS handshake: https spoken to a plain port?"
    if isinstance(cause, OSError) and cause.errno:
        return "connection refused" if cause.errno == errno.ECONNREFUSED else os.strerror(cause.errno).lower()
    return "no connection"
