"""A stand-in for a server of a cross-encoder: vLLM's `/score`, one request at a time, in a process of its own.

A request takes 20 ms and 0.1 ms a pair; one of more than 1,000 pairs is refused. `python -m bench.pair_server` prints
its URL and serves until its input ends.
"""

import asyncio
import contextlib
import subprocess
import sys
from collections.abc import Iterator
from typing import Final

import orjson
from aiohttp import web

BASE: Final = 0.020
PER_PAIR: Final = 0.0001
MOST: Final = 1000


def app() -> web.Application:
    """The server."""
    turn = asyncio.Lock()

    async def score(request: web.Request) -> web.Response:
        texts = orjson.loads(await request.read())["text_2"]
        if len(texts) > MOST:
            return web.json_response({"error": "too many pairs"}, status=400)
        async with turn:
            await asyncio.sleep(BASE + PER_PAIR * len(texts))
        data = [{"index": index, "score": len(text) / 1000} for index, text in enumerate(texts)]
        return web.Response(body=orjson.dumps({"data": data}), content_type="application/json")

    serving = web.Application(client_max_size=64 * 1024 * 1024)
    serving.router.add_post("/score", score)
    return serving


@contextlib.contextmanager
def pair_server() -> Iterator[str]:
    """Serve in another process; gives the base URL."""
    command = [sys.executable, "-m", "bench.pair_server"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            yield process.stdout.readline().strip()
        finally:
            process.stdin.close()


async def _serve() -> None:
    runner = web.AppRunner(app(), access_log=None, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    print(f"http://127.0.0.1:{runner.addresses[0][1]}", flush=True)
    await asyncio.to_thread(sys.stdin.read)
    await runner.cleanup()


if __name__ == "__main__":
    asyncio.run(_serve())
