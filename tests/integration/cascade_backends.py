"""An embedder that fails on demand and a reranker that keeps what it reads."""

import asyncio
import random
import zlib
from collections.abc import Iterator
from contextlib import contextmanager

import orjson
from aiohttp import web

from bench.stubs import served
from tests.operators.clients.rerankers.servers import Cohere


class Backends:
    """The vault's embedder and reranker: what they were asked, and how the embedder fails by the text."""

    def __init__(self) -> None:
        self.texts: list[str] = []
        self.reranker = Cohere()

    async def embed(self, request: web.Request) -> web.Response:
        """Equal texts, equal vectors; 500 to `broken`, and to the first request with `shaky`; nothing to `stalling`."""
        texts = (await request.json())["input"]
        first = not any("shaky" in text for text in self.texts)
        self.texts += texts
        told = " ".join(texts)
        if "stalling" in told:
            await asyncio.Event().wait()
        if "broken" in told or ("shaky" in told and first):
            return web.Response(status=500)
        entries = [{"object": "embedding", "index": n, "embedding": vector(text)} for n, text in enumerate(texts)]
        return web.Response(body=orjson.dumps({"data": entries}), content_type="application/json")

    @contextmanager
    def serving(self) -> Iterator[tuple[str, str]]:
        """Serve both; their base URLs."""
        app = web.Application(client_max_size=1 << 26)
        app.router.add_post("/embeddings", self.embed)
        app.router.add_post("/base/rerank", self.reranker.__call__)
        with served(app) as url:
            yield url, f"{url}/base"


def vector(text: str) -> list[float]:
    """A text's vector in the vault, of length 1 or not."""
    rng = random.Random(zlib.crc32(text.encode()))
    return [rng.gauss(0, 1) for _ in range(384)]
