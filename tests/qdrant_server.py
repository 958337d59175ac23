"""A stand-in for a Qdrant server: the embedded engine over HTTP on loopback.

`python -m tests.qdrant_server --port 6333 --path DIRECTORY` serves until it is interrupted.
"""

import argparse
import asyncio
import signal
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
from aiohttp import web

from operators.clients.qdrant.engine import EngineTransport
from operators.clients.qdrant.shards import Engine

# As Qdrant's own server has it.
BODY_LIMIT = 32 * 1024 * 1024


def application(engine: Engine) -> web.Application:
    """The engine's transport as a web application."""
    transport = EngineTransport(engine)

    async def answer(request: web.Request) -> web.Response:
        content = await request.read()
        url = httpx.URL(f"http://engine{request.raw_path}")
        answered = await transport.handle_async_request(httpx.Request(request.method, url, content=content))
        headers = {"content-type": answered.headers["content-type"]}
        return web.Response(status=answered.status_code, body=answered.content, headers=headers)

    app = web.Application(client_max_size=BODY_LIMIT)
    app.router.add_route("*", "/{path:.*}", answer)
    return app


async def _serve(engine: Engine, listener: socket.socket, started: threading.Event, stop: asyncio.Event) -> None:
    runner = web.AppRunner(application(engine), access_log=None)
    await runner.setup()
    await web.SockSite(runner, listener).start()
    started.set()
    try:
        await stop.wait()
    finally:
        await runner.cleanup()


@contextmanager
def serve(path: Path) -> Iterator[str]:
    """Serve the engine over `path` from a thread of its own on a free port; yields the base URL."""
    listener = socket.create_server(("127.0.0.1", 0))
    started = threading.Event()
    stop = asyncio.Event()
    loop = asyncio.new_event_loop()

    with Engine(path) as engine:
        thread = threading.Thread(target=lambda: loop.run_until_complete(_serve(engine, listener, started, stop)))
        thread.start()
        started.wait()
        try:
            yield f"http://127.0.0.1:{listener.getsockname()[1]}"
        finally:
            loop.call_soon_threadsafe(stop.set)
            thread.join()
            loop.close()


async def _run(engine: Engine, port: int) -> None:
    stop = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    await _serve(engine, socket.create_server(("127.0.0.1", port)), threading.Event(), stop)


def main() -> None:
    """Serve in the foreground until SIGINT or SIGTERM."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--path", type=Path, required=True)
    options = parser.parse_args()
    with Engine(options.path) as engine:
        asyncio.run(_run(engine, options.port))


if __name__ == "__main__":
    main()
