"""A Qdrant server in working order never costs an answer, however it treats its connections."""

import asyncio
import random
from collections.abc import Callable

import orjson

from flows.assembly.clients import InProcess, make_qdrant_client
from operators.query.backend_answers import Hits
from schemas.errors import BackendError
from schemas.settings import load
from tests.operators.clients.http.closing import Close, Closing
from tests.operators.clients.qdrant.transports import GOOD
from tests.operators.samples import METRICS
from tests.tiers import sized

QUERIES = sized(3_000, nightly=10_000)
FOUND = orjson.dumps({"result": [{"points": [{"id": 1, "score": 0.5}]}], "status": "ok", "time": 0.0})


def ask(server: Closing, *, keep_alive: float, pause: Callable[[], float], clients: int) -> list[Hits | BackendError]:
    """The outcomes of so many queries, by so many callers that pause between two of theirs."""

    async def scenario() -> list[Hits | BackendError]:
        outcomes: list[Hits | BackendError] = []
        async with server.served() as url:
            settings = load(None, {"qdrant": {"url": url, "keep_alive": keep_alive}})
            client = make_qdrant_client(settings, InProcess(settings), METRICS)

            async def caller() -> None:
                for _ in range(QUERIES // clients):
                    outcomes.extend(await client.query_batch("docs", [GOOD], timeout=30))
                    await asyncio.sleep(pause())

            await asyncio.gather(*(caller() for _ in range(clients)))
            await client.aclose()
        return outcomes

    return asyncio.run(scenario())


def test_a_server_that_closes_idle_connections_costs_no_answer() -> None:
    """Thousands of queries, each about as long after the last as the server waits before it closes: all have hits."""
    server = Closing(FOUND, idle=0.05)
    at_random = random.Random(5)
    outcomes = ask(server, keep_alive=60.0, pause=lambda: at_random.uniform(0.045, 0.056), clients=50)
    assert [type(outcome) for outcome in outcomes] == [Hits] * QUERIES
    # The race was on: the server closed far more connections than the client did at its end.
    assert server.closed > QUERIES // 100


def test_a_server_that_closes_at_random_costs_no_answer() -> None:
    """Thousands of queries, many on a connection that closes under them, before, in or after the request."""
    at_random = random.Random(7)
    when = [*Close, *[Close.NEVER] * 8]
    server = Closing(FOUND, lambda: at_random.choice(when))
    outcomes = ask(server, keep_alive=60.0, pause=lambda: 0.0, clients=8)
    assert [type(outcome) for outcome in outcomes] == [Hits] * QUERIES
    assert server.closed > QUERIES // 10
