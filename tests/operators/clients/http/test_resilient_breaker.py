"""A backend that keeps failing is left alone, for its failures alone, and found again when it is back."""

import asyncio

import pytest

from operators.clients.http.backend import Backend, Resilient
from operators.clients.http.transport import Call
from schemas.errors import BackendBadResponse, BackendError, BackendTimeout, BackendUnavailable, Reason
from tests.operators.clients.http.resilience import (
    BREAK,
    GARBAGE,
    HANG,
    Clock,
    Pauses,
    Scripted,
    ask,
    ask_at_once,
    ask_each,
    guarding,
    read,
    refused,
    unused_port,
)
from tests.operators.clients.http.serving import backend
from tests.pauses import replace_sleep


async def opened(guarded: Backend, server: Scripted) -> None:
    """Let a backend fail until its breaker is open, with five calls."""
    server.then(500)
    before = server.calls
    assert refused(await ask_each(guarded, 6)) == 1
    assert server.calls == before + 5


@pytest.mark.parametrize("failing", [429, 500, 503, 404, 424, BREAK, GARBAGE])
async def test_five_failures_leave_a_backend_alone(failing: int) -> None:
    """After five failed calls of any kind, retries among them, it gets no call more and requests fail at once."""
    server = Scripted([failing])
    async with guarding(server, clock=Clock()) as guarded:
        outcomes = await ask_each(guarded, 40)
    assert server.calls == 5
    assert refused(outcomes) >= 35
    assert type(outcomes[-1]) is BackendUnavailable
    assert str(outcomes[-1]).startswith("backend: ")


@pytest.mark.parametrize("status", [401, 403])
async def test_a_refused_key_is_told_each_time(status: int) -> None:
    """A refused key never opens the breaker, which would hide its reason, and is never tried again."""
    server = Scripted([status])
    async with guarding(server) as guarded:
        outcomes = await ask_each(guarded, 20)
    assert [outcome.reason for outcome in outcomes if isinstance(outcome, BackendError)] == [Reason.UNAUTHORIZED] * 20
    assert server.calls == 20


async def test_nobody_listening_opens_it() -> None:
    """Connections that are refused open the breaker, too."""
    async with backend(f"http://127.0.0.1:{unused_port()}") as endpoint:
        assert refused(await ask_each(Resilient(endpoint, Clock(), lambda _: 0.0), 10)) == 8


async def test_answers_that_read_refuses_open_it() -> None:
    """Five answers that are JSON and nothing that `read` takes are five failures."""
    server = Scripted([200])

    def refuse(_: object) -> str:
        raise BackendBadResponse("backend: wrong scores")

    async with guarding(server, clock=Clock()) as guarded:
        for _ in range(5):
            with pytest.raises(BackendBadResponse, match="wrong scores"):
                await guarded.ask(Call("/path", {}, refuse), timeout=30)
        assert refused([await ask(guarded)]) == 1

    assert server.calls == 5


@pytest.mark.parametrize("refusal", [400, 413, 422])
async def test_a_refused_request_shows_a_living_server(refusal: int) -> None:
    """Refusals of the request itself never open the breaker, and end a row of failures as an answer does."""
    server = Scripted([refusal])
    async with guarding(server) as guarded:
        assert refused(await ask_each(guarded, 20)) == 0
        server.then(*[500, 500, 500, 500, refusal] * 5, 200)
        assert refused(await ask_each(guarded, 25)) == 0


async def test_four_failures_in_a_row_do_not_open_it() -> None:
    """An answer after every four failures keeps the breaker closed for good."""
    server = Scripted([500, 500, 500, 500, 200] * 10)
    async with guarding(server) as guarded:
        assert refused(await ask_each(guarded, 50)) == 0


async def test_what_was_never_sent_does_not_open_it() -> None:
    """Requests that can't be written, or come without time, end a row of failures as little as they lengthen it."""
    server = Scripted([200])
    async with guarding(server, clock=Clock()) as guarded:
        for _ in range(10):
            assert type(await ask(guarded, body="\ud800")) is BackendBadResponse
            assert type(await ask(guarded, timeout=0.0)) is BackendTimeout
            assert type(await ask(guarded, timeout=-1.0)) is BackendTimeout
        assert await ask(guarded) == "right"
        server.then(500)
        await ask_each(guarded, 4)
        await ask(guarded, body="\ud800")
        await ask(guarded, timeout=0.0)
        assert refused(await ask_each(guarded, 2)) == 1


