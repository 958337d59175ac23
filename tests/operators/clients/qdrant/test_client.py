"""The client over the embedded engine: what it sends, and what it makes of the answers."""

import asyncio
import math
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import orjson
import pytest
from qdrant_client.http import models

from operators.clients.http.backend import Resilient
from operators.clients.http.transport import Endpoint
from operators.clients.qdrant.answers import Points, read_points
from operators.clients.qdrant.client import QdrantClient
from operators.clients.qdrant.server import ServerClient
from operators.clients.qdrant_edge.engine import EngineClient
from operators.clients.qdrant_edge.shards import Engine
from operators.query.backend_answers import Hits, parse_point_id
from schemas.errors import AnswerTooLong, BackendBadResponse, BackendTimeout, Reason
from tests.operators.clients.qdrant.transports import GOOD, Faulty, Watched, answering, points, qdrant
from tests.qdrant_server.transport import ServerTransport

CONFIG = models.CreateCollection(
    vectors={
        "dense": models.VectorParams(size=4, distance=models.Distance.COSINE),
        "tokens": models.VectorParams(
            size=4,
            distance=models.Distance.DOT,
            multivector_config=models.MultiVectorConfig(comparator=models.MultiVectorComparator.MAX_SIM),
            hnsw_config=models.HnswConfigDiff(m=0),
            datatype=models.Datatype.TURBO4,
        ),
    },
    sparse_vectors={"bm25": models.SparseVectorParams(modifier=models.Modifier.IDF)},
).model_dump(mode="json", exclude_none=True)
WRONG = {"query": [1.0, 0.0], "using": "dense", "limit": 3}


async def filled(client: QdrantClient) -> None:
    """Make the collection `docs` with ten points and an index on `parity` and `n`."""
    await client.create_collection("docs", CONFIG, timeout=5)
    integers = {"type": "integer"}
    await client.create_index("docs", "parity", integers, timeout=5)
    await client.create_index("docs", "n", integers, timeout=5)
    await client.upsert("docs", points(10), timeout=5)


@pytest.fixture
def watched(tmp_path: Path) -> Iterator[Watched]:
    """The stand-in behind a transport that keeps the requests."""
    with Engine(tmp_path) as engine:
        yield Watched(ServerTransport(engine))


@pytest.fixture
def client(watched: Watched) -> QdrantClient:
    """A client of the stand-in, with the collection `docs`."""
    client = qdrant(watched)
    asyncio.run(filled(client))
    watched.requests.clear()
    return client


