"""The recorded exchanges with a real Qdrant 1.19.0, asked again of a stand-in, and what must agree."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import httpx
import orjson
import pytest

Exchange = Mapping[str, Any]

# What a machine, a build or a history decides.
IGNORED = frozenset({"time", "operation_id", "version", "commit", "segments_count", "default_segment_number"})


def recorded(name: str) -> list[Exchange]:
    """The exchanges of one recording, in their order."""
    exchanges: list[Exchange] = orjson.loads((Path(__file__).parents[3] / "data" / name).read_bytes())["exchanges"]
    return exchanges


async def replay(
    exchanges: Sequence[Exchange], transport: httpx.AsyncBaseTransport, base_url: str
) -> list[httpx.Response]:
    """The answers to all requests, asked in their order."""
    answers = []
    for exchange in exchanges:
        body = exchange["request"]
        content = b"" if body is None else body.encode() if isinstance(body, str) else orjson.dumps(body)
        url, headers = base_url + exchange["path"], exchange.get("headers")
        request = httpx.Request(exchange["method"], url, content=content, headers=headers)
        response = await transport.handle_async_request(request)
        await response.aread()
        answers.append(response)
    return answers


def assert_agrees(answer: Any, recording: Any) -> None:
    """Equal but for the order of equal scores, a score's last digits, and what a machine decides."""
    if isinstance(recording, dict):
        assert answer.keys() - IGNORED == recording.keys() - IGNORED
        for name in recording.keys() - IGNORED:
            assert_agrees(answer[name], recording[name])
    elif isinstance(recording, list):
        assert len(answer) == len(recording)
        for one, other in zip(_settled(answer), _settled(recording), strict=True):
            assert_agrees(one, other)
    elif isinstance(recording, float):
        assert answer == pytest.approx(recording, abs=1e-6)
    else:
        assert answer == recording


def scores(points: list[Any]) -> list[float]:
    """The scores of points."""
    return [point["score"] for point in points]


def _settled(items: list[Any]) -> list[Any]:
    """Scored points in an order that doesn't depend on how equal scores are ordered; other lists as they are."""
    if not all(isinstance(each, dict) and "score" in each for each in items):
        return items
    assert scores(items) == sorted(scores(items), reverse=True)
    return sorted(items, key=lambda point: (-round(point["score"], 5), str(point["id"])))