async def test_calls_come_back_in_growing_number() -> None:
    """After its rest a backend gets one call of fifty that come together, then two, four and so on: none is refused.

    They wait for twice the time of the slowest answer, which was 20 s here: a machine that is slow does not matter.
    """
    clock = Clock()
    server = Scripted([200])
    async with guarding(server, clock=clock) as guarded:
        server.before = lambda: clock.pass_by(20.0)
        assert await ask(guarded) == "right"
        server.before = lambda: None
        await opened(guarded, server)
        clock.pass_by(1.0)
        server.then(200)
        assert await ask_at_once(guarded, 50) == ["right"] * 50


@pytest.mark.parametrize("failing", [500, 503, GARBAGE])
async def test_a_failed_probe_is_one_call(failing: int) -> None:
    """A probe that fails is not tried again, nor is there a pause, and the backend rests again."""
    clock = Clock()
    pauses = Pauses()
    server = Scripted([500])
    async with guarding(server, clock=clock, jitter=pauses) as guarded:
        await opened(guarded, server)
        for calls in (6, 7, 8):
            clock.pass_by(1.0)
            server.then(failing)
            assert refused(await ask_at_once(guarded, 20)) == 19
            assert server.calls == calls
    assert pauses == []


async def test_a_breaker_that_opens_while_a_request_pauses_ends_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """A request whose breaker opens during its pause ends with its own call's error, and makes no other."""
    server = Scripted([503, 500])
    pause, sleep = 5.0, asyncio.sleep
    others: list[str | BackendError] = []
    async with guarding(server, clock=Clock(), jitter=lambda _: pause) as guarded:

        async def sleeping(seconds: float) -> None:
            # The pause ends with the others' calls, however long they take.
            if seconds == pause:
                others.extend(await ask_each(guarded, 4))
            else:
                await sleep(seconds)

        replace_sleep(monkeypatch, sleeping)
        outcome = await ask(guarded)
    assert len(others) == 4
    assert isinstance(outcome, BackendUnavailable)
    assert outcome.status == 503
    assert server.calls == 5


async def probe_for_nothing(how: str, guarded: Backend, server: Scripted) -> None:
    """Let a probe end without showing whether the backend works."""
    if how == "cancelled":
        server.then(HANG)
        probe = asyncio.create_task(ask(guarded))
        await server.called(server.calls + 1)
        assert refused(await ask_each(guarded, 3)) == 3
        probe.cancel()
        with pytest.raises(asyncio.CancelledError):
            await probe
    elif how == "hopeless":
        server.then(HANG)
        assert type(await ask(guarded, timeout=0.05)) is BackendTimeout
    elif how == "unwritten":
        assert type(await ask(guarded, body="\ud800")) is BackendBadResponse
    else:

        def fail(_: object) -> str:
            raise ZeroDivisionError

        server.then(200)
        with pytest.raises(ZeroDivisionError):
            await guarded.ask(Call("/path", {}, fail), timeout=30)


@pytest.mark.parametrize("how", ["cancelled", "hopeless", "unwritten", "defect"])
async def test_a_probe_that_tells_nothing_gives_its_place_back(how: str) -> None:
    """A probe that is cancelled, too short, not sent or lost in a defect of ours leaves the next caller to probe."""
    clock = Clock()
    server = Scripted([200])

    async with guarding(server, clock=clock) as guarded:
        # The last answer took a second by this clock: what ends sooner tells nothing.
        server.before = lambda: clock.pass_by(1.0)
        await ask(guarded)
        server.before = lambda: None
        await opened(guarded, server)
        clock.pass_by(1.0)
        await probe_for_nothing(how, guarded, server)
        server.then(200)
        assert await guarded.ask(Call("/path", {}, read), timeout=30) == "right"
