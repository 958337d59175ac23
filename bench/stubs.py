"""Backends of fixed latency and next to no CPU, as HTTP servers: stubs of Qdrant, a reranker and an embedder. What they
answer depends on the request alone, the points and texts of a collection on its name. Each has a switch,
`POST /control {"fault": ...}`, that makes it fail.
    python -m bench.stubs --qdrant-port 6333 --rerank-port 8080 --embed-port 8081 --rerank-latency-ms 30
"""

import argparse
import asyncio
import contextlib
import functools
import random
import re
import signal
import uuid
import zlib
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass
from typing import Any, Final, Literal, get_args

import numpy as np
import orjson
from aiohttp import web
from anyio.from_thread import start_blocking_portal

from bench.otlp import otlp_app

Fault = Literal["hang", "garbage", "500", "429", "slow", "nan"]
Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]

SERVED = "qdrant", "rerank", "embed", "otlp"
POOL = 1000
DIMENSION = 384
NAMESPACE = "default"
TENANT = "tenant-"
"""The namespaces beside the default one, before their number. The ids of their points end with it."""


@functools.cache
def _ids(points: int) -> list[str]:
    return [str(uuid.uuid5(uuid.NAMESPACE_OID, f"stub {number}")) for number in range(points)]


@functools.cache
def _numbers(points: int) -> dict[str, int]:
    """The number of each point by the part of its id that all namespaces share."""
    return {point[:-12]: number for number, point in enumerate(_ids(points))}


IDS = _ids(POOL)

_COLLECTION: Final = "documents"
_SIZED: Final = re.compile("([0-9]+)-points-of-([0-9]+)")
_ENDS: Final = re.compile(rb'(?<=-[0-9a-f]{4})-[0-9a-f]{12}"')
_WORDS = "harbor lantern violin ledger copper meadow signal winter bridge orchard compass river granite letter"
_INFO: dict[str, Any] = {
    "status": "green",
    "optimizer_status": "ok",
    "points_count": POOL,
    "segments_count": 1,
    "config": {
        "params": {
            "vectors": {"dense": {"size": DIMENSION, "distance": "Cosine"}},
            "sparse_vectors": {"bm25": {"modifier": "idf"}},
        },
        "hnsw_config": {"m": 16, "ef_construct": 100, "full_scan_threshold": 10000},
        "optimizer_config": {"deleted_threshold": 0.2, "vacuum_min_vector_number": 1000, "flush_interval_sec": 5}
        | {"default_segment_number": 2},
    },
    "payload_schema": {},
}


@dataclass(frozen=True, slots=True)
class Collection:
    """A stub collection: its points, a multiple of POOL, and the characters of a text, 0 for about 470 each."""

    points: int = POOL
    characters: int = 0

    @property
    def name(self) -> str:
        """The name by which the stub knows it."""
        return _COLLECTION if self == Collection() else f"{self.points}-points-of-{self.characters}"

    @classmethod
    def named(cls, name: str) -> "Collection":
        """The collection of a name; any that says nothing else has the defaults."""
        sized = _SIZED.fullmatch(name)
        return cls(*map(int, sized.groups())) if sized else cls()


