"""The embedded engine against the recorded answers of a real Qdrant 1.19.0, in process and over HTTP."""

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import orjson
import pytest

from operators.clients.http.transport import http_transport
from operators.clients.qdrant_edge.shards import Engine
from tests.qdrant_server import serve
from tests.qdrant_server.transport import ServerTransport

EXCHANGES = orjson.loads((Path(__file__).parents[3] / "data/qdrant_exchanges.json").read_bytes())["exchanges"]
NAMES = [exchange["name"] for exchange in EXCHANGES]

# What a machine, a build or a history decides.
IGNORED = frozenset({"time", "operation_id", "version", "commit", "segments_count"})

# Where the engine's answer may differ from the server's in more than that, and why.
DIFFERENT = {
    "query zero vector": "all four points score 0 and any two may fill the limit: only the scores are compared",
    "metrics": "the server measures itself, the engine names its version: the body isn't compared",
}


async def _replay(transport: httpx.AsyncBaseTransport, base_url: str) -> list[httpx.Response]:
    answers = []
    for exchange in EXCHANGES:
        body = exchange["request"]
        content = b"" if body is None else body.encode() if isinstance(body, str) else orjson.dumps(body)
        request = httpx.Request(exchange["method"], base_url + exchange["path"], content=content)
        response = await transport.handle_async_request(request)
        await response.aread()
        answers.append(response)
    await transport.aclose()
    return answers


@pytest.fixture(scope="module", params=["in process", "over HTTP"])
def answers(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[httpx.Response]]:
    """The engine's answers to all recorded requests, asked in their order of a fresh directory."""
    path = tmp_path_factory.mktemp("qdrant")
    if request.param == "in process":
        with Engine(path) as engine:
            yield asyncio.run(_replay(ServerTransport(engine), "http://engine"))
    else:
        with serve(path) as base_url:
            yield asyncio.run(_replay(http_transport(), base_url))


def test_there_are_seventy() -> None:
    """The recording is whole and its names tell the exchanges apart."""
    assert len(EXCHANGES) == 70
    assert set(DIFFERENT) <= set(NAMES)


@pytest.mark.parametrize("number", range(len(EXCHANGES)), ids=NAMES)
def test_answers_as_the_server(answers: list[httpx.Response], number: int) -> None:
    """Status, content type and body are the server's, but for equal scores' order and what a machine decides."""
    exchange, answer = EXCHANGES[number], answers[number]
    assert answer.status_code == exchange["status"]
    assert answer.headers["content-type"] == exchange["content_type"]
    if exchange["name"] == "metrics":
        return
    recorded = exchange["response"]
    body: Any = answer.json() if isinstance(recorded, dict) else answer.text
    if exchange["name"] in DIFFERENT:
        assert _scores(body["result"]["points"]) == _scores(recorded["result"]["points"])
        return
    _assert_agrees(body, recorded)


def _assert_agrees(answer: Any, recorded: Any) -> None:
    if isinstance(recorded, dict):
        assert answer.keys() - IGNORED == recorded.keys() - IGNORED
        for name in recorded.keys() - IGNORED:
            _assert_agrees(answer[name], recorded[name])
    elif isinstance(recorded, list):
        assert len(answer) == len(recorded)
        for one, other in zip(_settled(answer), _settled(recorded), strict=True):
            _assert_agrees(one, other)
    elif isinstance(recorded, float):
        assert answer == pytest.approx(recorded, rel=1e-4)
    else:
        assert answer == recorded


def _settled(items: list[Any]) -> list[Any]:
    """Scored points in an order that doesn't depend on how equal scores are ordered; other lists as they are."""
    if not all(isinstance(each, dict) and "score" in each for each in items):
        return items
    assert _scores(items) == sorted(_scores(items), reverse=True)
    return sorted(items, key=lambda point: (-round(point["score"], 5), point["id"]))


def _scores(points: list[Any]) -> list[float]:
    return [point["score"] for point in points]
