"""Retries: which errors, how often, and the outcome."""

import asyncio
import traceback
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from operators.clients.http.backend import Resilient, full_jitter, longest_pause
from operators.clients.http.transport import Call
from schemas.errors import BackendBadResponse, BackendError, BackendTimeout, BackendUnavailable
from tests.operators.clients.http.resilience import BREAK, GARBAGE, Pauses, Scripted, ask, guarding, read, unused_port
from tests.operators.clients.http.serving import backend


def outcome_of(server: Scripted, *, timeout: float = 30.0, body: object = "question") -> str | BackendError:
    """The outcome of one request to a server, without pauses."""

    async def scenario() -> str | BackendError:
        async with guarding(server) as guarded:
            return await ask(guarded, timeout=timeout, body=body)

    return asyncio.run(scenario())


@pytest.mark.parametrize("passing", [429, 502, 503, 504, *range(520, 527), 529, 530, BREAK])
@pytest.mark.parametrize("times", [1, 2])
def test_what_may_pass_is_tried_again(passing: int, times: int) -> None:
    """An overload, a gateway's error and a broken answer, once or twice over, end in the answer, the same body sent."""
    server = Scripted([*[passing] * times, 200])
    assert outcome_of(server, body={"text": "é\n", "number": 0.1}) == "right"
    assert server.bodies == [{"text": "é\n", "number": 0.1}] * (times + 1)


@pytest.mark.parametrize("passing", [502, 503, 504, 520, 524, 529, 530])
def test_three_tries_and_no_more(passing: int) -> None:
    """A server that stays overloaded gets three calls for a request, and the error is the last one's."""
    server = Scripted([503, 503, passing, 200])
    error = outcome_of(server)
    assert isinstance(error, BackendUnavailable)
    assert error.status == passing
    assert server.calls == 3


@pytest.mark.parametrize(
    ("final", "kind"),
    [
        (400, BackendBadResponse),
        (401, BackendBadResponse),
        (404, BackendBadResponse),
        (408, BackendTimeout),
        (413, BackendBadResponse),
        (422, BackendBadResponse),
        (424, BackendBadResponse),
        (500, BackendUnavailable),
        (501, BackendUnavailable),
        (505, BackendUnavailable),
        (GARBAGE, BackendBadResponse),
    ],
)
def test_nothing_else_is_tried_again(final: int, kind: type[BackendError]) -> None:
    """Any other error is one call's, whether it comes first or after a retry."""
    server = Scripted([final, 200])
    assert type(outcome_of(server)) is kind
    assert server.calls == 1
    later = Scripted([503, final, 200])
    assert type(outcome_of(later)) is kind
    assert later.calls == 2


@pytest.mark.parametrize("error", [BackendBadResponse("backend: wrong"), BackendUnavailable("backend: overloaded")])
async def test_what_read_raises_is_not_tried_again(error: BackendError) -> None:
    """An answer that `read` won't have is raised as it is and not asked for again, whatever the error says."""

    async def scenario(server: Scripted) -> None:
        def refuse(_: object) -> str:
            raise error

        async with guarding(server) as guarded:
            await guarded.ask(Call("/path", {}, refuse), timeout=30)

    server = Scripted([200])
    with pytest.raises(type(error)) as caught:
        await scenario(server)
    assert caught.value is error
    assert server.calls == 1


async def test_a_refused_connection_is_tried_again() -> None:
    """A port where nobody listens is tried three times, with two pauses, and is BackendUnavailable."""
    pauses = Pauses()
    async with backend(f"http://127.0.0.1:{unused_port()}") as endpoint:
        assert type(await ask(Resilient(endpoint, jitter=pauses))) is BackendUnavailable
    assert pauses == [0.05, 0.1]


async def test_a_first_try_that_succeeds_has_no_pause() -> None:
    """An answer at the first try is one call, and no pause is even chosen."""
    pauses = Pauses()
    server = Scripted([200])
    async with guarding(server, jitter=pauses) as guarded:
        assert await ask(guarded) == "right"
    assert (server.calls, pauses) == (1, [])


def test_pauses_double_up_to_a_second() -> None:
    """A pause lasts up to 50 ms, twice that after each further failure, and never over a second."""
    assert [longest_pause(failures) for failures in range(1, 8)] == [0.05, 0.1, 0.2, 0.4, 0.8, 1.0, 1.0]
    assert longest_pause(1000) == 1.0


@given(st.floats(0, 1))
def test_jitter_is_full(longest: float) -> None:
    """A pause is any part of the longest, from nothing to all of it."""
    pauses = [full_jitter(longest) for _ in range(200)]
    assert all(0 <= pause <= longest for pause in pauses)
    # Each fails by chance once in 10^25 examples.
    assert min(pauses) <= longest / 4
    assert max(pauses) >= longest * 3 / 4


@pytest.mark.parametrize("body", [{"text": "the query \ud800"}, {"text": object()}])
def test_what_cannot_be_written_is_not_sent(body: object) -> None:
    """A body that isn't JSON, as one with half a surrogate pair, is BackendBadResponse without a call."""
    server = Scripted([200])
    assert type(outcome_of(server, body=body)) is BackendBadResponse
    assert server.calls == 0


@pytest.mark.parametrize(
    ("script", "body"),
    [
        ([503], {"text": "the query"}),
        ([503, 424], {"text": "the query"}),
        ([BREAK], {"text": "the query"}),
        ([GARBAGE], {"text": "the query"}),
        ([200], {"text": "the query \ud800"}),
    ],
)
def test_errors_have_nothing_chained_to_them(script: list[int], body: object) -> None:
    """Neither an error nor its traceback holds a text or another error, after retries too."""
    error = outcome_of(Scripted(script), body=body)
    assert isinstance(error, BackendError)
    assert error.__cause__ is None
    assert error.__context__ is None
    told = f"{error!r} {''.join(traceback.format_exception(error))}"
    assert "the query" not in told


async def test_it_outlives_its_loop() -> None:
    """One that was used, and failed, on one event loop works on the next."""
    kept: list[Any] = []

    async def scenario() -> str | BackendError:
        async with guarding(Scripted([503, 200])) as fresh:
            if kept:
                kept[0].endpoint = fresh.endpoint
            else:
                kept.append(fresh)
            outcomes = await asyncio.gather(*(kept[0].ask(Call("/", {}, read), timeout=30) for _ in range(4)))
            return str(outcomes[0])

    assert [await scenario(), await scenario()] == ["right", "right"]
