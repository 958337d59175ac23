"""Requests that fit what the strict mode of their collection allows."""

import asyncio
from pathlib import Path
from typing import Any

import httpx
import orjson
import pytest

from operators.access.filters import count_conditions
from operators.clients.http.transport import Endpoint
from operators.clients.qdrant.requests import Limits
from operators.clients.qdrant.server import ServerClient
from operators.clients.qdrant_edge.shards import Engine
from operators.indexing.point import deletable
from operators.query.backend_answers import Hits
from tests.operators.clients.qdrant.transports import qdrant
from tests.operators.indexing.documents import document
from tests.qdrant_server.transport import ServerTransport

STRICT = {"enabled": True, "max_timeout": 5, "search_max_batchsize": 3, "upsert_max_batchsize": 2}


class Recorder(httpx.AsyncBaseTransport):
    """Takes everything, and keeps what was asked."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, str, Any]] = []

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Answer as a collection with these limits."""
        body = orjson.loads(request.content) if request.content else {}
        self.asked.append((request.url.path, request.url.params.get("timeout", ""), body))
        result: Any = {"points_count": 0, "config": {"params": {}, "strict_mode_config": STRICT}}
        if request.url.path.endswith("/batch"):
            result = [{"points": [{"id": search["limit"], "score": 1.0}]} for search in body["searches"]]
        elif request.method == "PUT":
            result = {"status": "completed"}
        return httpx.Response(200, content=orjson.dumps({"result": result, "status": "ok", "time": 0.0}))


def asked(collection: str) -> Recorder:
    """The requests of a client that has read what `docs` is: five searches, five points."""
    recorder = Recorder()

    async def scenario() -> None:
        client = qdrant(recorder)
        await client.collection_info("docs", timeout=60)
        searches = [{"query": [1.0], "limit": limit} for limit in range(1, 6)]
        found = await client.query_batch(collection, searches, timeout=60)
        assert [getattr(hits, "ids", None) for hits in found] == [["1"], ["2"], ["3"], ["4"], ["5"]]
        await client.upsert(collection, [{"id": number, "vector": {}} for number in range(5)], timeout=60)

    asyncio.run(scenario())
    return recorder


def test_batches_and_timeouts_are_as_the_collection_takes_them() -> None:
    """No more searches, points and seconds than it allows, once it has been read."""
    (_, first, _), *rest = asked("docs").asked
    assert first == "60"
    assert {timeout for _, timeout, _ in rest} == {"5"}
    assert [len(body["searches"]) for path, _, body in rest if path.endswith("/batch")] == [3, 2]
    assert [len(body["points"]) for path, _, body in rest if path.endswith("/points")] == [2, 2, 1]


def test_another_collection_is_not_held_to_them() -> None:
    """Limits are a collection's own."""
    _, *rest = asked("other").asked
    assert {timeout for _, timeout, _ in rest} == {"60"}
    assert len(rest) == 2


def test_a_collection_that_is_not_strict_has_no_limits() -> None:
    """Nothing is said, nothing is bound."""
    assert Limits.of({}) == Limits()
    assert Limits().seconds(60) == 60


@pytest.mark.parametrize(
    ("strict", "searches", "points"),
    [
        ({"read_rate_limit": 7}, 7, None),
        ({"write_rate_limit": 10}, None, 10),
        ({"search_max_batchsize": 3, "read_rate_limit": 7, "upsert_max_batchsize": 20, "write_rate_limit": 10}, 3, 10),
    ],
)
def test_a_request_is_no_larger_than_what_a_minute_allows(
    strict: dict[str, Any], searches: int | None, points: int | None
) -> None:
    """Qdrant would refuse a larger one at any time."""
    limits = Limits.of(strict)
    assert (limits.searches, limits.points) == (searches, points)


LISTS: dict[str, Any] = {
    "values": {"key": "a", "match": {"any": [*range(7)]}},
    "strings": {"key": "a", "match": {"any": [str(each) for each in range(7)]}},
    "ids": {"has_id": [*range(7)]},
    "excluded": {"must_not": [{"has_id": [*range(7)]}]},
    "a group": {"should": [{"key": "a", "match": {"any": [*range(7)]}}, {"is_empty": {"key": "b"}}]},
    "an array": {"nested": {"key": "v", "filter": {"must": [{"key": "a", "match": {"any": [*range(7)]}}]}}},
}


@pytest.mark.parametrize("condition", LISTS.values(), ids=list(LISTS))
@pytest.mark.parametrize("most", [1, 3, 7, None])
async def test_lists_are_as_long_as_the_collection_takes(
    tmp_path: Path, condition: dict[str, Any], most: int | None
) -> None:
    """In each request with a filter, at any depth; what is found is the same."""
    strict = {"enabled": True, "condition_max_size": most} if most is not None else {"enabled": False}
    points = [{"id": each, "vector": {"d": [1.0]}, "payload": {"a": each, "v": [{"a": each}]}} for each in range(9)]
    points += [{"id": 9, "vector": {"d": [1.0]}, "payload": {"a": "3", "b": 1}}]
    found = []
    with Engine(tmp_path) as engine:
        transport = ServerTransport(engine)
        for bounds in ({"enabled": False}, strict):
            config = {"vectors": {"d": {"size": 1, "distance": "Dot"}}, "strict_mode_config": bounds}

            async def scenario(config: dict[str, Any] = config) -> tuple[set[str], set[str], int, int]:
                client = ServerClient(Endpoint("qdrant", "http://qdrant", transport))
                await transport.handle_async_request(
                    httpx.Request("PUT", "http://qdrant/collections/docs", json=config)
                )
                await client.collection_info("docs", timeout=60)
                await client.upsert("docs", points, {"must": [condition]}, timeout=60)
                where = {"must": [condition]}
                [hits] = await client.query_batch("docs", [{"query": [1.0], "using": "d", "filter": where}], timeout=60)
                page = await client.scroll("docs", where, limit=10, timeout=60)
                count = await client.count("docs", where, timeout=60)
                await client.delete("docs", where, timeout=60)
                left = await client.count("docs", timeout=60)
                await client.drop_collection("docs", timeout=60)
                assert isinstance(hits, Hits)
                return {*hits.ids}, {each.id for each in page.records}, count, left

            found.append(await scenario())
    assert found[0] == found[1]
    assert found[0][2] > 0


@pytest.mark.parametrize("most", [4, 5, 8, 9, 100])
def test_deletes_have_as_many_conditions_as_the_collection_takes(most: int) -> None:
    """Each part's filter is within the bound, and each document is in one part."""
    documents = [document(id=str(number), op="delete") for number in range(10)]
    made = deletable(documents, most)
    named = [id_ for part in made for id_ in part["must"][0]["has_id"]]
    assert named == [each.point_id for each in documents]
    assert all(count_conditions(part) <= most for part in made)
    assert len(deletable(documents)) == 1
    assert deletable([]) == []
