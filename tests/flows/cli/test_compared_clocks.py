"""Clocks are compared by the date of an answer, and nothing is guessed."""

import asyncio
import time
from collections.abc import Callable
from email.utils import formatdate

import pytest

from flows.cli.check.servers import ahead
from operators.clients.http.transport import http_transport
from tests.operators.clients.http.serving import speaking


def compared(status: str, date: Callable[[], str | None]) -> tuple[tuple[float, float] | None, bytes]:
    """The finding on a server whose answers have this status and then this date, None for none, and its requests."""
    asked: list[bytes] = []

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        asked.append(await reader.readuntil(b"\r\n\r\n"))
        dated = f"date: {said}\r\n" if (said := date()) is not None else ""
        writer.write(f"HTTP/1.1 {status}\r\n{dated}content-length: 2\r\n\r\nno".encode())
        await writer.drain()

    async def scenario() -> tuple[float, float] | None:
        async with speaking(answer) as url:
            return await ahead(f"{url}/below", http_transport())

    said = asyncio.run(scenario())
    [request] = asked
    return said, request


@pytest.mark.parametrize("status", ["200 OK", "401 Unauthorized", "404 Not Found", "503 Service Unavailable"])
def test_any_answer_tells_the_time(status: str) -> None:
    """Whatever the server thinks of the request, which is one for the base URL, without a key."""
    said, request = compared(status, lambda: formatdate(time.time() - 3600, usegmt=True))
    assert said is not None
    assert said[0] <= 3600 <= said[1]
    assert request.startswith(b"GET /below HTTP/1.1\r\n")
    assert b"key" not in request.lower()
    assert b"authorization" not in request.lower()


@pytest.mark.parametrize("date", [None, "soon"])
def test_an_answer_without_a_date_tells_nothing(date: str | None) -> None:
    """Neither does one with a date that can't be read."""
    assert compared("200 OK", lambda: date)[0] is None
