"""How many requests a reranker has in flight, and how long it waits for its turn."""

import asyncio
import time
from collections.abc import Callable

import pytest
from aiohttp import web

from operators.clients.rerankers import Reranker, Scores
from operators.clients.rerankers.cohere import CohereReranker
from operators.clients.transport import Endpoint
from schemas.errors import BackendError, BackendTimeout
from tests.operators.clients.rerankers.dialects import (
    DIALECTS,
    Cohere,
    Make,
    Server,
    Tei,
    cohere,
    request_of,
    rerank,
    right_scores,
    tei,
)
from tests.operators.clients.serving import answering, backend


def unbounded_cohere(endpoint: Endpoint) -> Reranker:
    """The Cohere-style reranker without a bound on its requests."""
    return CohereReranker(endpoint, "rerank-v3.5", max_concurrency=0)


@pytest.mark.parametrize(
    ("make", "server", "most"), [(cohere, Cohere, 4), (tei, Tei, 4), (unbounded_cohere, Cohere, 12)]
)
def test_requests_in_flight_are_bounded(make: Make, server: Callable[[float], Server], most: int) -> None:
    """As many requests are in flight as `max_concurrency` allows, over calls too, and no more; 0 is no bound."""
    asked = server(0.05)

    async def scenario() -> None:
        async with answering(asked) as url, backend(f"{url}/v2") as endpoint:
            reranker = make(endpoint)
            calls = (reranker.rerank([request_of(2)] * 6, timeout=5) for _ in range(2))
            await asyncio.gather(*calls)

    asyncio.run(scenario())
    assert asked.most_at_once == most
    assert len(asked.requests) == 12


@DIALECTS
def test_waiting_for_a_slot_counts_for_the_timeout(make: Make, server: Callable[[float], Server]) -> None:
    """All requests of a call share its time-out: those that get no slot in time are BackendTimeout and are not sent."""
    asked = server(0.3)
    started = time.monotonic()
    outcomes = rerank(make, asked, [request_of(2)] * 12, timeout=0.45)
    assert time.monotonic() - started < 1.5
    assert [type(outcome) for outcome in outcomes] == [dict] * 4 + [BackendTimeout] * 8
    assert len(asked.requests) == 8


def test_waiting_for_anothers_slot_ends_in_time() -> None:
    """A call that waits for slots which a longer call holds is BackendTimeout when its own time is up."""

    async def scenario() -> tuple[list[Scores | BackendError], float]:
        async with answering(Cohere(1.0)) as url, backend(f"{url}/v2") as endpoint:
            reranker = cohere(endpoint)
            longer = asyncio.create_task(reranker.rerank([request_of(2)] * 4, timeout=5))
            await asyncio.sleep(0.1)
            started = time.monotonic()
            outcomes = await reranker.rerank([request_of(2)], timeout=0.1)
            took = time.monotonic() - started
            await longer
            return outcomes, took

    outcomes, took = asyncio.run(scenario())
    assert [type(outcome) for outcome in outcomes] == [BackendTimeout]
    assert took < 0.6


@pytest.mark.parametrize("make", [cohere, tei])
def test_hanging_server_is_a_timeout(make: Make) -> None:
    """A server that doesn't answer costs the time-out and is BackendTimeout for each query."""

    async def hang(_: web.Request) -> web.Response:
        await asyncio.Event().wait()
        return web.Response()

    outcomes = rerank(make, hang, [request_of(2), request_of(40)], timeout=0.2)
    assert [type(outcome) for outcome in outcomes] == [BackendTimeout] * 2


@pytest.mark.parametrize("make", [cohere, tei])
def test_slots_come_free_after_failures_and_cancellation(make: Make) -> None:
    """Neither failed nor cancelled calls keep their slots."""
    hanging = True
    right = Cohere() if make is cohere else Tei()

    async def hang_at_first(request: web.Request) -> web.Response:
        if hanging:
            await asyncio.Event().wait()
        return await right(request)

    async def scenario() -> list[Scores | BackendError]:
        nonlocal hanging
        async with answering(hang_at_first) as url, backend(f"{url}/v2") as endpoint:
            reranker = make(endpoint)
            await reranker.rerank([request_of(2)] * 6, timeout=0.1)
            cancelled = asyncio.create_task(reranker.rerank([request_of(2)] * 6, timeout=5))
            await asyncio.sleep(0.1)
            cancelled.cancel()
            with pytest.raises(asyncio.CancelledError):
                await cancelled
            hanging = False
            return await reranker.rerank([request_of(2)] * 6, timeout=2)

    assert asyncio.run(scenario()) == [right_scores(request_of(2))] * 6


def test_a_reranker_outlives_its_loop() -> None:
    """A reranker whose slots were waited for on one event loop works on the next."""
    endpoints: list[Endpoint] = []

    async def scenario(reranker: Reranker | None) -> tuple[Reranker, list[Scores | BackendError]]:
        async with answering(Cohere(0.01)) as url, backend(f"{url}/v2") as endpoint:
            if reranker is None:
                reranker = CohereReranker(endpoint, "m", max_concurrency=1)
            else:
                assert isinstance(reranker, CohereReranker)
                reranker.endpoint = endpoint
            endpoints.append(endpoint)
            return reranker, await reranker.rerank([request_of(2)] * 3, timeout=5)

    reranker, first = asyncio.run(scenario(None))
    _, second = asyncio.run(scenario(reranker))
    assert first == second == [right_scores(request_of(2))] * 3
