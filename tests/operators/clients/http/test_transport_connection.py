"""The HTTP seam over connections that refuse, break, hang or carry no HTTP."""

import asyncio
import contextlib
import socket
import time
from typing import Any

import pytest
from aiohttp import web
from hypothesis import given, settings
from hypothesis import strategies as st

from operators.clients.http.transport import MIB
from schemas.errors import BackendBadResponse, BackendError, BackendTimeout, BackendUnavailable
from tests.operators.clients.http.faults import HEADERS, OK, call, fail, failure_of, raw_failure_of, sending
from tests.operators.clients.http.serving import backend, json_response, speaking


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
    assert 0.15 < time.monotonic() - started < 20


def test_slow_body_is_a_timeout_in_time() -> None:
    """A body that drips on past the time-out is BackendTimeout: each byte in time doesn't make the answer so."""

    async def drip(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        for _ in range(1000):
            await response.write(b" ")
            await asyncio.sleep(0.03)
        return response

    started = time.monotonic()
    assert type(failure_of(drip, timeout=0.25)) is BackendTimeout
    assert 0.2 < time.monotonic() - started < 20


def test_unread_request_is_a_timeout_in_time() -> None:
    """A server that never reads a large request can't hold the call beyond its time-out."""

    async def deaf(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(OK + b"Content-Length: 100\r\n\r\n{")
        await asyncio.Event().wait()

    started = time.monotonic()
    body = {"text": "x" * (20 * MIB)}
    assert type(raw_failure_of(deaf, timeout=0.4, body=body)) is BackendTimeout
    assert time.monotonic() - started < 20


@pytest.mark.parametrize("timeout", [0.0, -1.0])
def test_no_time_left_is_a_timeout(timeout: float) -> None:
    """A time-out of zero or less is BackendTimeout."""

    async def answer(_: web.Request) -> web.Response:
        return json_response({})

    assert type(failure_of(answer, timeout=timeout)) is BackendTimeout
