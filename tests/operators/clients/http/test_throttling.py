"""An overloaded server gets fewer calls, and no request is lost for it; it is obeyed when it names a time."""

import asyncio
import time
from email.utils import formatdate

import httpx
import pytest
from aiohttp import web

from operators.clients.admission import OPENS_AFTER, Breaker
from operators.clients.http.backend import full_jitter
from operators.clients.http.transport import Endpoint
from schemas.errors import BackendError, BackendUnavailable
from tests.operators.clients.http.resilience import (
    Clock,
    Scripted,
    ask,
    ask_at_once,
    ask_each,
    guarding,
)
from tests.operators.clients.http.serving import json_response
from tests.pauses import replace_sleep


class Permits:
    """A server that works on so many calls at a time, and answers further ones with 429."""

    def __init__(self, permits: int) -> None:
        self._free = permits
        self.throttled = 0

    async def __call__(self, _: web.Request) -> web.StreamResponse:
        """Answer a call."""
        if not self._free:
            self.throttled += 1
            return json_response({"error": "overloaded"}, 429)
        self._free -= 1
        try:
            await asyncio.sleep(0.005)
            return json_response({"answer": "right"})
        finally:
            self._free += 1


async def throttled_calls(replicas: int) -> int:
    """The calls that a server with 12 permits refuses while each of the replicas has 200 requests at once."""
    server = Permits(12)
    async with guarding(server, jitter=full_jitter) as first, guarding(server, jitter=full_jitter) as second:
        bursts = await asyncio.gather(*(ask_at_once(each, 200) for each in (first, second)[:replicas]))
        assert [outcome for burst in bursts for outcome in burst] == ["right"] * 200 * replicas
    return server.throttled


def test_a_burst_over_the_permits_is_answered_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    """No request of one replica or two is lost, and a server refuses fewer calls than without a window of calls.

    Of two replicas these are usually 500 and 1,100; a stall of the machine makes them more: the best of five counts.
    """
    assert asyncio.run(throttled_calls(1)) > 0
    narrowed = min(asyncio.run(throttled_calls(2)) for _ in range(5))
    monkeypatch.setattr(Breaker, "throttle", lambda *_: None)
    assert 0 < narrowed < min(asyncio.run(throttled_calls(2)) for _ in range(5))


async def test_five_throttled_calls_do_not_lose_the_next_hundred() -> None:
    """Throttled calls among others lower the number of calls and open no breaker."""
    server = Scripted([429] * OPENS_AFTER + [200])
    async with guarding(server) as guarded:
        assert await ask_at_once(guarded, 100) == ["right"] * 100


def with_retry_after(value: str, statuses: list[int]) -> Scripted:
    """A scripted server whose answers have the header."""

    class Server(Scripted):
        async def __call__(self, request: web.Request) -> web.StreamResponse:
            response = await super().__call__(request)
            response.headers["retry-after"] = value
            return response

    return Server(statuses)


def slept(server: Scripted, timeout: float, monkeypatch: pytest.MonkeyPatch) -> tuple[str | BackendError, list[float]]:
    """The outcome of a request, and its pauses, none of which is made."""
    pauses: list[float] = []
    sleep, clock = asyncio.sleep, Clock()

    async def sleeping(seconds: float) -> None:
        if seconds > 1:
            pauses.append(seconds)
        clock.pass_by(seconds)
        await sleep(0)

    async def scenario() -> str | BackendError:
        async with guarding(server, clock=clock) as guarded:
            replace_sleep(monkeypatch, sleeping)
            return await ask(guarded, timeout=timeout)

    return asyncio.run(scenario()), pauses


