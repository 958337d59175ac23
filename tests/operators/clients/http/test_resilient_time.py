"""The time-out holds whatever a backend does, and a short one is the caller's affair."""

import asyncio
import time
from collections.abc import Awaitable, Callable

import pytest

from operators.clients.http.backend import SILENCE, Backend
from operators.clients.http.transport import Call
from schemas.errors import BackendError, BackendTimeout, BackendUnavailable
from tests.operators.clients.http.resilience import (
    BREAK,
    GARBAGE,
    HANG,
    Clock,
    Scripted,
    ask,
    ask_at_once,
    ask_each,
    guarding,
    refused,
)

pytestmark = pytest.mark.slow

TIMEOUT = 0.4


async def timed(guarded: Backend, *, timeout: float) -> tuple[str | BackendError, float]:
    """The outcome of one request, and in how many times its time-out."""
    started = time.monotonic()
    outcome = await ask(guarded, timeout=timeout)
    return outcome, (time.monotonic() - started) / timeout


@pytest.mark.parametrize(
    "script", [[HANG], [503, HANG], [BREAK, 503, HANG], [503], [BREAK], [GARBAGE], [500, GARBAGE, BREAK, HANG]]
)
@pytest.mark.parametrize("share", [0.0, 0.5, 1.0])
def test_requests_end_within_their_timeout(script: list[int], share: float) -> None:
    """Whatever fails, with pauses of any length, every one of 20 requests ends in about its time-out at the latest."""

    async def scenario() -> list[tuple[str | BackendError, float]]:
        async with guarding(Scripted(script), jitter=lambda longest: share * longest) as guarded:
            return await asyncio.gather(*(timed(guarded, timeout=TIMEOUT) for _ in range(20)))

    def in_time() -> bool:
        ended = asyncio.run(scenario())
        assert all(isinstance(outcome, BackendError) for outcome, _ in ended)
        return max(took for _, took in ended) < 4

    # One time in three is enough: the machine may stand still for a moment.
    assert any(in_time() for _ in range(3))


async def test_a_hang_is_a_timeout() -> None:
    """A backend that doesn't answer costs the time-out, once: it isn't asked again."""
    server = Scripted([HANG])
    async with guarding(server) as guarded:
        outcome, took = await timed(guarded, timeout=TIMEOUT)
    assert type(outcome) is BackendTimeout
    assert 0.9 < took < 40
    assert server.calls == 1


async def test_a_retry_has_what_is_left() -> None:
    """A retry that hangs ends at the request's deadline, not a whole time-out after its own beginning."""
    server = Scripted([503, HANG])
    clock = Clock()
    server.before = lambda: clock.pass_by(59.6 if server.calls == 1 else 0.0)
    async with guarding(server, clock=clock) as guarded:
        outcome, took = await timed(guarded, timeout=60.0)
    assert type(outcome) is BackendTimeout
    # A whole time-out of its own would end at 1.
    assert took < 0.5
    assert server.calls == 2


@pytest.mark.parametrize("pause", [30.0, 1000.0])
async def test_a_pause_beyond_the_deadline_is_not_begun(pause: float) -> None:
    """A pause that would end at the deadline or later is not made: the call's own error comes at once."""
    server = Scripted([503, 200])
    async with guarding(server, clock=Clock(), jitter=lambda _: pause) as guarded:
        outcome, took = await timed(guarded, timeout=30.0)
    assert type(outcome) is BackendUnavailable
    assert took < 0.5
    assert server.calls == 1


async def test_nothing_is_sent_after_the_deadline() -> None:
    """A pause that lasts longer than it was meant to, past the deadline, ends in the first call's error."""
    server = Scripted([503, 200])
    clock = Clock()

    def oversleep(_: float) -> float:
        asyncio.get_running_loop().call_soon(clock.pass_by, 30.0)
        return 0.01

    async with guarding(server, clock=clock, jitter=oversleep) as guarded:
        outcome = await ask(guarded, timeout=30.0)
    assert isinstance(outcome, BackendUnavailable)
    assert outcome.status == 503
    assert server.calls == 1


