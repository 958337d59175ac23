"""Every dialect's client against a server that refuses, breaks off, hangs or floods."""

import asyncio
import gzip

import pytest
from aiohttp import web

from schemas.errors import AnswerTooLong, BackendBadResponse, BackendError, BackendTimeout, BackendUnavailable
from tests.operators.clients.http.serving import Handler, Serve, backend, json_response, speaking
from tests.operators.clients.rerankers.dialects import (
    EVERY_DIALECT,
    TEXTS,
    Dialect,
    failure,
    request_of,
    right_scores,
    scored,
)

pytestmark = pytest.mark.slow

MIB = 1024 * 1024
REQUEST = request_of(*TEXTS)


def error_of(dialect: Dialect, handler: Handler, timeout: float = 5.0) -> BackendError:
    """The error that a call to an HTTP server of `handler` raises."""
    return failure(lambda: scored(dialect, handler, REQUEST, timeout=timeout))


def raw_error_of(dialect: Dialect, serve: Serve, timeout: float = 5.0) -> BackendError:
    """The error that a call to a TCP server of `serve` raises."""

    async def scenario() -> None:
        async with speaking(serve) as url, backend(f"{url}/base") as endpoint:
            await dialect.over(endpoint).score([REQUEST], timeout=timeout)

    return failure(lambda: asyncio.run(scenario()))


@EVERY_DIALECT
@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (400, BackendBadResponse),
        (401, BackendBadResponse),
        (404, BackendBadResponse),
        (408, BackendTimeout),
        (413, BackendBadResponse),
        (422, BackendBadResponse),
        (424, BackendBadResponse),
        (429, BackendUnavailable),
        (500, BackendUnavailable),
        (502, BackendUnavailable),
        (503, BackendUnavailable),
    ],
)
def test_status_decides_the_error(dialect: Dialect, status: int, kind: type[BackendError]) -> None:
    """A refusal is BackendBadResponse, an overload or a server's own error BackendUnavailable, each with its status."""

    async def refuse(_: web.Request) -> web.Response:
        return json_response({"message": f"not {TEXTS[0]}", "error": TEXTS[1]}, status)

    error = error_of(dialect, refuse)
    assert type(error) is kind
    assert error.status == status


@EVERY_DIALECT
def test_truncated_body_is_unavailable(dialect: Dialect) -> None:
    """A connection that closes before the announced length is BackendUnavailable, though a right answer came."""
    right = dialect.server()

    async def break_off(request: web.Request) -> web.StreamResponse:
        body = (await right(request)).body
        assert isinstance(body, bytes)
        response = web.StreamResponse(headers={"Content-Length": str(len(body) + 10)})
        await response.prepare(request)
        await response.write(body)
        assert request.transport is not None
        request.transport.close()
        return response

    assert type(error_of(dialect, break_off)) is BackendUnavailable


@EVERY_DIALECT
def test_reset_connection_is_unavailable(dialect: Dialect) -> None:
    """A connection that is reset once the request was read is BackendUnavailable."""

    async def reset(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.transport.abort()

    assert type(raw_error_of(dialect, reset)) is BackendUnavailable


@EVERY_DIALECT
def test_refused_connection_is_unavailable(dialect: Dialect) -> None:
    """A port on which nobody listens is BackendUnavailable."""

    async def scenario() -> None:
        async with backend("http://127.0.0.1:9/base") as endpoint:
            await dialect.over(endpoint).score([REQUEST], timeout=5)

    assert type(failure(lambda: asyncio.run(scenario()))) is BackendUnavailable


@EVERY_DIALECT
def test_answer_that_is_not_http_is_a_bad_response(dialect: Dialect) -> None:
    """Bytes that aren't HTTP are BackendBadResponse."""

    async def mumble(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"220 mail.example ESMTP\r\n\r\n")
        await writer.drain()

    assert type(raw_error_of(dialect, mumble)) is BackendBadResponse


@EVERY_DIALECT
def test_dripping_body_is_a_timeout(dialect: Dialect) -> None:
    """A right answer that comes byte by byte is BackendTimeout once the call's time is over."""
    right = dialect.server()

    async def drip(request: web.Request) -> web.StreamResponse:
        body = (await right(request)).body
        assert isinstance(body, bytes)
        response = web.StreamResponse()
        await response.prepare(request)
        for place in range(len(body)):
            await response.write(body[place : place + 1])
            await asyncio.sleep(0.05)
        return response

    assert type(error_of(dialect, drip, timeout=0.3)) is BackendTimeout


@EVERY_DIALECT
def test_silent_server_is_a_timeout(dialect: Dialect) -> None:
    """A server that doesn't answer is BackendTimeout once the call's time is over."""
    server = dialect.server()
    server.hold.clear()
    assert type(error_of(dialect, server, timeout=0.2)) is BackendTimeout


@EVERY_DIALECT
def test_encoded_body_is_refused(dialect: Dialect) -> None:
    """A compressed answer is BackendBadResponse, be it a right one or a bomb: it was not asked for."""
    right = dialect.server()
    bomb = gzip.compress(b" " * (64 * MIB))

    encoding = [b""]

    async def encoded(request: web.Request) -> web.Response:
        assert request.headers["accept-encoding"] == "identity"
        body = (await right(request)).body
        assert isinstance(body, bytes)
        return web.Response(
            body=encoding[0] or gzip.compress(body),
            headers={"Content-Encoding": "gzip"},
            content_type="application/json",
        )

    for encoding[0] in (b"", bomb):
        error = error_of(dialect, encoded)
        assert type(error) is BackendBadResponse
        assert "encoded" in str(error)


@EVERY_DIALECT
def test_body_over_the_bound_is_refused(dialect: Dialect) -> None:
    """A right answer that is padded to 8 MiB is read; a byte more is AnswerTooLong, a BackendBadResponse."""
    right = dialect.server()

    def padded_to(size: int) -> Handler:
        async def pad(request: web.Request) -> web.Response:
            body = (await right(request)).body
            assert isinstance(body, bytes)
            return web.Response(body=body.ljust(size), content_type="application/json")

        return pad

    assert scored(dialect, padded_to(8 * MIB), REQUEST) == [right_scores(REQUEST)]
    error = error_of(dialect, padded_to(8 * MIB + 1))
    assert type(error) is AnswerTooLong
    assert "over" in str(error)
