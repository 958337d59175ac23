"""The command line of a peer, and its endpoint that says when it takes queries."""

import argparse
import asyncio
import signal
from dataclasses import dataclass
from typing import Self

from aiohttp import web


@dataclass(frozen=True, slots=True)
class Place:
    """A peer's surroundings: its broker, topics and group, its backends and collection, and the port that reports it
    ready.
    """

    bootstrap: str
    group: str
    queries: str
    results: str
    dead_letters: str
    documents: str
    qdrant: str
    collection: str
    rerank: str
    embed: str
    port: int

    @classmethod
    def given(cls) -> Self:
        """From the command line."""
        parser = argparse.ArgumentParser()
        for name, field in cls.__dataclass_fields__.items():
            parser.add_argument(f"--{name.replace('_', '-')}", type=int if field.type is int else str, required=True)
        return cls(**vars(parser.parse_args()))

    def arguments(self) -> list[str]:
        """As a command line."""
        return [
            text
            for name in self.__dataclass_fields__
            for text in (f"--{name.replace('_', '-')}", str(getattr(self, name)))
        ]


async def ready(port: int) -> web.AppRunner:
    """Answer 200 on the port from now on, until the runner is cleaned up."""

    async def answer(_: web.Request) -> web.Response:
        return web.Response(text="ready")

    app = web.Application()
    app.router.add_get("/readyz", answer)
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", port).start()
    return runner


def stopping() -> asyncio.Event:
    """Set when the process is told to end."""
    stop = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    return stop
