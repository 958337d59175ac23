"""The HTTP seam: every fault of a real server is one of three errors, in time, and says nothing it shouldn't."""

import asyncio
import contextlib
import gzip
import shutil
import socket
import ssl
import subprocess
import time
import traceback
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import httpx
import orjson
import pytest
from aiohttp import web
from hypothesis import given, settings
from hypothesis import strategies as st

from operators.clients.transport import MIB, Endpoint, http_transport
from schemas.errors import BackendBadResponse, BackendError, BackendTimeout, BackendUnavailable, ConfigError
from tests.operators.clients.serving import Handler, Serve, answering, backend, json_response, speaking

KEY = "sk-do-not-tell"
TEXT = "the query"
HEADERS = {"authorization": f"Bearer {KEY}"}
OK = b"HTTP/1.1 200 OK\r\n"


async def call(endpoint: Endpoint, *, body: object = None, timeout: float = 5.0) -> Any:
    """Post `body`, or a small one, to /path."""
    return await endpoint.call("POST", "/path", {"query": TEXT} if body is None else body, timeout=timeout)


def fail(scenario: Callable[[], Coroutine[Any, Any, None]]) -> BackendError:
    """The error of a call that must fail with one of the tree's."""
    with pytest.raises(BackendError) as caught:
        asyncio.run(scenario())
    return caught.value


def failure_of(handler: Handler, *, timeout: float = 5.0, max_body: int = 8 * MIB) -> BackendError:
    """The error of one call to an HTTP server of `handler`."""

    async def scenario() -> None:
        async with answering(handler) as url, backend(url, headers=HEADERS, max_body=max_body) as endpoint:
            await call(endpoint, timeout=timeout)

    return fail(scenario)


def raw_failure_of(serve: Serve, *, timeout: float = 5.0, body: object = None) -> BackendError:
    """The error of one call to a TCP server of `serve`."""

    async def scenario() -> None:
        async with speaking(serve) as url, backend(url, headers=HEADERS) as endpoint:
            await call(endpoint, timeout=timeout, body=body)

    return fail(scenario)


def sending(data: bytes, *, then_hang: bool = False) -> Serve:
    """A TCP server that reads a request, sends `data` and closes, or stays."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(data)
        await writer.drain()
        if then_hang:
            await asyncio.Event().wait()

    return serve


def test_call_sends_json_and_returns_parsed_json() -> None:
    """A call carries method, path, JSON body and headers, asks for no encoding, and returns what the server wrote."""

    async def echo(request: web.Request) -> web.Response:
        names = ("authorization", "content-type", "accept-encoding")
        seen = {name: request.headers.get(name) for name in names}
        return json_response({"is": [request.method, request.path_qs, await request.json(), seen]})

    async def scenario() -> Any:
        async with answering(echo) as url, backend(f"{url}/v1/", headers=HEADERS) as endpoint:
            return await endpoint.call("PUT", "/points?wait=true", {"a": [1.5, "ü"]}, timeout=5)

    headers = {"authorization": f"Bearer {KEY}", "content-type": "application/json", "accept-encoding": "identity"}
    assert asyncio.run(scenario()) == {"is": ["PUT", "/v1/points?wait=true", {"a": [1.5, "ü"]}, headers]}


def test_call_without_a_body_sends_none() -> None:
    """A call without a body has neither content nor a content type."""

    async def echo(request: web.Request) -> web.Response:
        return json_response([await request.text(), "content-type" in request.headers])

    async def scenario() -> Any:
        async with answering(echo) as url, backend(url) as endpoint:
            return await endpoint.call("GET", "/", timeout=5)

    assert asyncio.run(scenario()) == ["", False]


def test_large_request_arrives_whole() -> None:
    """A body of several megabytes arrives whole, with its length announced and without a warning."""
    text = "x" * (3 * MIB)

    async def measure(request: web.Request) -> web.Response:
        body = await request.read()
        return json_response([request.content_length == len(body), orjson.loads(body) == {"text": text}])

    async def scenario() -> Any:
        async with answering(measure) as url, backend(url) as endpoint:
            return await call(endpoint, body={"text": text}, timeout=20)

    assert asyncio.run(scenario()) == [True, True]


def test_fetch_returns_the_bytes() -> None:
    """`fetch` returns a body that isn't JSON as it was sent."""

    async def ready(_: web.Request) -> web.Response:
        return web.Response(text="all shards are ready")

    async def scenario() -> bytes:
        async with answering(ready) as url, backend(url) as endpoint:
            return await endpoint.fetch("GET", "/readyz", timeout=5)

    assert asyncio.run(scenario()) == b"all shards are ready"