def text(number: int, characters: int = 0) -> str:
    """The text of point `number`: so many characters, or about 470."""
    rng, words = random.Random(number), _WORDS.split()
    if not characters:
        return f"Entry {number}: " + " ".join(rng.choices(words, k=66))
    # No word and its space are shorter than six characters.
    return (f"Entry {number}: " + " ".join(rng.choices(words, k=characters // 6 + 1)))[:characters]


def relevance(query: str, document: str) -> float:
    """The stub reranker's score of `document` for `query`, in 0..1."""
    return zlib.crc32(document.encode(), zlib.crc32(query.encode())) / 0xFFFFFFFF


def qdrant_app(latency: float) -> web.Application:
    """Qdrant's `query`, `query/batch`, retrieval, collection info and `/readyz`; the first three take `latency` s."""

    async def search(request: web.Request) -> web.Response:
        collection, searches = _collection(request), orjson.loads(await request.read())["searches"]
        await asyncio.sleep(latency)
        found = (_found(collection, each) for each in searches)
        return _json(b'{"result":[' + b",".join(found) + b'],"status":"ok","time":0.0}')

    async def search_alone(request: web.Request) -> web.Response:
        body = orjson.loads(await request.read())
        await asyncio.sleep(latency)
        return _json(b'{"result":' + _found(_collection(request), body) + b',"status":"ok","time":0.0}')

    async def retrieve(request: web.Request) -> web.Response:
        collection, ids = _collection(request), orjson.loads(await request.read())["ids"]
        await asyncio.sleep(latency)
        known = _numbers(collection.points)
        records = (_record(collection, point, known[point[:-12]]) for point in ids if point[:-12] in known)
        return _json(b'{"result":[' + b",".join(records) + b'],"status":"ok","time":0.0}')

    async def info(_: web.Request) -> web.Response:
        return _json(orjson.dumps({"result": _INFO, "status": "ok", "time": 0.0}))

    async def ready(_: web.Request) -> web.Response:
        return web.Response(text="all shards are ready")

    app = _app(nan=b'{"result":[{"points":[{"id":"%s","version":0,"score":NaN}]}]}' % IDS[0].encode())
    app.router.add_post("/collections/{collection}/points/query/batch", search)
    app.router.add_post("/collections/{collection}/points/query", search_alone)
    app.router.add_post("/collections/{collection}/points", retrieve)
    app.router.add_get("/collections/{collection}", info)
    app.router.add_get("/readyz", ready)
    return app


def rerank_app(latency: float) -> web.Application:
    """A Cohere-style `/rerank` that takes `latency` seconds and scores by `relevance`."""

    async def rerank(request: web.Request) -> web.Response:
        body = orjson.loads(await request.read())
        await asyncio.sleep(latency)
        documents = body["documents"]
        results = [
            {"index": index, "relevance_score": relevance(body["query"], document)}
            for index, document in enumerate(documents)
        ]
        results.sort(key=lambda result: result["relevance_score"], reverse=True)
        return _json(orjson.dumps({"results": results[: body.get("top_n", len(documents))]}))

    app = _app(nan=b'{"results":[{"index":0,"relevance_score":NaN}]}')
    app.router.add_post("/rerank", rerank)
    return app


def embed_app(latency: float) -> web.Application:
    """An OpenAI-compatible `/embeddings` of 384 dimensions that takes `latency` seconds; equal texts, equal vectors."""

    async def embed(request: web.Request) -> web.Response:
        texts = orjson.loads(await request.read())["input"]
        await asyncio.sleep(latency)
        entries = (
            b'{"object":"embedding","index":%d,"embedding":%b}' % (index, _vector(zlib.crc32(each.encode())))
            for index, each in enumerate(texts)
        )
        return _json(b'{"object":"list","model":"stub","data":[' + b",".join(entries) + b"]}")

    app = _app(nan=b'{"data":[{"index":0,"embedding":[NaN]}]}')
    app.router.add_post("/embeddings", embed)
    return app


@contextlib.contextmanager
def served(app: web.Application, port: int = 0, keep_alive: float = 75.0) -> Iterator[str]:
    """Serve `app` on loopback in a thread of its own and give its base URL; port 0 is any free one.

    A connection that is idle for `keep_alive` seconds is closed.
    """
    with start_blocking_portal() as portal:
        runner = portal.call(_start, app, port, keep_alive)
        try:
            yield f"http://127.0.0.1:{runner.addresses[0][1]}"
        finally:
            portal.call(runner.cleanup)


@dataclass(frozen=True, slots=True)
class Stubs:
    """The base URLs of the three stub backends."""

    qdrant: str
    rerank: str
    embed: str


@contextlib.contextmanager
def stub_backends(
    *, qdrant_latency: float = 0.0, rerank_latency: float = 0.0, embed_latency: float = 0.0
) -> Iterator[Stubs]:
    """Serve all three on free ports, a thread each; latencies in seconds."""
    with (
        served(qdrant_app(qdrant_latency)) as qdrant,
        served(rerank_app(rerank_latency)) as rerank,
        served(embed_app(embed_latency)) as embed,
    ):
        yield Stubs(qdrant, rerank, embed)


def _app(*, nan: bytes) -> web.Application:
    """An application that obeys `/control`, and otherwise answers as its routes say."""
    fault: Fault | None = None

    @web.middleware
    async def failing(request: web.Request, handler: Handler) -> web.StreamResponse:
        if fault is None or request.path == "/control":
            return await handler(request)
        match fault:
            case "hang":
                await asyncio.Event().wait()
            case "garbage":
                return web.Response(body=b"<html>not what you asked for</html>", content_type="text/html")
            case "nan":
                return _json(nan)
            case "slow":
                return await _drip(request, await handler(request))
        return web.Response(status=int(fault), text="a fault that was asked for")

    async def control(request: web.Request) -> web.Response:
        nonlocal fault
        wanted = orjson.loads(await request.read())["fault"]
        if wanted is not None and wanted not in get_args(Fault):
            raise web.HTTPBadRequest(text=f"faults are {get_args(Fault)}")
        fault = wanted
        return _json(b"{}")

    app = web.Application(middlewares=[failing], client_max_size=64 * 1024 * 1024)
    app.router.add_post("/control", control)
    return app


async def _drip(request: web.Request, answer: web.StreamResponse) -> web.StreamResponse:
    """Send the answer's body at ten bytes a second."""
    assert isinstance(answer, web.Response)
    assert isinstance(answer.body, bytes)
    slow = web.StreamResponse(headers={"content-type": answer.content_type})
    slow.content_length = len(answer.body)
    await slow.prepare(request)
    for start in range(len(answer.body)):
        await slow.write(answer.body[start : start + 1])
        await asyncio.sleep(0.1)
    return slow


def _collection(request: web.Request) -> Collection:
    return Collection.named(request.match_info["collection"])


def _start_of(search: dict[str, Any]) -> int:
    """The position in a pool of POOL points at which the hits of `search` start."""
    query = search.get("query")
    if isinstance(query, list):
        # A few numbers tell vectors apart; to write all of them costs as much as the rest of the answer.
        search = {**search, "query": query[:8]}
    return zlib.crc32(orjson.dumps(search)) % POOL


def _found(collection: Collection, search: dict[str, Any]) -> bytes:
    wanted = search.get("with_payload")
    # As many positions in a larger pool: the answers are cached.
    start = _start_of(search) * (collection.points // POOL)
    found = _hits(collection, start, search.get("limit", 10), None if not wanted else wanted is True)
    tenant = next((name for name in _namespaces(search) if name.startswith(TENANT)), None)
    return found if tenant is None else _of_tenant(found, int(tenant.removeprefix(TENANT)))


def _namespaces(search: dict[str, Any]) -> Iterator[str]:
    conditions = search.get("filter", {}).get("must", ())
    return (each["match"]["value"] for each in conditions if each.get("key") == "namespace")


def _of_tenant(points: bytes, number: int) -> bytes:
    """The same points in another namespace, with ids of its own."""
    named = points.replace(b'"namespace":"%b"' % NAMESPACE.encode(), b'"namespace":"%b%d"' % (TENANT.encode(), number))
    return _ENDS.sub(b'-%012x"' % number, named)


@functools.cache
def _hits(collection: Collection, start: int, limit: int, whole: bool | None) -> bytes:
    """Hits with the whole payload, or what the default recipe reads of it, or none."""
    hits, points = [], collection.points
    for rank in range(min(limit, points)):
        number = (start + rank) % points
        known = _payload(collection, number) if whole else b'{"_content":%d,"namespace":"default"}' % number
        payload = b"" if whole is None else b',"payload":' + known
        score = b"%.4f" % (1 - rank / points)
        hits.append(b'{"id":"%b","version":1,"score":%b%b}' % (_ids(points)[number].encode(), score, payload))
    return b'{"points":[' + b",".join(hits) + b"]}"


@functools.cache
def _payload(collection: Collection, number: int) -> bytes:
    written = text(number, collection.characters)
    return orjson.dumps({"text": written, "id": f"doc-{number}", "namespace": NAMESPACE, "_content": number})


def _record(collection: Collection, point: str, number: int) -> bytes:
    own = _own_record(collection, number)
    return own if point == _ids(collection.points)[number] else _of_tenant(own, int(point[-12:], 16))


@functools.cache
def _own_record(collection: Collection, number: int) -> bytes:
    return b'{"id":"%b","payload":%b}' % (_ids(collection.points)[number].encode(), _payload(collection, number))


@functools.lru_cache(POOL)
def _vector(number: int) -> bytes:
    values = np.random.default_rng(number).standard_normal(DIMENSION)
    return orjson.dumps((values / np.linalg.norm(values)).round(6), option=orjson.OPT_SERIALIZE_NUMPY)


def _json(body: bytes) -> web.Response:
    return web.Response(body=body, content_type="application/json")


async def _start(app: web.Application, port: int, keep_alive: float = 75.0) -> web.AppRunner:
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1, keepalive_timeout=keep_alive)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", port).start()
    return runner


async def _serve(arguments: argparse.Namespace) -> None:
    stop = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    runners = [
        await _start(qdrant_app(arguments.qdrant_latency_ms / 1000), arguments.qdrant_port),
        await _start(rerank_app(arguments.rerank_latency_ms / 1000), arguments.rerank_port),
        await _start(embed_app(arguments.embed_latency_ms / 1000), arguments.embed_port),
        await _start(otlp_app(), 0),
    ]
    for name, runner in zip(SERVED, runners, strict=True):
        print(f"{name} http://127.0.0.1:{runner.addresses[0][1]}", flush=True)
    await stop.wait()
    for runner in runners:
        await runner.cleanup()


def main() -> None:
    """Serve all until SIGINT or SIGTERM, after printing a line `name URL` for each."""
    parser = argparse.ArgumentParser(prog="python -m bench.stubs", description="Stub backends of fixed latency.")
    for backend, latency in (("qdrant", 10.0), ("rerank", 30.0), ("embed", 5.0)):
        parser.add_argument(f"--{backend}-port", type=int, default=0, help="0: any free one")
        parser.add_argument(f"--{backend}-latency-ms", type=float, default=latency)
    asyncio.run(_serve(parser.parse_args()))


if __name__ == "__main__":
    main()
