"""The embedded engine under several tasks, loops and threads: who has to wait, and who is told what."""

import asyncio
import threading
from typing import Any

import pytest
from qdrant_edge import Point, SparseVector, UpdateOperation

from operators.clients.qdrant_edge.shards import Engine, Refusal
from tests.operators.clients.qdrant_edge.engine_requests import ask, done


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        (
            "POST",
            "/points/query/batch",
            {"searches": [{"query": [1.0, 2.0], "using": "dense"}] * 64},
        ),
        ("PUT", "/points", {"points": [{"id": each, "vector": {"dense": [1.0, 2.0]}} for each in range(64)]}),
    ],
    ids=["searches", "upserts"],
)
async def test_long_requests_let_others_run(engine: Engine, method: str, path: str, body: Any) -> None:
    """While 64 searches or upserts run, the loop's other tasks get a turn for every eight of them."""
    task = asyncio.create_task(ask(engine, method, f"/collections/docs{path}", body))
    taken = 0
    while not task.done():
        taken += 1
        await asyncio.sleep(0)
    assert (await task)[0] == 200
    assert taken >= 8


def test_two_loops_share_an_engine(engine: Engine) -> None:
    """Searches in one thread's loop and upserts in another's all succeed, and everything written is found."""
    failures: list[Any] = []

    async def write() -> None:
        for start in range(0, 400, 20):
            points = [{"id": start + each, "vector": {"dense": [1.0, 2.0]}} for each in range(20)]
            status, answer = await ask(engine, "PUT", "/collections/docs/points", {"points": points})
            if status != 200:
                failures.append(answer)

    async def read() -> None:
        searches = [{"query": [1.0, 2.0], "using": "dense", "limit": 5}] * 16
        for _ in range(40):
            batch = ask(engine, "POST", "/collections/docs/points/query/batch", {"searches": searches})
            for status, answer in await asyncio.gather(batch, ask(engine, "GET", "/collections/docs")):
                if status != 200:
                    failures.append(answer)

    threads = [threading.Thread(target=lambda job=job: asyncio.run(job())) for job in (write, read, read)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    assert done(engine, "POST", "/collections/docs/points/count", {}) == {"count": 400}


async def test_dropping_under_a_search_is_a_missing_collection(engine: Engine) -> None:
    """A collection that is dropped while a batch runs answers that batch with 404, not with an error of the engine."""
    searches = [{"query": [1.0, 2.0], "using": "dense"}] * 64
    batch = asyncio.create_task(ask(engine, "POST", "/collections/docs/points/query/batch", {"searches": searches}))
    await asyncio.sleep(0)
    await ask(engine, "DELETE", "/collections/docs")
    assert (await batch)[0] == 404


def test_a_panic_of_the_engine_is_a_server_error(engine: Engine) -> None:
    """Should the engine panic, the request fails with 500 and the process lives on."""
    poison = UpdateOperation.upsert_points([Point(1, {"bm25": SparseVector([3, 1], [1.0])})])
    with pytest.raises(Refusal) as panicked:
        engine.collection("docs").run(lambda shard: shard.update(poison))
    assert panicked.value.status == 500
    assert engine.exists("docs")
