"""The client's reading of broken answers, outages and silence."""

import time

import httpx
import pytest

from schemas.errors import BackendBadResponse, BackendError, BackendTimeout, BackendUnavailable
from tests.operators.clients.qdrant.transports import GOOD, Answer, Faulty, answering, points, qdrant, raising

GARBAGE = {
    "too few results": b'{"result":[{"points":[]}]}',
    "too many results": b'{"result":[{"points":[]},{"points":[]},{"points":[]}]}',
    "truncated": b'{"result":[{"points":[]},{"poi',
    "empty": b"",
    "NaN score": b'{"result":[{"points":[]},{"points":[{"id":"a","score":NaN}]}]}',
    "infinite score": b'{"result":[{"points":[]},{"points":[{"id":"a","score":1e999}]}]}',
    "null score": b'{"result":[{"points":[]},{"points":[{"id":"a","score":null}]}]}',
    "no score": b'{"result":[{"points":[]},{"points":[{"id":"a"}]}]}',
    "text score": b'{"result":[{"points":[]},{"points":[{"id":"a","score":"1"}]}]}',
    "true score": b'{"result":[{"points":[]},{"points":[{"id":"a","score":true}]}]}',
    "null id": b'{"result":[{"points":[]},{"points":[{"id":null,"score":1}]}]}',
    "fractional id": b'{"result":[{"points":[]},{"points":[{"id":1.5,"score":1}]}]}',
    "list payload": b'{"result":[{"points":[]},{"points":[{"id":"a","score":1,"payload":[]}]}]}',
    "text point": b'{"result":[{"points":[]},{"points":["a"]}]}',
    "null points": b'{"result":[{"points":[]},{"points":null}]}',
    "points of an object": b'{"result":[{"points":[]},{"points":{}}]}',
    "text result": b'{"result":"[]"}',
    "null result": b'{"result":null}',
    "no result": b"{}",
    "null": b"null",
    "list": b"[]",
    "HTML": b"<html></html>",
}


@pytest.mark.parametrize("content", GARBAGE.values(), ids=GARBAGE.keys())
async def test_garbage_is_rejected_whole(content: bytes) -> None:
    """An answer that breaks the protocol anywhere fails every search of the batch, and nothing is guessed."""
    answers = await qdrant(Faulty(answering(200, content))).query_batch("docs", [GOOD, GOOD], timeout=5)
    assert [type(answer) for answer in answers] == [BackendBadResponse] * 2


FAULTS: dict[str, tuple[Answer, type[BackendError]]] = {
    "refused connection": (raising(httpx.ConnectError("refused")), BackendUnavailable),
    "broken connection": (raising(httpx.ReadError("reset")), BackendUnavailable),
    "overload": (answering(429, b""), BackendUnavailable),
    "server error": (answering(500, b""), BackendUnavailable),
    "the server's own time-out": (answering(408, b""), BackendTimeout),
    "a transport's time-out": (raising(httpx.ReadTimeout("slow")), BackendTimeout),
}


@pytest.mark.parametrize("fault", FAULTS.values(), ids=FAULTS.keys())
async def test_outages_are_values(fault: tuple[Answer, type[BackendError]]) -> None:
    """An outage or a time-out is every search's answer, and lookups raise it."""
    answer, expected = fault
    client = qdrant(Faulty(answer))
    answers = await client.query_batch("docs", [GOOD, GOOD], timeout=5)
    assert [type(each) for each in answers] == [expected] * 2
    with pytest.raises(expected):
        await client.retrieve("docs", ["a"], True, timeout=5)


async def test_silence_ends_in_time() -> None:
    """A server that doesn't answer costs the time-out and no more."""
    began = time.monotonic()
    answers = await qdrant(Faulty(answering(200, b""), delay=30)).query_batch("docs", [GOOD], timeout=0.05)
    assert [type(each) for each in answers] == [BackendTimeout]
    assert time.monotonic() - began < 5


async def test_halving_ends_in_time() -> None:
    """A slow server that refuses everything can't stretch a call beyond its time-out by being asked again."""
    began = time.monotonic()
    client = qdrant(Faulty(answering(400, b""), delay=0.02))
    answers = await client.query_batch("docs", [GOOD] * 512, timeout=0.3)
    assert time.monotonic() - began < 10
    assert len(answers) == 512
    assert type(answers[-1]) is BackendTimeout


async def test_an_update_that_is_not_done_is_an_error() -> None:
    """An update that Qdrant only took note of isn't reported as applied."""
    answer = answering(200, b'{"result":{"operation_id":1,"status":"acknowledged"},"status":"ok"}')
    with pytest.raises(BackendBadResponse, match="isn't completed"):
        await qdrant(Faulty(answer)).upsert("docs", points(1), timeout=5)