@pytest.mark.parametrize("where", ["call", "pause"])
async def test_a_cancelled_request_ends_at_once(where: str) -> None:
    """Cancelled in a call or in a pause, a request ends with the cancellation, sends nothing more and harms nobody."""
    server = Scripted([HANG if where == "call" else 503, 200])
    pausing = asyncio.Event()

    def pause(_: float) -> float:
        pausing.set()
        return 20.0

    async with guarding(server, jitter=pause) as guarded:
        task = asyncio.create_task(guarded.ask(Call("/path", {}, lambda answer: answer), timeout=30.0))
        await (server.arrived if where == "call" else pausing).wait()
        started = time.monotonic()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        took, calls, next_one = time.monotonic() - started, server.calls, await ask(guarded)
    assert (calls, next_one) == (1, "right")
    assert took < 5.0


def after_an_answer_of(seconds: float, scenario: Callable[[Backend, Scripted, Clock], Awaitable[None]]) -> None:
    """Run a scenario with a backend that has answered once, in `seconds` by a clock that otherwise stands still."""

    async def run() -> None:
        clock = Clock()
        server = Scripted([200])
        server.before = lambda: clock.pass_by(seconds)
        async with guarding(server, clock=clock) as guarded:
            assert await ask(guarded) == "right"
            server.before = lambda: None
            await scenario(guarded, server, clock)

    asyncio.run(run())


def test_a_hopeless_deadline_shuts_nobody_off() -> None:
    """Time-outs shorter than the last answer took never open the breaker; five as long as it do."""

    async def scenario(guarded: Backend, server: Scripted, _: Clock) -> None:
        server.then(HANG)
        short = await ask_at_once(guarded, 30, timeout=0.125)
        assert [type(outcome) for outcome in short] == [BackendTimeout] * 30
        assert refused(await ask_at_once(guarded, 5, timeout=0.25)) == 0
        assert refused(await ask_each(guarded, 3)) == 3

    after_an_answer_of(0.25, scenario)


async def test_without_an_answer_yet_every_timeout_counts() -> None:
    """Five time-outs of a backend that has never answered open its breaker, however short."""
    server = Scripted([HANG])
    async with guarding(server) as guarded:
        assert refused(await ask_at_once(guarded, 5, timeout=0.05)) == 0
        assert refused(await ask_each(guarded, 3)) == 3


def test_a_refusal_is_no_measure_of_an_answer() -> None:
    """A quick refusal says nothing of how long an answer takes: short time-outs still don't count."""

    async def scenario(guarded: Backend, server: Scripted, _: Clock) -> None:
        server.then(413, 422, 400, HANG)
        await ask_each(guarded, 3)
        await ask_at_once(guarded, 10, timeout=0.125)
        server.then(200)
        assert await ask(guarded) == "right"

    after_an_answer_of(0.25, scenario)


@pytest.mark.parametrize(
    ("waited", "given", "opens"),
    [(0.0, 8.0, False), (2.0, 8.0, False), (7.75, 8.0, True), (9.0, 8.0, True), (0.5, 0.5, False)],
)
def test_a_call_cancelled_at_its_deadline_is_late(waited: float, given: float, opens: bool) -> None:
    """Cancelled at the end of a time as long as an answer took a call is a failure, else it is nothing."""

    async def scenario(guarded: Backend, server: Scripted, clock: Clock) -> None:
        server.then(HANG)
        tasks = [asyncio.create_task(ask(guarded, timeout=given)) for _ in range(5)]
        await server.called(6)
        clock.pass_by(waited)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        server.then(200)
        assert refused([await ask(guarded)]) == opens

    after_an_answer_of(1.0, scenario)


def test_a_backend_gone_silent_is_shut_off_whatever_the_deadlines() -> None:
    """Once nothing was answered for ten times as long as an answer took, time-outs with less time are failures, too."""

    async def scenario(guarded: Backend, server: Scripted, clock: Clock) -> None:
        server.then(HANG)
        await ask_at_once(guarded, 10, timeout=0.125)
        clock.pass_by(SILENCE * 0.25 + 0.001)
        assert not refused(await ask_at_once(guarded, 5, timeout=0.125))
        server.then(200)
        assert refused([await ask(guarded)])

    after_an_answer_of(0.25, scenario)