@pytest.fixture(params=["server", "engine"])
def either(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[QdrantClient]:
    """A client of the stand-in or of the engine in this process, with the collection `docs`."""
    with Engine(tmp_path) as engine:
        client = qdrant(ServerTransport(engine)) if request.param == "server" else EngineClient(engine)
        asyncio.run(filled(client))
        yield client


async def test_answers_each_search_in_its_place(client: QdrantClient, watched: Watched) -> None:
    """One request answers every search, in their order, best hits first, with the payload that was asked for."""
    worst = {"query": [0.0, 1.0, 0.0, 0.0], "using": "dense", "limit": 1, "with_payload": ["n"]}
    first, second = await client.query_batch("docs", [GOOD, worst], timeout=5)
    assert isinstance(first, Hits)
    assert isinstance(second, Hits)
    assert first.ids == ["0", "1", "2"]
    assert first.scores[0] == pytest.approx(1.0)
    assert first.payloads == [{}, {}, {}]
    assert (second.ids, second.payloads) == (["9"], [{"n": 9}])
    assert second.scores[0] == pytest.approx(0.9 / math.hypot(1, 0.9))
    assert len(watched.requests) == 1


async def test_no_searches_cost_no_request(client: QdrantClient, watched: Watched) -> None:
    """Nothing asked is nothing sent."""
    assert await client.query_batch("docs", [], timeout=5) == []
    assert watched.requests == []


@pytest.mark.parametrize("wrong", [{0}, {63}, {17}, {17, 18}, {0, 31, 63}])
async def test_a_refused_search_fails_alone(client: QdrantClient, watched: Watched, wrong: set[int]) -> None:
    """A search of the wrong dimension gets its refusal and the 63 beside it their hits, in a few requests."""
    searches = [WRONG if number in wrong else {**GOOD, "limit": 1 + number % 9} for number in range(64)]
    answers = await client.query_batch("docs", searches, timeout=5)
    for number, answer in enumerate(answers):
        if number in wrong:
            assert isinstance(answer, BackendBadResponse)
            assert answer.status == 400
        else:
            assert isinstance(answer, Hits)
            assert len(answer.ids) == 1 + number % 9
    assert len(watched.requests) <= 1 + 2 * len(wrong) * math.log2(64)


async def test_the_engine_refuses_a_search_alone(tmp_path: Path) -> None:
    """A search of another dimension, of no vector or with an unknown filter takes none of those beside it along."""
    wrong = [WRONG, {**GOOD, "using": "nope"}, {**GOOD, "filter": {"must": [{"key": "n", "like": 1}]}}]
    with Engine(tmp_path) as engine:
        client = EngineClient(engine)
        await filled(client)
        answers = await client.query_batch("docs", [*wrong, *[GOOD] * 20], timeout=5)
        missing = await client.query_batch("nope", [GOOD] * 8, timeout=5)
        (late,) = await client.query_batch("docs", [GOOD], timeout=0.0)
    errors = [answer for answer in answers if isinstance(answer, BackendBadResponse)]
    assert [(error.status, error.reason) for error in errors] == [(400, Reason.REFUSED)] * len(wrong)
    assert [answer.ids for answer in answers if isinstance(answer, Hits)] == [["0", "1", "2"]] * 20
    assert [answer.reason for answer in missing if isinstance(answer, BackendBadResponse)] == [Reason.NO_COLLECTION] * 8
    assert isinstance(late, BackendTimeout)


async def test_a_value_out_of_range_fails_alone(client: QdrantClient) -> None:
    """A search that Qdrant refuses with 422 doesn't take the others along either."""
    refused, answered = await client.query_batch("docs", [{**GOOD, "limit": 0}, GOOD], timeout=5)
    assert isinstance(refused, BackendBadResponse)
    assert refused.status == 422
    assert isinstance(answered, Hits)


async def test_a_missing_collection_fails_all_at_once(client: QdrantClient, watched: Watched) -> None:
    """Without the collection every search fails with 404, and nobody looks for the one that is to blame."""
    answers = await client.query_batch("nope", [GOOD] * 8, timeout=5)
    assert [answer.status for answer in answers if isinstance(answer, BackendBadResponse)] == [404] * 8
    assert len(watched.requests) == 1


@pytest.mark.parametrize(("timeout", "seconds"), [(0.02, "1"), (1.0, "1"), (2.1, "3")])
async def test_the_server_is_told_the_time(
    client: QdrantClient, watched: Watched, timeout: float, seconds: str
) -> None:
    """Every request bounds the server's work in whole seconds, never less than the client waits, never zero."""
    await client.query_batch("docs", [GOOD], timeout=timeout)
    assert watched.requests[0].url.params["timeout"] == seconds


async def test_integer_ids_come_as_text_and_go_as_integers(either: QdrantClient) -> None:
    """An id that a hit shows as text finds its integer point, in lookups and in filters."""
    found = await either.retrieve("docs", ["3", "77"], ["n"], timeout=5)
    assert found == {"3": {"n": 3}}
    assert await either.count("docs", {"must": [{"has_id": [parse_point_id("3")]}]}, timeout=5) == 1
    assert parse_point_id("e1407479-3136-56c0-9908-bb02fb0339e2") == "e1407479-3136-56c0-9908-bb02fb0339e2"


async def test_vectors_come_by_their_name(either: QdrantClient) -> None:
    """Each point that has one of this name gives it; a point that isn't there gives none."""
    found = await either.vectors("docs", ["3", "77"], "dense", timeout=5)
    assert list(found) == ["3"]
    assert len(found["3"]) == 4


def test_a_vector_alone_is_the_one_without_a_name() -> None:
    """A collection whose vector has no name gives it as a list, which is the vector named by nothing."""
    points = [{"id": 3, "vector": [1.0, 0.0]}, {"id": 4}]
    payloads: dict[str, Any] = {"3": {}, "4": {}}
    assert read_points(points, "") == Points(payloads, {"3": [1.0, 0.0]})
    assert read_points(points, "dense") == Points(payloads, {})


async def test_retrieve_takes_fields(either: QdrantClient) -> None:
    """All fields, none or the named ones come back."""
    assert await either.retrieve("docs", ["3"], True, timeout=5) == {"3": {"n": 3, "parity": 1}}
    assert await either.retrieve("docs", ["3"], False, timeout=5) == {"3": {}}


async def test_scroll_pages_through_everything(either: QdrantClient) -> None:
    """Pages by id meet every point once and end with no offset."""

    async def ids() -> list[str]:
        seen, offset = [], None
        while True:
            page = await either.scroll("docs", limit=4, fields=False, offset=offset, timeout=5)
            seen += [record.id for record in page.records]
            offset = page.next_offset
            if offset is None:
                return seen

    assert await ids() == [str(number) for number in range(10)]


async def test_ordered_scroll_tells_what_it_ordered_by(either: QdrantClient) -> None:
    """An ordered scroll with a filter gives the records in that order with the values of the field."""
    page = await either.scroll(
        "docs",
        {"must": [{"key": "parity", "match": {"value": 1}}]},
        limit=3,
        order_by={"key": "n", "direction": "desc"},
        fields=["n"],
        timeout=5,
    )
    assert [(record.id, record.payload, record.order_value) for record in page.records] == [
        ("9", {"n": 9}, 9),
        ("7", {"n": 7}, 7),
        ("5", {"n": 5}, 5),
    ]
    assert page.next_offset is None


async def test_counts_and_facets(either: QdrantClient) -> None:
    """A count and a facet obey their filter and limit."""
    where = {"must": [{"key": "n", "range": {"gte": 3}}]}
    assert await either.count("docs", where, timeout=5) == 7
    assert await either.count("docs", timeout=5) == 10
    assert (await either.facet("docs", "parity", where, limit=10, timeout=5)).counts == {0: 3, 1: 4}
    assert len((await either.facet("docs", "n", limit=4, timeout=5)).counts) == 4


async def test_delete_takes_what_the_filter_matches(either: QdrantClient) -> None:
    """Deleted points are gone when the call returns, the others stay."""
    await either.delete("docs", {"must": [{"has_id": [1, 2]}, {"key": "n", "range": {"lte": 1}}]}, timeout=5)
    assert sorted(await either.retrieve("docs", ["1", "2", "3"], False, timeout=5)) == ["2", "3"]


async def test_upserts_are_split_by_bytes(client: QdrantClient, watched: Watched) -> None:
    """No request of an upsert exceeds the bound, each carries the condition, and all points arrive in order."""
    small = qdrant(watched, max_upsert=1000)
    condition = {"must": [{"key": "n", "range": {"lt": 1000}}]}
    await small.upsert("docs", points(50), condition, timeout=5)
    assert 3 < len(watched.requests) < 10
    assert all(len(request.content) <= 1000 for request in watched.requests)
    assert all(body["update_filter"] == condition for body in watched.bodies())
    assert [point["id"] for body in watched.bodies() for point in body["points"]] == list(range(50))
    assert await client.count("docs", timeout=5) == 50


async def test_the_bound_of_an_upsert_is_exact() -> None:
    """Whatever the bound, no body is a byte over it."""
    for bound in range(300, 400):
        server = Watched(Faulty(answering(200, b'{"result":{"status":"completed"}}')))
        await qdrant(server, max_upsert=bound).upsert("docs", points(20), {"must": []}, timeout=5)
        assert max(len(request.content) for request in server.requests) <= bound


async def test_a_point_over_the_bound_goes_alone(client: QdrantClient, watched: Watched) -> None:
    """A point that is too large by itself is sent by itself, for Qdrant to decide."""
    await qdrant(watched, max_upsert=10).upsert("docs", points(3), timeout=5)
    assert [len(body["points"]) for body in watched.bodies()] == [1, 1, 1]


async def test_arrays_are_vectors(either: QdrantClient) -> None:
    """Arrays are stored as they are, and one of whole numbers stays a multivector, not a sparse vector."""
    tokens = np.eye(2, 4, dtype=np.float32)
    point = {"id": 1, "vector": {"dense": np.ones(4, np.float32), "tokens": tokens}, "payload": {}}
    await either.upsert("docs", [point], timeout=5)
    search = {"query": tokens, "using": "tokens", "filter": {"must": [{"has_id": [1]}]}, "limit": 1}
    (hits,) = await either.query_batch("docs", [search], timeout=5)
    assert isinstance(hits, Hits)
    assert hits.ids == ["1"]
    assert hits.scores[0] == pytest.approx(2.0, abs=0.2)


async def test_setting_up(either: QdrantClient) -> None:
    """A collection is described as it was created; creating it again is refused with 409; a missing one is a 404."""
    info = await either.collection_info("docs", timeout=5)
    assert info.points == 10
    assert info.vectors["dense"] == {"size": 4, "distance": "Cosine"}
    assert info.vectors["tokens"]["datatype"] == "turbo4"
    assert info.sparse_vectors == {"bm25": {"modifier": "idf"}}
    assert {field: index["data_type"] for field, index in info.indexes.items()} == {"parity": "integer", "n": "integer"}
    assert await either.exists("docs", timeout=5)
    assert not await either.exists("nope", timeout=5)
    with pytest.raises(BackendBadResponse) as again:
        await either.create_collection("docs", CONFIG, timeout=5)
    assert again.value.status == 409
    with pytest.raises(BackendBadResponse) as missing:
        await either.collection_info("nope", timeout=5)
    assert missing.value.status == 404


@pytest.mark.usefixtures("client")
async def test_the_official_client_reads_the_stand_ins_description(watched: Watched) -> None:
    """The stand-in's description of a collection is one that Qdrant's own client accepts."""
    endpoint = Endpoint("qdrant", "http://qdrant", watched)
    answer = await endpoint.call("GET", "/collections/docs", timeout=5)
    assert models.CollectionInfo.model_validate(answer["result"]).points_count == 10


async def test_names_are_quoted(client: QdrantClient, watched: Watched) -> None:
    """A collection's name can't reach another path."""
    assert not await client.exists("docs/exists?x=", timeout=5)
    assert watched.requests[0].url.raw_path.startswith(b"/collections/docs%2Fexists%3Fx%3D/exists")


async def test_a_point_that_is_not_json_is_a_backend_error(either: QdrantClient) -> None:
    """A point that can't be written raises what every failed upsert raises."""
    with pytest.raises(BackendBadResponse, match=r"can't be written|Integer exceeds 64-bit range"):
        await either.upsert("docs", [{"id": 1, "vector": {}, "payload": {"n": 2**64}}], timeout=5)


class Bounded(httpx.AsyncBaseTransport):
    """Points whose payloads and vectors are of 1,000 bytes each."""

    def __init__(self) -> None:
        self.asked: list[int] = []

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Answer with the points of these ids."""
        ids = orjson.loads(request.content)["ids"]
        self.asked.append(len(ids))
        points = [{"id": each, "payload": {"text": "x" * 1000}, "vector": {"v": [1.0] * 250}} for each in ids]
        return httpx.Response(200, content=orjson.dumps({"result": points}))


@pytest.mark.parametrize("kib", [3, 5, 20, 200])
@pytest.mark.parametrize("what", ["payloads", "vectors"])
async def test_points_that_are_too_long_for_one_answer_are_read_in_parts(kib: int, what: str) -> None:
    """None is lost, and nothing else of the server is: no breaker opens, however often it happens."""
    transport = Bounded()
    ids = [str(each) for each in range(33)]
    client = ServerClient(Resilient(Endpoint("qdrant", "http://qdrant", transport, max_body=kib * 1024)))
    for _ in range(3):
        if what == "payloads":
            found: Mapping[str, Any] = await client.retrieve("docs", ids, True, timeout=30)
        else:
            found = await client.vectors("docs", ids, "v", timeout=30)
        assert [*found] == ids
    assert (len(transport.asked) > 3) == (kib < 200)


async def test_one_point_that_is_too_long_fails() -> None:
    """Nothing is left to divide."""
    client = ServerClient(Endpoint("qdrant", "http://qdrant", Bounded(), max_body=100))
    with pytest.raises(AnswerTooLong):
        await client.retrieve("docs", ["1"], True, timeout=30)
