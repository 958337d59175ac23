"""The stand-in, and the embedded engine in it, against the recorded answers of a real Qdrant 1.19.0."""

import asyncio
from typing import Any

import httpx
import pytest

from operators.clients.http.transport import http_transport
from operators.clients.qdrant_edge.shards import Engine
from tests.operators.clients.qdrant.recording import assert_agrees, recorded, replay, scores
from tests.qdrant_server import Behaviour, Keys, serve
from tests.qdrant_server.transport import ServerTransport

FIRST = recorded("qdrant_exchanges.json")
SECOND = recorded("qdrant_exchanges_2.json")
EXCHANGES = [*FIRST, *SECOND]
NAMES = [exchange["name"] for exchange in EXCHANGES]

# The server of the second recording had keys from here on. What it was asked before, it was asked without.
KEYED = NAMES.index("no key")
OVERLOADED = NAMES.index("server time-out")

# Where the stand-in's answer may differ from the server's in more than what a machine decides, and why.
DIFFERENT = {
    "query zero vector": "all four points score 0 and any two may fill the limit: only the scores are compared",
    "metrics": "the server measures itself, the stand-in names its version: the body isn't compared",
}


# What made the real server slow isn't recorded: seven requests of 60 searches with 200 token vectors each.
TOKENS = {"tokens": {"size": 4, "distance": "Dot", "multivector_config": {"comparator": "max_sim"}}}
BIG = {"method": "PUT", "path": "/collections/big", "request": {"vectors": TOKENS}}
OVERLOAD = {"searches": [{"query": [[1.0, 0.5, 0.5, 0.5]], "using": "tokens", "limit": 3}] * 60}


async def _asked(transport: httpx.AsyncBaseTransport, url: str, behaviour: Behaviour) -> list[httpx.Response]:
    every = await replay(EXCHANGES[:OVERLOADED], transport, url)
    await replay([BIG], transport, url)
    behaviour.timing_out = True
    every += await replay([{**EXCHANGES[OVERLOADED], "request": OVERLOAD}], transport, url)
    behaviour.timing_out = False
    behaviour.keys = Keys("sesame", "look")
    every += await replay(EXCHANGES[KEYED:], transport, url)
    await transport.aclose()
    return every


@pytest.fixture(scope="module", params=["in process", "over HTTP"])
def answers(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> list[httpx.Response]:
    """The stand-in's answers to all recorded requests, asked in their order of a fresh directory."""
    path = tmp_path_factory.mktemp("qdrant")
    behaviour = Behaviour()
    if request.param == "in process":
        with Engine(path) as engine:
            return asyncio.run(_asked(ServerTransport(engine, behaviour), "http://engine", behaviour))
    with serve(path, behaviour) as base_url:
        return asyncio.run(_asked(http_transport(), base_url, behaviour))


def test_there_are_all() -> None:
    """The recordings are whole."""
    assert (len(FIRST), len(SECOND)) == (70, 40)
    assert set(DIFFERENT) <= set(NAMES)


@pytest.mark.parametrize("number", range(len(EXCHANGES)), ids=[f"{number} {name}" for number, name in enumerate(NAMES)])
def test_answers_as_the_server(answers: list[httpx.Response], number: int) -> None:
    """Status, content type and body are the server's, but for equal scores' order and what a machine decides."""
    exchange, answer = EXCHANGES[number], answers[number]
    assert answer.status_code == exchange["status"]
    assert answer.headers.get("content-type", "") == exchange["content_type"]
    if exchange["name"] == "metrics":
        return
    recording = exchange["response"]
    body: Any = answer.json() if isinstance(recording, dict) else answer.text
    if exchange["name"] in DIFFERENT:
        assert scores(body["result"]["points"]) == scores(recording["result"]["points"])
        return
    assert_agrees(body, recording)
