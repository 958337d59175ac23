"""Qdrant's refusals, as a real server worded them, and the client's errors."""

import asyncio
from pathlib import Path
from typing import Any, Final

import httpx
import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from operators.clients.admission import OPENS_AFTER
from operators.clients.http.backend import Resilient
from operators.clients.http.transport import Call, Endpoint
from operators.clients.qdrant.answers import QDRANT, collection_of, error_of
from schemas.errors import BackendBadResponse, BackendError, BackendTimeout, BackendUnavailable, Blame, Reason

DATA: Final = Path(__file__).parents[3] / "data"
RECORDED: Final[list[dict[str, Any]]] = [
    exchange
    for name in ("qdrant_exchanges.json", "qdrant_exchanges_2.json")
    for exchange in orjson.loads((DATA / name).read_bytes())["exchanges"]
    if exchange["status"] >= 400
]
BY_STATUS: Final = {
    400: Reason.REFUSED,
    401: Reason.UNAUTHORIZED,
    403: Reason.UNAUTHORIZED,
    404: Reason.NO_COLLECTION,
    409: Reason.REFUSED,
    422: Reason.REFUSED,
    500: Reason.TIMEOUT,
}


def body(response: object) -> bytes:
    """An answer's body: a text, or JSON."""
    return response.encode() if isinstance(response, str) else orjson.dumps(response)


@pytest.mark.parametrize("exchange", RECORDED, ids=[each["name"] for each in RECORDED])
def test_recorded_refusals_have_their_reason_and_their_words(exchange: dict[str, Any]) -> None:
    """Each refusal of the recorded server has the reason for it, its status, and Qdrant's own words in one line."""
    response = exchange["response"]
    error = error_of("qdrant", exchange["status"], body(response))
    said = response if isinstance(response, str) else response["status"]["error"]
    words = " ".join(said.split())
    assert (error.reason, error.status) == (BY_STATUS[exchange["status"]], exchange["status"])
    assert str(error) == f"qdrant: status {exchange['status']}: {words}"
    assert type(error) is (BackendTimeout if error.reason is Reason.TIMEOUT else BackendBadResponse)


@pytest.mark.parametrize(
    ("status", "said", "kind", "reason"),
    [
        (408, "Timeout error: the request took too long", BackendTimeout, Reason.TIMEOUT),
        (429, "Rate limit", BackendUnavailable, Reason.UNAVAILABLE),
        (500, "Service internal error", BackendUnavailable, Reason.UNAVAILABLE),
        (503, "Timeout error", BackendTimeout, Reason.TIMEOUT),
        (404, "Not found: No point with id 7 found", BackendBadResponse, Reason.REFUSED),
    ],
)
def test_other_answers_by_status(status: int, said: str, kind: type[BackendError], reason: Reason) -> None:
    """An overload and a failure stay outages, and not everything that isn't there is a collection."""
    error = error_of("qdrant", status, body({"status": {"error": said}}))
    assert (type(error), error.reason) == (kind, reason)


@pytest.mark.parametrize("content", [b"", b"<html>secrets of a proxy</html>", b"{}", b"[1]", b'{"status": "ok"}'])
@pytest.mark.parametrize("status", [400, 404, 502])
def test_words_that_are_not_qdrants_are_not_told(content: bytes, status: int) -> None:
    """A proxy's page is told by its status alone, and is no refusal of Qdrant's."""
    error = error_of("qdrant", status, content)
    assert str(error) == f"qdrant: status {status}"
    assert error.reason in {Reason.BAD_RESPONSE, Reason.UNAVAILABLE}


@pytest.mark.parametrize("content", [b"", b"<html>408 Request Time-out</html>"])
def test_a_time_out_without_qdrants_words_is_of_the_request(content: bytes) -> None:
    """The HTTP server before Qdrant got no whole request: nothing was searched, so that it may be sent again."""
    error = error_of("qdrant", 408, content)
    assert (type(error), error.unread) == (BackendUnavailable, True)
    assert str(error) == "qdrant: status 408: no request reached it in time"


@given(
    st.sampled_from([400, 401, 403, 404, 500, 503]),
    st.binary() | st.text().map(lambda said: body({"status": {"error": said}})),
)
def test_whatever_it_says_is_one_bounded_line(status: int, content: bytes) -> None:
    """No text of a server breaks a line, holds control characters or floods the log."""
    said = str(error_of("qdrant", status, content))
    assert said.isprintable()
    assert len(said) <= 350


@pytest.mark.parametrize("headers", [{"api-key": "sesame"}, {"authorization": "Bearer sesame"}])
async def test_a_key_that_a_server_quotes_is_not_told(headers: dict[str, str]) -> None:
    """A header's content is masked in the server's words."""
    refusal = httpx.Response(401, text="Invalid API key or JWT: sesame")
    endpoint = Endpoint("qdrant", "http://q", httpx.MockTransport(lambda _: refusal), headers, dialect=QDRANT)
    with pytest.raises(BackendError) as caught:
        await endpoint.call("GET", "/", timeout=5)
    assert str(caught.value) == "qdrant: status 401: Invalid API key or JWT: ***"
    assert caught.value.__context__ is None


def test_a_path_names_its_collection() -> None:
    """The collection of a request is known by its path, whatever characters it has."""
    assert collection_of("/collections/a%2Fb/points/query/batch?timeout=2") == "a/b"
    assert collection_of("/collections/docs") == "docs"
    assert collection_of("/readyz") == ""


@pytest.mark.parametrize(
    ("status", "content", "alone"),
    [
        (429, {"status": {"error": "Rate limiting exceeded: Read rate limit exceeded, please try to split"}}, True),
        (429, {"status": {"error": "Rate limiting exceeded: Write rate limit exceeded"}}, True),
        (429, "Too many requests", False),
        (429, {"message": "slow down"}, False),
        (503, {"status": {"error": "Service unavailable"}}, False),
    ],
)
def test_a_rate_that_qdrant_bounds_is_one_collections(status: int, content: object, alone: bool) -> None:
    """A proxy's bound is one of all requests."""
    error = error_of("qdrant", status, body(content))
    assert isinstance(error, BackendUnavailable)
    assert (error.blame is Blame.CONFIGURATION) is alone


@pytest.mark.parametrize("calls", [1, OPENS_AFTER, 40])
async def test_a_bounded_collection_takes_nothing_from_another(calls: int) -> None:
    """However many of its requests are refused and wait, those to another collection are answered at once."""

    def answer(request: httpx.Request) -> httpx.Response:
        if collection_of(request.url.path) == "bounded":
            said = {"status": {"error": "Rate limiting exceeded: Read rate limit exceeded"}}
            return httpx.Response(429, headers={"retry-after": "5"}, content=orjson.dumps(said))
        return httpx.Response(200, content=b'{"result": 1}')

    endpoint = Endpoint("qdrant", "http://qdrant", httpx.MockTransport(answer), dialect=QDRANT)
    backend = Resilient(endpoint)
    path = "/collections/{}/points/count"

    async def ask(collection: str) -> Any:
        return await backend.ask(Call(path.format(collection), {}, lambda each: each["result"]), timeout=30)

    waiting = [asyncio.create_task(ask("bounded")) for _ in range(calls)]
    await asyncio.sleep(0)
    for _ in range(20):
        assert await ask("free") == 1
    assert not any(each.done() for each in waiting)
    for each in waiting:
        each.cancel()
    await asyncio.gather(*waiting, return_exceptions=True)
