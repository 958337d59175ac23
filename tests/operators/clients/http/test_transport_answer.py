"""The HTTP seam over answers that are HTTP, but not what was asked for."""

import asyncio
import gzip
from contextlib import aclosing
from typing import Any

import pytest
from aiohttp import web

from operators.clients.http import transport
from operators.clients.http.dialect import MODEL, Dialect
from operators.clients.http.transport import MIB, Endpoint, http_transport
from schemas.errors import AnswerTooLong, BackendBadResponse, BackendError, BackendTimeout, BackendUnavailable
from tests.operators.clients.http.faults import call, fail, failure_of, raw_failure_of, sending
from tests.operators.clients.http.serving import Handler, answering, backend, json_response, speaking


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


FAILURES: list[tuple[Any, int]] = [
    ({"error": {"code": 400, "message": "No"}}, 400),
    ({"error": {"code": 401, "message": "No"}, "usage": {}}, 401),
    ({"error": {"code": "429", "message": "No"}, "choices": []}, 429),
    ({"error": {"status": 503}, "data": None}, 503),
    ({"error": "overloaded", "code": 529}, 529),
    ({"error": {"type": "upstream_error"}, "status_code": 502}, 502),
    ({"error": {"code": "408"}}, 408),
]


@pytest.mark.parametrize(("answer", "status"), FAILURES)
def test_a_model_s_failure_in_an_answer_of_200_is_that_of_its_code(answer: Any, status: int) -> None:
    """A gateway that learns of the failure late is understood as if it had sent the status."""

    def failure(sent: int, body: Any) -> BackendError:
        async def serve(_: web.Request) -> web.Response:
            return json_response(body, sent)

        async def scenario() -> None:
            async with (
                answering(serve) as url,
                aclosing(Endpoint("backend", url, http_transport(), dialect=MODEL)) as endpoint,
            ):
                await call(endpoint)

        return fail(scenario)

    late, early = failure(200, answer), failure(status, answer)
    assert (type(late), str(late), late.status, late.reason) == (type(early), str(early), status, early.reason)
    assert late.quoted == early.quoted


@pytest.mark.parametrize(
    "answer",
    [
        {"error": None, "data": []},
        {"error": {"code": 502}, "data": [1]},
        {"error": {"code": 502}, "choices": [{}]},
        {"error": {"code": 200}},
        {"error": {"code": 600}},
        {"error": {"code": "rate_limit_exceeded"}},
        {"error": {"code": True}},
        {"error": {"code": 502.5}},
        {"error": "502"},
        {"code": 502},
        [{"error": {"code": 502}}],
        "error",
        None,
    ],
)
def test_any_other_answer_of_200_is_the_reader_s(answer: Any) -> None:
    """An answer that holds what was asked for, or an error without a status, is read as it is."""

    async def serve(_: web.Request) -> web.Response:
        return json_response(answer)

    async def scenario() -> Any:
        async with (
            answering(serve) as url,
            aclosing(Endpoint("backend", url, http_transport(), dialect=MODEL)) as endpoint,
        ):
            return await call(endpoint)

    assert asyncio.run(scenario()) == answer


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


def test_an_encoding_without_a_name_is_none() -> None:
    """Proxies leave an empty header when they decode a body."""

    async def answer(_: web.Request) -> web.Response:
        return web.Response(body=b"{}", headers={"Content-Encoding": ""})

    async def scenario() -> Any:
        async with answering(answer) as url, backend(url) as endpoint:
            return await call(endpoint)

    assert asyncio.run(scenario()) == {}


@pytest.mark.parametrize(
    ("status", "kind", "timeout", "most"),
    [
        (413, BackendBadResponse, 60, 0.5),
        (422, BackendBadResponse, 60, 0.5),
        (429, BackendUnavailable, 60, 0.5),
        # The most that the body may take is more than all of the call has.
        (503, BackendUnavailable, 10, 60),
    ],
)
def test_a_refusal_whose_body_hangs_is_a_refusal(
    status: int, kind: type[BackendError], timeout: float, most: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The dialect reads the body for the reason; the status tells the kind of failure without it."""
    head = f"HTTP/1.1 {status} No\r\nContent-Length: 100\r\n\r\n".encode()

    async def scenario() -> None:
        async with (
            speaking(sending(head + b"too long", then_hang=True)) as url,
            aclosing(Endpoint("backend", url, http_transport(), dialect=Dialect(read=4096))) as endpoint,
        ):
            await call(endpoint, timeout=timeout)

    monkeypatch.setattr(transport, "_REFUSAL", most)
    error = fail(scenario)
    assert type(error) is kind
    assert str(status) in str(error)


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
    assert type(error) is AnswerTooLong
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

    assert type(failure_of(endless, timeout=20)) is AnswerTooLong
