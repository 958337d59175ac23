"""Readiness asks Qdrant for what the flow needs: each configured collection, with the key."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from aiohttp import web

from bench.stubs import served
from flows.assembly import Resources
from flows.assembly.clients import Clients, InProcess, Ping
from operators.collections.catalogue import Catalogue
from operators.collections.making import configuration
from operators.runtime.event_loop import EventLoopThread, Wakeup
from schemas.settings import Settings, load
from tests.operators.clients.http.resilience import unused_port
from tests.operators.clients.http.serving import json_response
from tests.operators.samples import METRICS
from tests.qdrant_server import serve

KEY = "sesame"


def settings(url: str) -> Settings:
    """Two collections on this server."""
    section = {"url": url, "api_key": KEY, "destinations": {"default": "docs", "other": "others"}}
    return load(None, {"qdrant": section, "embedder": {"kind": "none"}, "rerank": {"kind": "none"}})


@contextmanager
def pinging(url: str) -> Iterator[tuple[Ping, Clients, EventLoopThread]]:
    """The check named `qdrant`, as the flows register it."""
    given = settings(url)
    calls = EventLoopThread(Wakeup())
    with Resources() as resources:
        resources.register("calls", calls.close)
        clients = Clients.of(given, InProcess(given), METRICS)
        pings = clients.register(resources, calls, given.qdrant, Catalogue(clients.qdrant, given.qdrant))
        yield pings["qdrant"], clients, calls


def test_a_missing_collection_is_not_ready_until_it_is_made(tmp_path: Path) -> None:
    """A server without one of the collections isn't ready; once the collection is made, it is."""
    with serve(tmp_path) as url, pinging(url) as (ping, clients, calls):
        made = configuration(settings(url).qdrant)
        seen = [ping()]
        for name in ("docs", "others"):
            calls.run(clients.qdrant.create_collection(name, made, timeout=30), 30)
            seen.append(ping())
    assert seen == [False, False, True]


@pytest.mark.parametrize(
    "vectors",
    [{"dense": {"size": 8, "distance": "Cosine"}}, {"embedding": {"size": 384, "distance": "Cosine"}}],
    ids=["another dimension", "another name"],
)
def test_a_collection_whose_vectors_do_not_fit_is_not_ready_until_one_does(
    tmp_path: Path, vectors: dict[str, Any]
) -> None:
    """Qdrant would refuse the vector of every query; once the collection is made anew, the replica is ready."""
    with serve(tmp_path) as url, pinging(url) as (ping, clients, calls):
        made = configuration(settings(url).qdrant)
        others = {"vectors": vectors, "sparse_vectors": {"bm25": {"modifier": "idf"}}}
        calls.run(clients.qdrant.create_collection("docs", made, timeout=30), 30)
        httpx.put(f"{url}/collections/others", json=others).raise_for_status()
        seen = [ping()]
        httpx.delete(f"{url}/collections/others").raise_for_status()
        calls.run(clients.qdrant.create_collection("others", made, timeout=30), 30)
        seen.append(ping())
    assert seen == [False, True]


@pytest.mark.parametrize("status", [200, 401, 403, 500])
def test_the_key_must_open_every_collection(status: int) -> None:
    """A key that one collection is refused to isn't ready, though the server says of itself that it is."""
    made = configuration(settings("http://qdrant").qdrant)
    info = {"result": {"points_count": 0, "config": {"params": made}}}
    keys: list[str | None] = []

    async def answer(request: web.Request) -> web.Response:
        keys.append(request.headers.get("api-key"))
        if request.path == "/collections/others" and status != 200:
            return json_response({"status": {"error": "no"}}, status)
        return json_response(info)

    app = web.Application()
    app.router.add_route("*", "/{path:.*}", answer)
    with served(app) as url, pinging(url) as (ping, _, _):
        assert ping() == (status == 200)
    assert set(keys) == {KEY}


def test_a_probe_is_bounded() -> None:
    """A server that never answers, and one that isn't there, are not ready: the probe ends."""

    async def hang(_: Any) -> web.Response:
        await asyncio.Event().wait()
        return json_response({})

    app = web.Application()
    app.router.add_route("*", "/{path:.*}", hang)
    with served(app) as url, pinging(url) as (ping, _, _):
        assert not ping()
    with pinging(f"http://127.0.0.1:{unused_port()}") as (ping, _, _):
        assert not ping()
