"""The log of a backend that fails and is well again."""

import asyncio
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

import pytest
from aiohttp import web
from structlog.testing import capture_logs

from operators.clients.http.backend import Backend, Resilient
from operators.clients.http.transport import Call, Endpoint, http_transport
from operators.clients.qdrant.answers import QDRANT
from schemas.errors import BackendError
from tests.operators.clients.http.resilience import BREAK, Clock, Scripted, ask, guarding
from tests.operators.clients.http.serving import answering, json_response

Lines = list[MutableMapping[str, Any]]


def logged(server: Scripted, scenario: Callable[[Backend, Clock], Awaitable[object]]) -> Lines:
    """The log while the scenario runs."""

    async def run() -> None:
        clock = Clock()
        async with guarding(server, clock=clock) as guarded:
            await scenario(guarded, clock)

    with capture_logs() as lines:
        asyncio.run(run())
    return lines


@pytest.mark.parametrize(
    ("status", "reason", "error"),
    [
        (500, "unavailable", "backend: status 500"),
        (401, "unauthorized", "backend: status 401"),
        (404, "bad_response", "backend: status 404"),
    ],
)
def test_an_outage_has_warnings_and_an_end(status: int, reason: str, error: str) -> None:
    """Each warning says who, where and why, so that they are of one kind; and one line that it is over."""
    server = Scripted([status])

    async def scenario(guarded: Backend, clock: Clock) -> None:
        for _ in range(4):
            await ask(guarded)
            clock.pass_by(1.0)
        server.then(200)
        for _ in range(3):
            await ask(guarded)

    failing, *same, well = logged(server, scenario)
    assert same == [failing] * 3
    address = failing.pop("address")
    assert address.startswith("http://127.0.0.1:")
    told = {"event": "backend is failing", "backend": "backend", "reason": reason, "error": error, "count": 1}
    assert failing == {**told, "log_level": "warning"}
    over = {"event": "backend is well again", "backend": "backend", "address": address, "reason": reason}
    assert well == {**over, "after_s": 4.0, "count": 4, "log_level": "info"}


def test_a_break_that_a_retry_mends_is_over_at_once() -> None:
    """A try that failed is said, with the address and the cause, and so is that the next one was answered."""
    lines = logged(Scripted([BREAK, 200]), lambda guarded, _: ask(guarded))
    assert [line["event"] for line in lines] == ["backend is failing", "backend is well again"]
    assert lines[0]["error"] == f"backend at {lines[0]['address']}: the connection broke"


def test_a_refused_request_is_no_outage() -> None:
    """A request that is refused for what is in it is said as that, and no success takes it back."""
    lines = logged(Scripted([400, 200]), lambda guarded, _: asyncio.gather(ask(guarded), ask(guarded)))
    assert [line["event"] for line in lines] == ["backend refuses requests"]


async def test_a_key_for_one_of_two_collections() -> None:
    """Of the collection that the key may not see nothing is taken back by the one that it may see."""

    async def one_of_two(request: web.Request) -> web.Response:
        if request.path.startswith("/collections/mine/"):
            return json_response({})
        return json_response({"status": {"error": "Forbidden: Access to collection theirs is required"}}, 403)

    with capture_logs() as lines:
        async with answering(one_of_two) as url:
            qdrant = Resilient(Endpoint("qdrant", url, http_transport(), {"api-key": "sesame"}, dialect=QDRANT))
            for _ in range(20):
                for collection in ("mine", "theirs"):
                    try:
                        path = f"/collections/{collection}/points"
                        await qdrant.ask(Call(path, {}, lambda _: None, repeatable=True), timeout=10)
                    except BackendError:
                        assert collection == "theirs"
            await qdrant.aclose()
    line = lines[0]
    assert all(each == line for each in lines)
    assert line["collection"] == "theirs"
    assert line["reason"] == "unauthorized"
    assert line["error"] == "qdrant: status 403: Forbidden: Access to collection theirs is required"
