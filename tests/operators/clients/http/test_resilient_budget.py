"""However much fails, a backend gets few more calls than there are requests."""

import asyncio
import random
from collections.abc import Iterable
from itertools import count, cycle, islice

import pytest

from schemas.errors import BackendError
from tests.operators.clients.http.resilience import BREAK, HANG, Scripted, ask, ask_each, guarding, refused

pytestmark = pytest.mark.slow

REQUESTS = 500

HALF = [503, 200]
HALF_BROKEN = [BREAK, 200]
FOUR_OF_FIVE = [504, 503, 502, 504, 200]


def scattered(seed: int) -> list[int]:
    """Half of the calls fail, in no order."""
    return random.Random(seed).choices([503, 200], k=2 * REQUESTS)


def many(script: Iterable[int], *, concurrency: int) -> tuple[Scripted, list[str | BackendError]]:
    """A server that plays a script over and over, and what comes of REQUESTS requests, so many at a time."""
    server = Scripted(islice(cycle(script), 3 * REQUESTS))

    async def scenario() -> list[str | BackendError]:
        # Each look at the clock is a second later: an open breaker has always rested.
        async with guarding(server, clock=count(0.0, 1.0).__next__) as guarded:
            left = iter(range(REQUESTS))

            async def ask_on() -> list[str | BackendError]:
                return [await ask(guarded, timeout=1e6) for _ in left]

            parts = await asyncio.gather(*(ask_on() for _ in range(concurrency)))
            return [outcome for part in parts for outcome in part]

    return server, asyncio.run(scenario())


@pytest.mark.parametrize("concurrency", [1, 16])
@pytest.mark.parametrize("script", [HALF, HALF_BROKEN, FOUR_OF_FIVE, scattered(1), scattered(2)])
def test_calls_stay_within_a_fifth_over_the_requests(script: list[int], concurrency: int) -> None:
    """Of 500 requests, many of whose calls fail, the server gets 1.2 calls each and 3 more at the most."""
    server, outcomes = many(script, concurrency=concurrency)
    sent = len(outcomes) - refused(outcomes)
    assert len(outcomes) == REQUESTS
    assert sent <= server.calls <= 1.2 * sent + 3


@pytest.mark.parametrize("script", [HALF, HALF_BROKEN, FOUR_OF_FIVE])
def test_the_budget_is_used(script: list[int]) -> None:
    """One at a time, half or more failing but never five in a row, all that the budget gives is spent on retries."""
    server, outcomes = many(script, concurrency=1)
    assert refused(outcomes) == 0
    assert 1.2 * REQUESTS - 2 <= server.calls <= 1.2 * REQUESTS + 3


async def test_without_a_budget_left_the_error_is_the_calls() -> None:
    """A request whose retry the budget doesn't give ends at once with its own call's error."""
    server = Scripted([503, 200] * 3 + [503, 200])
    async with guarding(server) as guarded:
        *right, error = await ask_each(guarded, 4)
    assert right == ["right"] * 3
    assert isinstance(error, BackendError)
    assert error.status == 503
    assert server.calls == 7


async def test_cancelled_requests_are_not_active() -> None:
    """Requests cancelled in a call or in a pause leave no room behind for retries of others."""
    server = Scripted([HANG])

    async def cancel_when_arrived(task: asyncio.Task[str | BackendError]) -> None:
        await server.called(server.calls + 1)
        # In a pause, unless it still waits for a server that hangs.
        await asyncio.sleep(0.02)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    pause = 20.0

    async def scenario() -> int:
        nonlocal pause
        async with guarding(server, jitter=lambda _: pause) as guarded:
            for number in range(60):
                # The successes between keep the breaker closed and pay for the retry.
                server.then(*[200] * 5, HANG if number % 2 else 503)
                await ask_each(guarded, 5)
                await cancel_when_arrived(asyncio.create_task(ask(guarded)))
            pause = 0.0
            server.then(200)
            await ask_each(guarded, 100)
            before = server.calls
            server.script = cycle([503, 200])
            await ask_each(guarded, 30)
            return server.calls - before - 30

    assert await scenario() <= 3 + 30 // 5
