"""A stand-in for a reranker that fails as it is told to, in a process of its own: Cohere's `/rerank`, vLLM's `/score`.

Healthy, it answers any number of requests at a time, each in 5 ms. `python -m bench.failing_reranker` prints its URL,
reads a fault a line, says when that one holds by printing it, and serves until its input ends. A fault holds for the
requests that arrive while it lasts.
"""

import asyncio
import contextlib
import random
import socket
import subprocess
import sys
from collections.abc import Iterator
from enum import StrEnum
from typing import Final

import orjson
from aiohttp import web

TAKES: Final = 0.005
DRIP: Final = 0.05
HTML: Final = b"<html><body>The model is being loaded.</body></html>"


class Fault(StrEnum):
    """The fault of the reranker."""

    NONE = "none"
    REFUSED = "refused"
    HANG = "hang"
    SLOW = "slow"
    TOO_MANY = "429 storm"
    DOWN = "503 storm"
    GARBAGE = "garbage"
    WRONG_SCORES = "wrong scores"
    RESET = "reset"
    HALF_DOWN = "half 503"
    HALF_GARBAGE = "half garbage"


_HALF: Final = {Fault.HALF_DOWN: Fault.DOWN, Fault.HALF_GARBAGE: Fault.GARBAGE}
_STATUSES: Final = {Fault.TOO_MANY: 429, Fault.DOWN: 503}


class FailingReranker:
    """The server as its user sees it."""

    def __init__(self, process: "subprocess.Popen[str]") -> None:
        self._process = process
        self.url = self._said()

    def turn(self, fault: Fault) -> None:
        """Have it fail in this way from now on; returns when it does."""
        assert self._process.stdin is not None
        print(fault, file=self._process.stdin, flush=True)
        assert self._said() == fault

    def _said(self) -> str:
        assert self._process.stdout is not None
        return self._process.stdout.readline().strip()


@contextlib.contextmanager
def failing_reranker() -> Iterator[FailingReranker]:
    """Serve in another process, healthy at first."""
    command = [sys.executable, "-m", "bench.failing_reranker"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin is not None
        try:
            yield FailingReranker(process)
        finally:
            process.stdin.close()


class _Server:
    """The server on its own port, on which it may listen or not."""

    def __init__(self) -> None:
        # Bound by this socket too, so that nobody else gets the port while nobody listens.
        self._kept = _bound(0)
        self.port: int = self._kept.getsockname()[1]
        self._runner: web.AppRunner | None = None
        self._fault = Fault.NONE
        self._chance = random.Random(1)

    async def turn(self, fault: Fault) -> None:
        """Fail in this way from now on; the coin of those that fail half of the time starts anew."""
        self._fault = fault
        self._chance.seed(1)
        if fault is Fault.REFUSED:
            await self.close()
        elif self._runner is None:
            await self._listen()

    async def close(self) -> None:
        """Listen no longer and break all connections."""
        if self._runner is not None:
            await self._runner.cleanup()
        self._runner = None

    async def _listen(self) -> None:
        app = web.Application(client_max_size=64 * 1024 * 1024)
        app.router.add_post("/{dialect:rerank|score}", self._answer)
        self._runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1, handler_cancellation=True)
        await self._runner.setup()
        await web.SockSite(self._runner, _bound(self.port)).start()

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        content = _scores(request.match_info["dialect"], orjson.loads(await request.read()))
        fault = self._fault
        if fault in _HALF:
            fault = _HALF[fault] if self._chance.random() < 0.5 else Fault.NONE
        if fault is Fault.HANG:
            await asyncio.Event().wait()
        if fault in _STATUSES:
            return web.Response(status=_STATUSES[fault])
        if fault is Fault.GARBAGE:
            return web.Response(body=HTML, content_type="text/html")
        if fault is Fault.WRONG_SCORES:
            content = content.replace(b"0.5", b"NaN")
        await asyncio.sleep(TAKES)
        if fault in {Fault.SLOW, Fault.RESET}:
            return await _in_pieces(request, content, breaks=fault is Fault.RESET)
        return web.Response(body=content, content_type="application/json")


async def _in_pieces(request: web.Request, content: bytes, *, breaks: bool) -> web.StreamResponse:
    """The right answer byte by byte, or broken off in its middle."""
    response = web.StreamResponse(headers={"content-length": str(len(content))})
    await response.prepare(request)
    assert request.transport is not None
    if breaks:
        await response.write(content[: len(content) // 2])
        request.transport.abort()
        return response
    for place in range(len(content)):
        await response.write(content[place : place + 1])
        await asyncio.sleep(DRIP)
    return response


def _scores(dialect: str, body: dict[str, list[str]]) -> bytes:
    if dialect == "rerank":
        return orjson.dumps({"results": [{"index": i, "relevance_score": 0.5} for i in range(len(body["documents"]))]})
    return orjson.dumps({"data": [{"index": index, "score": 0.5} for index in range(len(body["text_2"]))]})


def _bound(port: int) -> socket.socket:
    opened = socket.socket()
    opened.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    opened.bind(("127.0.0.1", port))
    return opened


async def _serve() -> None:
    server = _Server()
    await server.turn(Fault.NONE)
    print(f"http://127.0.0.1:{server.port}", flush=True)
    while line := await asyncio.to_thread(sys.stdin.readline):
        await server.turn(Fault(line.strip()))
        print(line.strip(), flush=True)
    await server.close()


if __name__ == "__main__":
    asyncio.run(_serve())