def test_refused_connection_is_unavailable() -> None:
    """A port nobody listens on is BackendUnavailable."""
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))

        async def scenario() -> None:
            async with backend(f"http://127.0.0.1:{unused.getsockname()[1]}", headers=HEADERS) as endpoint:
                await call(endpoint)

        assert type(fail(scenario)) is BackendUnavailable


@pytest.mark.parametrize(
    "sent",
    [
        b"",
        b"HTTP/1.1 200 OK\r\n",
        OK + b"Content-Le",
        OK + b"Content-Length: 100\r\n\r\n",
        OK + b'Content-Length: 100\r\n\r\n{"a": 1}',
        OK + b'Transfer-Encoding: chunked\r\n\r\n50\r\n{"a": 1}',
        OK + b'Transfer-Encoding: chunked\r\n\r\n8\r\n{"a": 1}\r\n',
        b"HTTP/1.1 100 Continue\r\n\r\n",
    ],
)
def test_connection_closed_early_is_unavailable(sent: bytes) -> None:
    """A connection that closes before or within the answer is BackendUnavailable, even if what came is JSON."""
    assert type(raw_failure_of(sending(sent))) is BackendUnavailable


def test_connection_reset_is_unavailable() -> None:
    """A reset within the answer is BackendUnavailable."""

    async def reset(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(OK + b"Content-Length: 100\r\n\r\n{")
        await writer.drain()
        linger = b"\x01\x00\x00\x00\x00\x00\x00\x00"
        writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
        writer.transport.abort()

    assert type(raw_failure_of(reset)) is BackendUnavailable


@pytest.mark.parametrize(
    "sent",
    [
        b"\x00\x01\x02\x03garbage\r\n\r\n",
        b"SSH-2.0-OpenSSH_9.6\r\n",
        b"hello there\r\n\r\n",
        b'{"a": 1}',
        b"\x00\x00\x12\x04\x00\x00\x00\x00\x00\x00\x03\x00\x00\x00\x80",
        b"HTTP/1.1 99999 X\r\nContent-Length: 2\r\n\r\n{}",
        OK + b"X: " + b"a" * 100_000 + b"\r\n\r\n{}",
        OK + b"Content-Length: 2\r\nContent-Length: 3\r\n\r\n{}x",
        OK + b"Content-Length: -2\r\n\r\n{}",
        OK + b"Transfer-Encoding: chunked\r\n\r\nzz\r\n{}\r\n0\r\n\r\n",
        OK + b"Transfer-Encoding: chunked\r\n\r\n2\r\n{}XXXXXXXX",
    ],
)
def test_garbage_is_a_bad_response(sent: bytes) -> None:
    """Bytes that aren't HTTP, or break its framing, are BackendBadResponse at once."""
    assert type(raw_failure_of(sending(sent, then_hang=True))) is BackendBadResponse


@pytest.mark.parametrize(("status", "kind"), [(200, None), (503, BackendUnavailable), (400, BackendBadResponse)])
def test_reason_phrase_of_any_bytes_changes_nothing(status: int, kind: type[BackendError] | None) -> None:
    """A reason phrase that isn't UTF-8 leaves the answer what it is, and its connection isn't leaked."""
    sent = b"HTTP/1.1 %d \xe9\xff\r\nContent-Length: 2\r\n\r\n{}" % status

    async def scenario() -> Any:
        async with speaking(sending(sent)) as url, backend(url) as endpoint:
            return await call(endpoint)

    if kind is None:
        assert asyncio.run(scenario()) == {}
    else:
        assert type(fail(scenario)) is kind


FRAMES = [
    OK + b"Content-Length: 2\r\n\r\n{}",
    OK + b"Transfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n",
    b"HTTP/1.1 301 Moved\r\nLocation: http://127.0.0.1:1/\r\nContent-Length: 0\r\n\r\n",
    b"HTTP/1.1 101 Switching\r\nUpgrade: websocket\r\nConnection: upgrade\r\n\r\n",
    b"HTTP/1.1 429 Slow\r\nContent-Length: 0\r\n\r\n",
    OK + b"Content-Encoding: gzip\r\nSet-Cookie: a=b\r\nContent-Length: 2\r\n\r\n{}",
]


@settings(max_examples=150, deadline=None)
@given(
    st.sampled_from(FRAMES),
    st.lists(st.tuples(st.integers(0, 120), st.integers(0, 2), st.binary(max_size=3)), max_size=5),
)
def test_no_bytes_raise_anything_else(frame: bytes, edits: list[tuple[int, int, bytes]]) -> None:
    """Whatever a server sends, the call returns JSON or raises a BackendError."""
    for place, removed, added in edits:
        frame = frame[:place] + added + frame[place + removed :]

    async def scenario() -> None:
        async with speaking(sending(frame)) as url, backend(url) as endpoint:
            with contextlib.suppress(BackendError):
                await call(endpoint, timeout=2)

    asyncio.run(scenario())


@pytest.mark.parametrize(
    "sent",
    [b"", OK, OK + b"Content-Length: 100\r\n\r\n", OK + b"Content-Length: 100\r\n\r\n{", b"HTTP/1.1 100 Go\r\n\r\n"],
)
def test_hang_is_a_timeout_in_time(sent: bytes) -> None:
    """A server that stops anywhere before the end of its answer costs the time-out and no more."""
    started = time.monotonic()
    assert type(raw_failure_of(sending(sent, then_hang=True), timeout=0.2)) is BackendTimeout
    assert 0.15 < time.monotonic() - started < 1.0


def test_slow_body_is_a_timeout_in_time() -> None:
    """A body that drips on past the time-out is BackendTimeout: each byte in time doesn't make the answer so."""

    async def drip(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        for _ in range(100):
            await response.write(b" ")
            await asyncio.sleep(0.03)
        return response

    started = time.monotonic()
    assert type(failure_of(drip, timeout=0.25)) is BackendTimeout
    assert 0.2 < time.monotonic() - started < 1.0


def test_unread_request_is_a_timeout_in_time() -> None:
    """A server that never reads a large request can't hold the call beyond its time-out."""

    async def deaf(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(OK + b"Content-Length: 100\r\n\r\n{")
        await asyncio.Event().wait()

    started = time.monotonic()
    body = {"text": "x" * (20 * MIB)}
    assert type(raw_failure_of(deaf, timeout=0.4, body=body)) is BackendTimeout
    assert time.monotonic() - started < 2.0


@pytest.mark.parametrize("timeout", [0.0, -1.0])
def test_no_time_left_is_a_timeout(timeout: float) -> None:
    """A time-out of zero or less is BackendTimeout."""

    async def answer(_: web.Request) -> web.Response:
        return json_response({})

    assert type(failure_of(answer, timeout=timeout)) is BackendTimeout


def test_request_timeout_status_is_a_timeout() -> None:
    """A server that answers 408 ran out of its own time: BackendTimeout."""

    async def answer(_: web.Request) -> web.Response:
        return json_response({}, 408)

    assert type(failure_of(answer)) is BackendTimeout


@pytest.mark.parametrize("status", [429, 500, 502, 503, 504])
def test_overload_and_server_errors_are_unavailable(status: int) -> None:
    """429 and 5xx are BackendUnavailable, with the status in the message."""

    async def answer(_: web.Request) -> web.Response:
        return json_response({}, status)

    error = failure_of(answer)
    assert type(error) is BackendUnavailable
    assert str(status) in str(error)


@pytest.mark.parametrize("status", [400, 401, 404, 413, 422, 301, 302, 307, 304])
def test_other_statuses_are_bad_responses_with_their_status(status: int) -> None:
    """Any other status but 2xx is BackendBadResponse and carries it, redirects too: none is followed."""
    asked = 0

    async def answer(request: web.Request) -> web.Response:
        nonlocal asked
        asked += 1
        return web.Response(status=status, headers={"Location": str(request.url)})

    error = failure_of(answer)
    assert isinstance(error, BackendBadResponse)
    assert error.status == status
    assert asked == 1


def test_status_counts_before_the_body_ends() -> None:
    """A 429 is told at once, though its body hangs and the request was never read."""
    sent = b"HTTP/1.1 429 Slow\r\nContent-Length: 100\r\n\r\n"

    async def deaf(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(sent)
        await asyncio.Event().wait()

    assert type(raw_failure_of(deaf, timeout=5, body={"text": "x" * (20 * MIB)})) is BackendUnavailable


@pytest.mark.parametrize(
    "body", [b"", b"<html>", b'{"a": NaN}', b"[Infinity]", b'{"a": 1', b"{} {}", b'"\xff"', b"[1e999]", b"[" * 5000]
)
def test_not_json_is_a_bad_response(body: bytes) -> None:
    """A body that isn't exactly one JSON value is BackendBadResponse, NaN and infinity too."""

    async def answer(_: web.Request) -> web.Response:
        return web.Response(body=body, content_type="application/json")

    assert type(failure_of(answer)) is BackendBadResponse


def test_encoded_body_is_refused() -> None:
    """A gzip body is BackendBadResponse: it was not asked for, and it could be a bomb."""

    async def answer(_: web.Request) -> web.Response:
        return web.Response(body=gzip.compress(b"{}"), headers={"Content-Encoding": "gzip"})

    error = failure_of(answer)
    assert type(error) is BackendBadResponse
    assert "encoded" in str(error)


def test_encoding_identity_is_none() -> None:
    """`Content-Encoding: Identity`, in any case, is an unencoded body."""
    sent = OK + b"Content-Encoding: Identity\r\nContent-Length: 2\r\n\r\n{}"

    async def scenario() -> Any:
        async with speaking(sending(sent)) as url, backend(url) as endpoint:
            return await call(endpoint)

    assert asyncio.run(scenario()) == {}


@pytest.mark.parametrize("chunked", [False, True])
def test_body_over_the_cap_is_refused(chunked: bool) -> None:
    """A body a byte over the cap is BackendBadResponse, with or without an announced length; one at the cap is read."""
    cap = 100_000

    def answer_of(size: int) -> Handler:
        async def answer(request: web.Request) -> web.StreamResponse:
            body = b'"' + b"x" * (size - 2) + b'"'
            if not chunked:
                return web.Response(body=body)
            response = web.StreamResponse()
            response.enable_chunked_encoding()
            await response.prepare(request)
            await response.write(body)
            await response.write_eof()
            return response

        return answer

    error = failure_of(answer_of(cap + 1), max_body=cap)
    assert type(error) is BackendBadResponse
    assert "over" in str(error)

    async def scenario() -> Any:
        async with answering(answer_of(cap)) as url, backend(url, max_body=cap) as endpoint:
            return await call(endpoint)

    assert len(asyncio.run(scenario())) == cap - 2


def test_endless_body_is_refused() -> None:
    """A body without an end is refused at the cap, long before the time-out."""

    async def endless(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        while True:
            await response.write(b" " * 65_536)

    assert type(failure_of(endless, timeout=20)) is BackendBadResponse


@pytest.mark.parametrize("body", ["\ud800", {1: 2}, object(), 10**30])
def test_request_that_is_not_json_is_a_bad_response(body: object) -> None:
    """A body that can't be written as JSON is BackendBadResponse, and its text isn't told."""

    async def answer(_: web.Request) -> web.Response:
        return json_response({})

    async def scenario() -> None:
        async with answering(answer) as url, backend(url) as endpoint:
            await call(endpoint, body=body)

    assert type(fail(scenario)) is BackendBadResponse


@pytest.mark.parametrize("sent", [b"", b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n{"])
def test_cancelled_call_releases_its_connection(sent: bytes) -> None:
    """Cancelling a call raises CancelledError and frees its connection, before or within the answer."""
    asked = 0

    async def first_hangs(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal asked
        asked += 1
        answer = sent if asked == 1 else OK + b"Content-Length: 2\r\n\r\n{}"
        await sending(answer, then_hang=asked == 1)(reader, writer)

    async def scenario() -> Any:
        async with speaking(first_hangs) as url, backend(url, max_connections=1) as endpoint:
            hanging = asyncio.create_task(call(endpoint))
            await asyncio.sleep(0.1)
            hanging.cancel()
            with pytest.raises(asyncio.CancelledError):
                await hanging
            return await call(endpoint, timeout=2)

    assert asyncio.run(scenario()) == {}


@pytest.mark.parametrize("sent", [b"", OK + b"Content-Length: 9\r\n\r\n{", OK + b"Content-Encoding: br\r\n\r\n"])
def test_failed_call_releases_its_connection(sent: bytes) -> None:
    """A call that failed, by time-out or by a refused answer, leaves its connection's place to the next."""
    asked = 0

    async def first_fails(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal asked
        asked += 1
        answer = sent if asked == 1 else OK + b"Content-Length: 2\r\n\r\n{}"
        await sending(answer, then_hang=asked == 1)(reader, writer)

    async def scenario() -> Any:
        async with speaking(first_fails) as url, backend(url, max_connections=1) as endpoint:
            with pytest.raises(BackendError):
                await call(endpoint, timeout=0.2)
            return await call(endpoint, timeout=2)

    assert asyncio.run(scenario()) == {}


def test_connection_is_reused() -> None:
    """Calls one after another share one connection."""
    connections = set()

    async def answer(request: web.Request) -> web.Response:
        connections.add(id(request.transport))
        return json_response({})

    async def scenario() -> None:
        async with answering(answer) as url, backend(url) as endpoint:
            for _ in range(5):
                await call(endpoint)

    asyncio.run(scenario())
    assert len(connections) == 1


def test_closing_makes_calls_unavailable() -> None:
    """Calls under way, waiting for a connection, and made after closing are BackendUnavailable, none is cancelled."""

    async def scenario() -> list[Any]:
        async with speaking(sending(b"", then_hang=True)) as url, backend(url, max_connections=1) as endpoint:
            calls = [asyncio.create_task(call(endpoint)) for _ in range(2)]
            await asyncio.sleep(0.1)
            await endpoint.aclose()
            return await asyncio.gather(*calls, call(endpoint), return_exceptions=True)

    assert [type(outcome) for outcome in asyncio.run(scenario())] == [BackendUnavailable] * 3


def test_closing_leaves_cancellation_alone() -> None:
    """A call that was cancelled as its transport closed raises CancelledError, so that its task ends."""

    async def scenario() -> None:
        async with speaking(sending(b"", then_hang=True)) as url, backend(url, max_connections=1) as endpoint:
            calls = [asyncio.create_task(call(endpoint)) for _ in range(2)]
            await asyncio.sleep(0.1)
            for each in calls:
                each.cancel()
            await endpoint.aclose()
            await asyncio.wait(calls)
            assert all(each.cancelled() for each in calls)

    asyncio.run(scenario())


def test_connections_are_bounded() -> None:
    """No more connections than `max_connections` are open; further calls wait within their time-out."""
    at_once = most = 0

    async def answer(_: web.Request) -> web.Response:
        nonlocal at_once, most
        at_once += 1
        most = max(most, at_once)
        await asyncio.sleep(0.05)
        at_once -= 1
        return json_response({})

    async def scenario() -> None:
        async with answering(answer) as url, backend(url, max_connections=2) as endpoint:
            await asyncio.gather(*(call(endpoint) for _ in range(6)))

    asyncio.run(scenario())
    assert most == 2


@pytest.mark.parametrize(
    "sent",
    [
        b"",
        b"garbage that quotes sk-do-not-tell and the query\r\n\r\n",
        OK + b"Content-Length: 99\r\n\r\n{",
        OK + b"Content-Length: 27\r\n\r\nsk-do-not-tell in the query",
        b"HTTP/1.1 400 sk-do-not-tell\r\nX: sk-do-not-tell\r\nContent-Length: 14\r\n\r\nsk-do-not-tell",
        b"HTTP/1.1 503 sk-do-not-tell\r\nContent-Length: 14\r\n\r\nsk-do-not-tell",
    ],
)
def test_errors_tell_no_secret(sent: bytes) -> None:
    """Neither the error, nor its traceback, nor any error chained to it holds the key, the URL or a text."""
    error = raw_failure_of(sending(sent))
    assert str(error).startswith("backend: ")
    assert error.__cause__ is None
    assert error.__context__ is None
    told = f"{error} {error!r} {''.join(traceback.format_exception(error))}"
    for secret in (KEY, TEXT, "127.0.0.1"):
        assert secret not in told


@pytest.mark.skipif(shutil.which("openssl") is None, reason="needs openssl to make a certificate")
def test_untrusted_certificate_is_unavailable(tmp_path: Path) -> None:
    """A server whose certificate isn't trusted gets no request; one that `verify` trusts is answered."""
    key, certificate = tmp_path / "key.pem", tmp_path / "certificate.pem"
    made = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2"]
    named = ["-subj", "/CN=localhost", "-addext", "subjectAltName=IP:127.0.0.1"]
    subprocess.run([*made, *named, "-keyout", key, "-out", certificate], check=True, capture_output=True)
    server_side = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    server_side.load_cert_chain(certificate, key)
    trusting = ssl.create_default_context(cafile=certificate)

    async def answer(_: web.Request) -> web.Response:
        return json_response({})

    async def outcome(url: str, verify: ssl.SSLContext | bool) -> object:
        endpoint = Endpoint("backend", url, http_transport(verify=verify), HEADERS)
        try:
            return await call(endpoint)
        except BackendError as error:
            return type(error)
        finally:
            await endpoint.aclose()

    async def scenario() -> list[object]:
        async with answering(answer, tls=server_side) as url:
            return [await outcome(url, True), await outcome(url, trusting)]

    assert asyncio.run(scenario()) == [BackendUnavailable, {}]


def test_endpoint_tells_no_secret() -> None:
    """An endpoint's repr and str hold no header."""
    endpoint = Endpoint("backend", "http://127.0.0.1:1", httpx.MockTransport(lambda _: httpx.Response(200)), HEADERS)
    assert KEY not in f"{endpoint} {endpoint!r}"


@pytest.mark.parametrize(
    "url",
    [
        "",
        "backend:80",
        "ftp://backend",
        "http://",
        "http://user:sk-do-not-tell@backend",
        "http://backend?key=sk-do-not-tell",
        "http://backend#sk-do-not-tell",
        "http://backend:port",
    ],
)
def test_unusable_url_is_a_config_error(url: str) -> None:
    """A URL that no request could use, or that carries a secret, is a ConfigError that doesn't quote it."""
    with pytest.raises(ConfigError) as caught:
        Endpoint("backend", url, http_transport())
    assert KEY not in str(caught.value)


@pytest.mark.parametrize("key", [f"{KEY}\n", f"{KEY}\r\nX: 1", f"{KEY}é", f"{KEY}\x00"])
def test_unusable_key_is_a_config_error(key: str) -> None:
    """A key that no header can carry, as one read with its newline, is a ConfigError that doesn't quote it."""
    with pytest.raises(ConfigError) as caught:
        Endpoint("backend", "http://backend", http_transport(), {"authorization": key})
    assert "authorization" in str(caught.value)
    assert KEY not in str(caught.value)
