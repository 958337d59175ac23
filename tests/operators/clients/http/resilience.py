"""A guarded backend and the servers behind it, whose calls are counted where they arrive."""

import asyncio
import socket
import time
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Sequence
from contextlib import asynccontextmanager
from itertools import chain, repeat
from typing import Any, Final

from aiohttp import web

from operators.clients.http.backend import Backend, Resilient
from operators.clients.http.transport import Call
from schemas.errors import BackendBadResponse, BackendError
from tests.operators.clients.http.serving import Handler, answering, backend, json_response

HANG: Final = 0
"""The stand-in for a status when a server doesn't answer."""

BREAK: Final = 1
"""The stand-in for a status when a server breaks the connection in the middle of its answer's body."""

GARBAGE: Final = 2
"""The stand-in for a status when a server answers 200 with what isn't JSON."""


class Scripted:
    """A server whose answers are a script of statuses, the last for ever; it counts the calls it gets."""

    def __init__(self, script: Iterable[int]) -> None:
        begun = list(script)
        self.script: Iterator[int] = chain(begun, repeat(begun[-1]))
        self.bodies: list[Any] = []
        self.arrived = asyncio.Event()
        self.before: Callable[[], None] = lambda: None
        self.held: asyncio.Event | None = None

    @property
    def calls(self) -> int:
        """The number of calls that have arrived."""
        return len(self.bodies)

    async def called(self, calls: int) -> None:
        """Wait until so many calls have arrived in all."""
        while self.calls < calls:
            self.arrived.clear()
            await self.arrived.wait()

    def then(self, *script: int) -> None:
        """Another script from now on."""
        self.script = chain(script, repeat(script[-1]))

    async def __call__(self, request: web.Request) -> web.StreamResponse:
        """Answer by the script."""
        status = next(self.script)
        self.bodies.append(await request.json())
        self.arrived.set()
        self.before()
        if self.held is not None:
            await self.held.wait()
        if status == HANG:
            await asyncio.Event().wait()
        if status == BREAK:
            response = web.StreamResponse(headers={"content-length": "100"})
            await response.prepare(request)
            await response.write(b'{"answer": ')
            assert request.transport is not None
            request.transport.abort()
            return response
        if status == GARBAGE:
            return web.Response(body=b"<html>")
        return json_response({"answer": "right"}, status)


class Clock:
    """A clock that stands still until it is put forward: no breaker's rest ends while a test is slow."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        """Seconds."""
        return self.now

    def pass_by(self, seconds: float) -> None:
        """Put it forward."""
        self.now += seconds


def no_pause(_: float) -> float:
    """The shortest pause there is."""
    return 0.0


class Pauses(list[float]):
    """The longest pauses that were allowed; none is made."""

    def __call__(self, longest: float) -> float:
        """The shortest pause there is."""
        self.append(longest)
        return 0.0


@asynccontextmanager
async def guarding(
    handler: Handler, *, clock: Callable[[], float] = time.monotonic, jitter: Callable[[float], float] = no_pause
) -> AsyncIterator[Backend]:
    """A guarded backend before a server of `handler`."""
    async with answering(handler) as url, backend(url, max_connections=100) as endpoint:
        guarded = Resilient(endpoint, clock, jitter)
        yield guarded
        await guarded.aclose()


def read(answer: Any) -> str:
    """The client's reading of a scripted server's answer."""
    match answer:
        case {"answer": str(text)}:
            return text
    raise BackendBadResponse("backend: no answer in the answer")


async def ask(guarded: Backend, *, timeout: float = 30.0, body: object = "question") -> str | BackendError:
    """The outcome of one request: a time-out that doesn't matter is long."""
    try:
        return await guarded.ask(Call("/path", body, read), timeout=timeout)
    except BackendError as error:
        return error


async def ask_each(guarded: Backend, count: int, *, timeout: float = 30.0) -> list[str | BackendError]:
    """The outcomes of `count` requests, one after another."""
    return [await ask(guarded, timeout=timeout) for _ in range(count)]


async def ask_at_once(guarded: Backend, count: int, *, timeout: float = 30.0) -> list[str | BackendError]:
    """The outcomes of `count` requests under way together."""
    return await asyncio.gather(*(ask(guarded, timeout=timeout) for _ in range(count)))


def refused(outcomes: Sequence[str | BackendError]) -> int:
    """The number of requests that were not sent, for the state of the backend."""
    return sum("not asked" in str(outcome) for outcome in outcomes)


def unused_port() -> int:
    """A port where nobody listens."""
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        port: int = unused.getsockname()[1]
        return port
