"""A stand-in for a Qdrant server: the embedded engine over HTTP on loopback.

`python -m tests.qdrant_server --port 6333 --path DIRECTORY` serves until it is interrupted.
"""

import argparse
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
from aiohttp import web

from bench.stubs import served
from operators.clients.qdrant_edge.shards import Engine
from tests.qdrant_routes import ServerTransport

# As Qdrant's own server has it.
BODY_LIMIT = 32 * 1024 * 1024


def application(engine: Engine) -> web.Application:
    """The engine's transport as a web application."""
    transport = ServerTransport(engine)

    async def answer(request: web.Request) -> web.Response:
        content = await request.read()
        url = httpx.URL(f"http://engine{request.raw_path}")
        answered = await transport.handle_async_request(httpx.Request(request.method, url, content=content))
        headers = {"content-type": answered.headers["content-type"]}
        return web.Response(status=answered.status_code, body=answered.content, headers=headers)

    app = web.Application(client_max_size=BODY_LIMIT)
    app.router.add_route("*", "/{path:.*}", answer)
    return app


@contextmanager
def serve(path: Path) -> Iterator[str]:
    """Serve the engine over `path` from a thread of its own on a free port; yields the base URL."""
    with Engine(path) as engine, served(application(engine)) as url:
        yield url


def main() -> None:
    """Serve in the foreground until SIGINT or SIGTERM."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--path", type=Path, required=True)
    options = parser.parse_args()
    stop = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: stop.set())
    with Engine(options.path) as engine, served(application(engine), options.port):
        stop.wait()


if __name__ == "__main__":
    main()
