"""The HTTP connections: a call through our pool beside one through httpx's own, with one and with 128 under way.

Both have httpx's requests and responses, and differ in what carries them. A stub in another process answers at once.
"""

import asyncio
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, Final

import httpx

from bench.child import running_child
from bench.figures import spread
from bench.stubs import SERVED
from operators.clients.http.pool import PooledTransport

AT_ONCE: Final = (1, 128)
_CALLS: Final = 2_000
_STUBS: Final = (sys.executable, "-m", "bench.stubs", "--embed-latency-ms", "0")
_BODY: Final = b'{"model":"bench","input":["parse a date from a string"]}'


def connections(rounds: int) -> dict[str, Any]:
    """CPU of a call in us by transport and number of calls under way, and the ratio of httpx's to ours."""
    with (
        tempfile.TemporaryDirectory() as scratch,
        running_child("stubs", _STUBS, Path(scratch) / "log", talk=True) as stubs,
    ):
        urls = dict(stubs.line().split() for _ in SERVED)
        found = {str(at_once): _compare(urls["embed"] + "/embeddings", at_once, rounds) for at_once in AT_ONCE}
    return {"calls": _CALLS, "at_once": found}


def _compare(url: str, at_once: int, rounds: int) -> dict[str, Any]:
    ours: list[float] = []
    theirs: list[float] = []
    for _ in range(rounds + 1):
        pool = PooledTransport(max_connections=at_once, keep_alive=60.0, verify=False)
        limits = httpx.Limits(max_connections=at_once, max_keepalive_connections=at_once)
        for transport, into in ((pool, ours), (httpx.AsyncHTTPTransport(verify=False, limits=limits), theirs)):
            into.append(asyncio.run(_measure(transport, url, at_once)))
    # The first round warms up.
    ratios = [their / our for our, their in zip(ours[1:], theirs[1:], strict=True)]
    return {"ours_us": spread(ours[1:]), "httpx_us": spread(theirs[1:]), "ratio": spread(ratios)}


async def _measure(transport: httpx.AsyncBaseTransport, url: str, at_once: int) -> float:
    """The CPU of a call in us, the client's alone."""
    left = iter(range(_CALLS))
    headers = {"content-type": "application/json", "content-length": str(len(_BODY))}

    async def call() -> None:
        for _ in left:
            request = httpx.Request("POST", url, headers=headers, content=_BODY)
            response = await transport.handle_async_request(request)
            await response.aread()
            await response.aclose()

    async with transport:
        began = time.process_time()
        await asyncio.gather(*(call() for _ in range(at_once)))
        return (time.process_time() - began) / _CALLS * 1e6
