"""Nobody gets another's answer: what a server sends beyond its answers is never taken for the next one."""

import asyncio
import socket
import threading
from collections.abc import Awaitable, Callable, Iterator
from contextlib import closing, contextmanager
from typing import Any

import pytest

from operators.clients.http.connection import LONGEST_HEAD
from operators.clients.http.transport import Endpoint
from schemas.errors import BackendBadResponse
from tests.operators.clients.http.faults import OK
from tests.operators.clients.http.serving import backend, speaking


def answer(body: bytes) -> bytes:
    """A whole answer."""
    return OK + b"Content-Length: %d\r\n\r\n%b" % (len(body), body)


SURPLUS = {
    "the answer again": answer(b'"first"'),
    "an informational answer": b"HTTP/1.1 103 Early Hints\r\n\r\n",
    "an error": b"HTTP/1.1 408 Request Timeout\r\nContent-Length: 0\r\n\r\n",
    "a byte": b"H",
    "garbage": b"\x00\x01",
    "the end": b"",
}

LONG = b"X: " + b"a" * (LONGEST_HEAD + 1000) + b"\r\n"


async def asking(endpoint: Endpoint) -> Any:
    """One call that isn't sent again."""
    return await endpoint.call("POST", "/", {}, timeout=10)


@contextmanager
def raw_server(first: bytes, surplus: bytes) -> Iterator[tuple[str, threading.Event, threading.Event]]:
    """A server on a thread: `first` on the first connection, `surplus` on it when it is let, `"second"` on others.

    Gives its URL, the event that lets it, and the one that tells that it has sent.
    """
    let, sent = threading.Event(), threading.Event()

    def serve() -> None:
        with closing(listener.accept()[0]) as old:
            old.recv(65_536)
            old.sendall(first)
            let.wait(20)
            old.sendall(surplus) if surplus else old.shutdown(socket.SHUT_WR)
            sent.set()
            with closing(listener.accept()[0]) as new:
                new.recv(65_536)
                new.sendall(answer(b'"second"'))

    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.settimeout(20)
        thread = threading.Thread(target=serve)
        thread.start()
        yield f"http://127.0.0.1:{listener.getsockname()[1]}", let, sent
        thread.join()


@pytest.mark.parametrize("kind", SURPLUS)
@pytest.mark.parametrize("unread", [True, False], ids=["unread", "read"])
def test_a_surplus_on_an_idle_connection_is_no_answer(kind: str, unread: bool) -> None:
    """The next request has its own answer from a new connection, whether or not the loop had a turn to read it."""

    async def scenario() -> list[Any]:
        with raw_server(answer(b'"first"'), SURPLUS[kind]) as (url, let, sent):
            async with backend(url) as endpoint:
                answers = [await asking(endpoint)]
                let.set()
                # On the loop's own thread, so that it has no turn.
                sent.wait(20)
                if not unread:
                    await asyncio.sleep(0.01)
                return [*answers, await asking(endpoint)]

    assert asyncio.run(scenario()) == ["first", "second"]


async def counted(first: bytes, scenario: Callable[[Endpoint], Awaitable[None]]) -> int:
    """The connections that the scenario took of a server that sends `first` to the first request, then good answers."""
    connections = requests = 0

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal connections, requests
        connections += 1
        while True:
            await reader.readuntil(b"\r\n\r\n")
            await reader.readexactly(2)
            requests += 1
            writer.write(first if requests == 1 else answer(b'"second"'))

    async with speaking(serve) as url, backend(url) as endpoint:
        await scenario(endpoint)
    return connections


@pytest.mark.parametrize("kind", [kind for kind, surplus in SURPLUS.items() if surplus])
def test_a_surplus_in_the_same_read_is_no_answer(kind: str) -> None:
    """The first answer counts, and its connection is closed."""

    async def scenario(endpoint: Endpoint) -> None:
        assert [await asking(endpoint), await asking(endpoint)] == ["first", "second"]

    assert asyncio.run(counted(answer(b'"first"') + SURPLUS[kind], scenario)) == 2


BROKEN = {
    "a long head": OK + LONG + b"Content-Length: 2\r\n\r\n{}",
    "many headers": OK + b"X:\r\n" * LONGEST_HEAD + b"Content-Length: 2\r\n\r\n{}",
    "a long head of an informational answer": b"HTTP/1.1 103 Early\r\n" + LONG + b"\r\n" + answer(b"{}"),
    "long trailers": OK + b"Transfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n" + LONG + b"\r\n",
    "two lengths": OK + b"Content-Length: 2\r\nContent-Length: 3\r\n\r\n{}",
    "a length and chunks": OK + b"Content-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n",
}


@pytest.mark.parametrize("kind", BROKEN)
def test_a_broken_answer_fails_its_own_request_alone(kind: str) -> None:
    """It may come whole in one read: the next request goes to a new connection."""

    async def scenario(endpoint: Endpoint) -> None:
        with pytest.raises(BackendBadResponse, match="not an HTTP answer"):
            await asking(endpoint)
        assert await asking(endpoint) == "second"

    assert asyncio.run(counted(BROKEN[kind], scenario)) == 2


def test_good_answers_share_a_connection() -> None:
    """However they are framed: what is looked at before a request closes none that is well."""

    async def scenario(endpoint: Endpoint) -> None:
        assert [await asking(endpoint) for _ in range(20)] == ["first"] + 19 * ["second"]

    chunked = OK + b'Transfer-Encoding: chunked\r\n\r\n7\r\n"first"\r\n0\r\nX-Trailer: a\r\n\r\n'
    early = b"HTTP/1.1 100 Continue\r\n\r\n" + answer(b'"first"')
    for first in (answer(b'"first"'), chunked, early):
        assert asyncio.run(counted(first, scenario)) == 1