@pytest.mark.parametrize("status", [429, 503])
def test_the_pause_is_as_long_as_the_server_asks(status: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """A request is tried again after `Retry-After`, where there is time for it."""
    assert slept(with_retry_after("7", [status, 200]), 30.0, monkeypatch) == ("right", [7.0])


@pytest.mark.parametrize("status", [429, 503])
def test_a_pause_past_the_deadline_is_not_begun(status: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """A request whose time ends before `Retry-After` fails at once."""
    outcome, pauses = slept(with_retry_after("7", [status, 200]), 5.0, monkeypatch)
    assert isinstance(outcome, BackendUnavailable)
    assert pauses == []


@pytest.mark.parametrize("status", [429, 503])
@pytest.mark.parametrize("calls", [1, 5, 20])
async def test_nobody_calls_before_the_time_that_the_server_names(status: int, calls: int) -> None:
    """Behind calls that were under way together nothing is sent for seven seconds; then one call, not all that wait."""
    server = with_retry_after("7", [status])
    clock = Clock()
    async with guarding(server, clock=clock) as guarded:
        await ask_at_once(guarded, calls, timeout=5.0)
        before = server.calls
        clock.pass_by(6.9)
        await ask_each(guarded, 3, timeout=0.05)
        held = server.calls - before
        clock.pass_by(0.2)
        await ask_at_once(guarded, 8, timeout=5.0)
        assert (held, server.calls - before) == (0, 1)


@pytest.mark.parametrize(
    ("value", "least", "most"),
    [
        (None, 0.0, 0.0),
        ("", 0.0, 0.0),
        ("120", 120.0, 120.0),
        (" 3 ", 3.0, 3.0),
        ("-1", 0.0, 0.0),
        ("1.5", 1.5, 1.5),
        ("0.25", 0.25, 0.25),
        ("2.", 2.0, 2.0),
        ("1, 1", 1.0, 1.0),
        ("2.5,7", 2.5, 2.5),
        ("3, soon", 3.0, 3.0),
        (".", 0.0, 0.0),
        ("1.5.2", 0.0, 0.0),
        ("1_0", 0.0, 0.0),
        ("\u0663", 0.0, 0.0),
        ("nan", 0.0, 0.0),
        ("inf", 0.0, 0.0),
        ("1e9", 0.0, 0.0),
        ("9" * 400, 1e8, 1e9),
        ("9" * 400 + ".5", 1e8, 1e9),
        ("in an hour", 3500.0, 3600.0),
        ("in an hour, twice", 3500.0, 3600.0),
        ("an hour ago", 0.0, 0.0),
        ("soon", 0.0, 0.0),
        ("Mon, 01 Jan 2024 00:00:00 +99999999999999", 0.0, 0.0),
        ("Mon, 01 Jan 2024 99999999999999999999:00:00 GMT", 0.0, 0.0),
        ("Mon, 01 Jan 99999999999999999999 00:00:00 GMT", 0.0, 0.0),
    ],
)
def test_retry_after_is_seconds_or_a_date(value: str | None, least: float, most: float) -> None:
    """Both forms of the header are read, the first of several; anything else is none."""
    dates = {"in an hour": time.time() + 3600, "an hour ago": time.time() - 3600}
    if value in dates:
        value = formatdate(dates[value], usegmt=True)
    elif value == "in an hour, twice":
        value = ", ".join([formatdate(dates["in an hour"], usegmt=True)] * 2)
    assert least <= retry_after({} if value is None else {"retry-after": value.encode()}) <= most


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({"retry-after-ms": b"1500"}, 1.5),
        ({"retry-after-ms": b"20.5"}, 0.0205),
        ({"retry-after-ms": b"700, 700"}, 0.7),
        ({"retry-after-ms": b"soon"}, 0.0),
        ({"retry-after-ms": b"-1"}, 0.0),
        ({"retry-after-ms": b"1500", "retry-after": b"7"}, 7.0),
        ({"retry-after-ms": b"1500", "retry-after": b""}, 1.5),
        ({"retry-after-ms": b"9" * 400}, 1e9),
    ],
)
def test_retry_after_may_be_milliseconds(headers: dict[str, bytes], seconds: float) -> None:
    """A server that names milliseconds alone is obeyed, too."""
    assert retry_after(headers) == pytest.approx(seconds)


def retry_after(headers: dict[str, bytes]) -> float:
    """The pause that an error has of an answer with these headers."""

    def answer(_: httpx.Request) -> httpx.Response:
        return httpx.Response(429, headers={name.encode(): value for name, value in headers.items()}, content=b"{}")

    async def scenario() -> float:
        endpoint = Endpoint("backend", "http://backend", httpx.MockTransport(answer))
        with pytest.raises(BackendUnavailable) as caught:
            await endpoint.call("POST", "/path", {}, timeout=30)
        return caught.value.retry_after

    return asyncio.run(scenario())


async def test_a_cancelled_request_leaves_its_turn_to_the_next() -> None:
    """Of the requests that wait for the first call after an outage, one that is cancelled holds up no other."""
    server = Scripted([500])
    clock = Clock()
    async with guarding(server, clock=clock) as guarded:
        await ask_each(guarded, OPENS_AFTER)
        clock.pass_by(1.0)
        answer = asyncio.Event()
        server.held = answer
        server.then(200)
        calls = server.calls
        first, second, third = [asyncio.create_task(ask(guarded)) for _ in range(3)]
        await server.called(calls + 1)
        second.cancel()
        answer.set()
        assert [await first, await third] == ["right", "right"]
        with pytest.raises(asyncio.CancelledError):
            await second
        assert server.calls == calls + 2
