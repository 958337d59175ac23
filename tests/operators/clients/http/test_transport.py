"""The HTTP seam: what a call sends and returns, and what becomes of its connection."""

import asyncio
from typing import Any

import orjson
import pytest
from aiohttp import web
from opentelemetry.baggage import set_baggage
from opentelemetry.context import attach, detach

from operators.clients.http.transport import MIB, Endpoint, http_transport
from schemas.errors import BackendBadResponse, BackendError, BackendUnavailable
from tests.operators.clients.http.faults import HEADERS, KEY, OK, call, fail, sending
from tests.operators.clients.http.serving import answering, backend, json_response, speaking
from tests.operators.recorded import Recorded


async def test_call_sends_json_and_returns_parsed_json() -> None:
    """A call carries method, path, JSON body and headers, asks for no encoding, and returns what the server wrote."""

    async def echo(request: web.Request) -> web.Response:
        names = ("authorization", "content-type", "accept-encoding")
        seen = {name: request.headers.get(name) for name in names}
        return json_response({"is": [request.method, request.path_qs, await request.json(), seen]})

    headers = {"authorization": f"Bearer {KEY}", "content-type": "application/json", "accept-encoding": "identity"}
    async with answering(echo) as url, backend(f"{url}/v1/", headers=HEADERS) as endpoint:
        assert await endpoint.call("PUT", "/points?wait=true", {"a": [1.5, "ü"]}, timeout=5) == {
            "is": ["PUT", "/v1/points?wait=true", {"a": [1.5, "ü"]}, headers]
        }


async def test_call_without_a_body_sends_none() -> None:
    """A call without a body has neither content nor a content type."""

    async def echo(request: web.Request) -> web.Response:
        return json_response([await request.text(), "content-type" in request.headers])

    async with answering(echo) as url, backend(url) as endpoint:
        assert await endpoint.call("GET", "/", timeout=5) == ["", False]


async def test_a_call_hands_the_current_span_on() -> None:
    """Its `traceparent`, and no baggage, which is a producer's; neither without a span, or if it is not recorded."""

    async def echo(request: web.Request) -> web.Response:
        return json_response([request.headers.getall(name, []) for name in ("traceparent", "baggage")])

    async with answering(echo) as url, backend(url, headers=HEADERS) as endpoint:
        found = [await call(endpoint)]
        for tracer in (Recorded().tracer, Recorded(sampled=False).tracer):
            token = attach(set_baggage("tenant", "secret"))
            with tracer.start_as_current_span("call") as span:
                found += [await call(endpoint), span.get_span_context()]
            detach(token)
        none, handed_on, span, unsampled, _, after = [*found, await call(endpoint)]
    assert handed_on == [[f"00-{span.trace_id:032x}-{span.span_id:016x}-{span.trace_flags:02x}"], []]
    assert none == unsampled == after == [[], []]


async def test_large_request_arrives_whole() -> None:
    """A body of several megabytes arrives whole, with its length announced and without a warning."""
    text = "x" * (3 * MIB)

    async def measure(request: web.Request) -> web.Response:
        body = await request.read()
        return json_response([request.content_length == len(body), orjson.loads(body) == {"text": text}])

    async with answering(measure) as url, backend(url) as endpoint:
        assert await call(endpoint, body={"text": text}, timeout=20) == [True, True]


async def test_encoding_identity_is_none() -> None:
    """`Content-Encoding: Identity`, in any case, is an unencoded body."""
    sent = OK + b"Content-Encoding: Identity\r\nContent-Length: 2\r\n\r\n{}"
    async with speaking(sending(sent)) as url, backend(url) as endpoint:
        assert await call(endpoint) == {}


