"""Clocks are compared by the date of an answer: the true difference is within what is said, and nothing is guessed."""

import asyncio
import time
from collections.abc import Callable
from email.utils import formatdate

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flows.cli.check.servers import Ahead, ahead, between
from operators.clients.http.transport import http_transport
from schemas.errors import BackendUnavailable
from tests.operators.clients.http.resilience import unused_port
from tests.operators.clients.http.serving import speaking

TIMEOUT = 10.0
NOW = 1_790_000_000.0


@given(
    st.floats(min_value=-1e6, max_value=1e6),
    st.floats(min_value=0, max_value=30),
    st.floats(min_value=0, max_value=30),
    st.floats(min_value=0, max_value=0.999),
)
def test_the_true_difference_is_within_what_is_said(difference: float, sent: float, came: float, part: float) -> None:
    """Whenever between request and answer the server set its date, whose parts of a second are cut."""
    asked = NOW + part
    server = asked + sent - difference
    said = between(formatdate(int(server), usegmt=True), asked, asked + sent + came)
    assert said is not None
    assert said.least <= difference + 1e-6
    assert said.most >= difference - 1e-6
    assert said.most - said.least == pytest.approx(sent + came + 1)


@pytest.mark.parametrize("date", ["Wed, 25 Nov 2026 12:00:00 GMT", "Wed, 25 Nov 2026 12:00:00 -0000"])
def test_a_date_is_in_gmt(date: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Wherever this machine is."""
    monkeypatch.setenv("TZ", "Asia/Tokyo")
    time.tzset()
    try:
        assert between(date, 1_795_608_000.0, 1_795_608_000.5) == Ahead(-1.0, 0.5)
    finally:
        monkeypatch.undo()
        time.tzset()


@pytest.mark.parametrize(
    "date", ["", "now", "Wed, 45 Nov 2026 12:00:00 GMT", "0", "Wed, 25 Nov 2026 12:00:00 +99999999999999"]
)
def test_what_is_no_date_tells_nothing(date: str) -> None:
    """It is not taken for the time at which it came."""
    assert between(date, NOW, NOW) is None


def compared(status: str, date: Callable[[], str | None]) -> tuple[Ahead | None, bytes]:
    """The finding on a server whose answers have this status and then this date, None for none, and its requests."""
    asked: list[bytes] = []

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        asked.append(await reader.readuntil(b"\r\n\r\n"))
        dated = f"date: {said}\r\n" if (said := date()) is not None else ""
        writer.write(f"HTTP/1.1 {status}\r\n{dated}content-length: 2\r\n\r\nno".encode())
        await writer.drain()

    async def scenario() -> Ahead | None:
        async with speaking(answer) as url:
            return await ahead("qdrant", f"{url}/below", http_transport(), TIMEOUT)

    said = asyncio.run(scenario())
    [request] = asked
    return said, request


@pytest.mark.parametrize("status", ["200 OK", "401 Unauthorized", "404 Not Found", "503 Service Unavailable"])
def test_any_answer_tells_the_time(status: str) -> None:
    """Whatever the server thinks of the request, which is one for the base URL, without a key."""
    said, request = compared(status, lambda: formatdate(time.time() - 3600, usegmt=True))
    assert said is not None
    assert said.least <= 3600 <= said.most
    assert request.startswith(b"GET /below HTTP/1.1\r\n")
    assert b"key" not in request.lower()
    assert b"authorization" not in request.lower()


@pytest.mark.parametrize("date", [None, "soon"])
def test_an_answer_without_a_date_tells_nothing(date: str | None) -> None:
    """Neither does one with a date that can't be read."""
    assert compared("200 OK", lambda: date)[0] is None


async def test_a_server_that_is_not_there_is_an_error() -> None:
    """With its address and the cause."""
    url = f"http://127.0.0.1:{unused_port()}"
    with pytest.raises(BackendUnavailable, match=f"qdrant at {url}: connection refused"):
        await ahead("qdrant", url, http_transport(), TIMEOUT)