@pytest.mark.parametrize(
    ("fields", "sent"),
    [
        ({}, {"a": 1, "b": {"c": 2, "d": 3}}),
        ({"e": {"f": [None]}}, {"a": 1, "b": {"c": 2, "d": 3}, "e": {"f": [None]}}),
        ({"a": None}, {"b": {"c": 2, "d": 3}}),
        ({"b": None, "e": 4}, {"a": 1, "e": 4}),
        ({"b": {"c": None, "e": 4}}, {"a": 1, "b": {"d": 3, "e": 4}}),
        ({"b": {"c": None, "d": None}}, {"a": 1, "b": {}}),
        ({"e": None, "f": {"g": None}}, {"a": 1, "b": {"c": 2, "d": 3}, "f": {}}),
        ({"a": {"c": None}, "b": 5}, {"a": {}, "b": 5}),
    ],
)
def test_further_fields_are_a_merge_patch(fields: dict[str, Any], sent: dict[str, Any]) -> None:
    """A configured field adds to the body, replaces a field of it, or with null leaves it out, at any depth."""
    endpoint = Endpoint("backend", "http://backend", http_transport(), body=fields)
    body = {"a": 1, "b": {"c": 2, "d": 3}}
    assert orjson.loads(endpoint.encode(body)) == sent
    assert body == {"a": 1, "b": {"c": 2, "d": 3}}


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
async def test_cancelled_call_releases_its_connection(sent: bytes) -> None:
    """Cancelling a call raises CancelledError and frees its connection, before or within the answer."""
    asked = 0
    connected = asyncio.Event()

    async def first_hangs(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal asked
        asked += 1
        connected.set()
        answer = sent if asked == 1 else OK + b"Content-Length: 2\r\n\r\n{}"
        await sending(answer, then_hang=asked == 1)(reader, writer)

    async with speaking(first_hangs) as url, backend(url, max_connections=1) as endpoint:
        hanging = asyncio.create_task(call(endpoint, timeout=30))
        await connected.wait()
        await asyncio.sleep(0.1)
        hanging.cancel()
        with pytest.raises(asyncio.CancelledError):
            await hanging
        assert await call(endpoint, timeout=10) == {}


@pytest.mark.parametrize("sent", [b"", OK + b"Content-Length: 9\r\n\r\n{", OK + b"Content-Encoding: br\r\n\r\n"])
async def test_failed_call_releases_its_connection(sent: bytes) -> None:
    """A call that failed, by time-out or by a refused answer, leaves its connection's place to the next."""
    failing = True

    async def first_fails(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        answer = sent if failing else OK + b"Content-Length: 2\r\n\r\n{}"
        await sending(answer, then_hang=failing)(reader, writer)

    async def scenario() -> Any:
        nonlocal failing
        async with speaking(first_fails) as url, backend(url, max_connections=1) as endpoint:
            with pytest.raises(BackendError):
                await call(endpoint, timeout=0.2)
            # Not by counting connections: a call may be out of time before it has made one.
            failing = False
            return await call(endpoint, timeout=10)

    assert await scenario() == {}


async def test_connection_is_reused() -> None:
    """Calls one after another share one connection."""
    connections = set()

    async def answer(request: web.Request) -> web.Response:
        connections.add(id(request.transport))
        return json_response({})

    async with answering(answer) as url, backend(url) as endpoint:
        for _ in range(5):
            await call(endpoint)
    assert len(connections) == 1


async def test_closing_makes_calls_unavailable() -> None:
    """Calls under way, waiting for a connection, and made after closing are BackendUnavailable, none is cancelled."""
    async with speaking(sending(b"", then_hang=True)) as url, backend(url, max_connections=1) as endpoint:
        calls = [asyncio.create_task(call(endpoint)) for _ in range(2)]
        await asyncio.sleep(0.1)
        await endpoint.aclose()
        assert [type(outcome) for outcome in await asyncio.gather(*calls, call(endpoint), return_exceptions=True)] == [
            BackendUnavailable
        ] * 3


async def test_closing_leaves_cancellation_alone() -> None:
    """A call that was cancelled as its transport closed raises CancelledError, so that its task ends."""
    async with speaking(sending(b"", then_hang=True)) as url, backend(url, max_connections=1) as endpoint:
        calls = [asyncio.create_task(call(endpoint)) for _ in range(2)]
        await asyncio.sleep(0.1)
        for each in calls:
            each.cancel()
        await endpoint.aclose()
        await asyncio.wait(calls)
        assert all(each.cancelled() for each in calls)


async def test_connections_are_bounded() -> None:
    """No more connections than `max_connections` are open; further calls wait within their time-out."""
    at_once = most = 0

    async def answer(_: web.Request) -> web.Response:
        nonlocal at_once, most
        at_once += 1
        most = max(most, at_once)
        await asyncio.sleep(0.05)
        at_once -= 1
        return json_response({})

    async with answering(answer) as url, backend(url, max_connections=2) as endpoint:
        await asyncio.gather(*(call(endpoint) for _ in range(6)))
    assert most == 2
