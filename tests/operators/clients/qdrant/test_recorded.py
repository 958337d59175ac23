"""The client against the recorded requests and answers of a real Qdrant 1.19.0."""

from typing import Any

import httpx
import orjson
import pytest

from operators.query.backend_answers import Hits
from schemas.errors import BackendError
from tests.operators.clients.qdrant.recording import recorded
from tests.operators.clients.qdrant.transports import NO_LIMITS, Faulty, Watched, answering, qdrant

EXCHANGES = {exchange["name"]: exchange for exchange in recorded("qdrant_exchanges.json")}
SECOND = {exchange["name"]: exchange for exchange in recorded("qdrant_exchanges_2.json")}
ID = "e1407479-3136-56c0-9908-bb02fb0339e2"
DOCS = "docs"
LINES = [
    ("retrieve", lambda client, body: client.retrieve(DOCS, body["ids"], ["doc"], timeout=1), {ID: {"doc": "a"}}),
    ("count", lambda client, body: client.count(DOCS, body["filter"], timeout=1), 3),
    ("exists true", lambda client, _: client.exists(DOCS, timeout=1), True),
    (
        "conditional upsert",
        lambda client, body: client.upsert(DOCS, body["points"], body["update_filter"], timeout=1),
        None,
    ),
    ("delete by filter", lambda client, body: client.delete(DOCS, body["filter"], timeout=1), None),
]


@pytest.mark.parametrize(("name", "ask", "expected"), LINES, ids=[line[0] for line in LINES])
async def test_speaks_as_recorded(name: str, ask: Any, expected: Any) -> None:
    """The client sends what a real server understood, and reads what that server answered."""
    exchange = EXCHANGES[name]
    server = Watched(Faulty(answering(exchange["status"], orjson.dumps(exchange["response"]))))
    assert await ask(qdrant(server, limits=NO_LIMITS), exchange["request"]) == expected
    (request,) = server.requests
    recorded = httpx.URL(exchange["path"])
    assert (request.method, request.url.path) == (exchange["method"], recorded.path)
    assert request.url.params.get("wait") == recorded.params.get("wait")
    if exchange["request"] is not None:
        assert server.bodies() == [exchange["request"]]


@pytest.mark.parametrize("name", ["batch", "batch with timeout", "batch empty"])
async def test_reads_recorded_batches(name: str) -> None:
    """The recorded answers to batches are read hit by hit."""
    exchange = EXCHANGES[name]
    server = Faulty(answering(200, orjson.dumps(exchange["response"])))
    answers = await qdrant(server).query_batch("docs", exchange["request"]["searches"], timeout=1)
    assert answers == [
        Hits(
            [point["id"] for point in result["points"]],
            [point["score"] for point in result["points"]],
            [{} for _ in result["points"]],
            [point["version"] for point in result["points"]],
        )
        for result in exchange["response"]["result"]
    ]


async def test_reads_the_recorded_description() -> None:
    """The recorded description of a collection gives its vectors and indexes."""
    server = Faulty(answering(200, orjson.dumps(EXCHANGES["info"]["response"])))
    info = await qdrant(server).collection_info("docs", timeout=1)
    assert info.points == 4
    assert info.vectors["tokens"]["multivector_config"] == {"comparator": "max_sim"}
    assert info.sparse_vectors["bm25"] == {"modifier": "idf"}
    assert info.indexes["created_at"]["data_type"] == "datetime"


SIZE = {"size": 4, "distance": "Cosine"}
KEYWORD = {"data_type": "keyword", "params": {"type": "keyword"}, "points": 6}
WORDS = {"data_type": "text", "params": {"type": "text", "tokenizer": "word", "lowercase": True}, "points": 6}
BM25 = {"modifier": "idf"}
EMPTY: dict[str, Any] = {"points": 0, "vectors": {"": SIZE}, "sparse_vectors": {}, "indexes": {}, "metadata": {}}
DESCRIBED: dict[str, dict[str, Any]] = {
    "info unnamed": {"points": 6},
    "info fastembed-like": {"vectors": {"fast-bge-small-en": SIZE}, "sparse_vectors": {"fast-sparse-bm25": BM25}},
    "info by alias": {"points": 6},
    "info with indexes": {"points": 6, "indexes": {"metadata.source": KEYWORD, "page_content": WORDS}},
    "info 3 shards": {"vectors": {"dense": SIZE}, "sparse_vectors": {"bm25": BM25}},
    "info strict": {"points": 4, "vectors": {"dense": SIZE}},
}


@pytest.mark.parametrize("name", DESCRIBED)
async def test_reads_descriptions_of_any_collection(name: str) -> None:
    """A collection without named vectors, by alias, sharded, strict or of another tool is read as it is."""
    server = Faulty(answering(200, orjson.dumps(SECOND[name]["response"])))
    read = await qdrant(server).collection_info("any", timeout=1)
    expected = {**EMPTY, **DESCRIBED[name]}
    assert {part: getattr(read, part) for part in expected} == expected


HITS = ["query unnamed", "query unnamed using empty", "query by alias"]


@pytest.mark.parametrize("name", HITS)
async def test_reads_integer_ids(name: str) -> None:
    """Hits whose ids are integers are read with ids in words."""
    exchange = SECOND[name]
    server = Faulty(answering(200, orjson.dumps(exchange["response"])))
    (hits,) = await qdrant(server).query_batch("plain", exchange["request"]["searches"], timeout=1)
    (recording,) = exchange["response"]["result"]
    assert not isinstance(hits, BackendError)
    assert list(hits.ids) == [str(point["id"]) for point in recording["points"]]
    assert list(hits.scores) == [point["score"] for point in recording["points"]]


REFUSED = [
    name
    for name, exchange in SECOND.items()
    if exchange["status"] >= 400 and isinstance(exchange["request"], dict) and "searches" in exchange["request"]
]


@pytest.mark.parametrize("name", REFUSED)
async def test_reads_refused_searches(name: str) -> None:
    """A refused search is an error with the recorded status, however the server says it."""
    exchange = SECOND[name]
    server = Faulty(answering(exchange["status"], orjson.dumps(exchange["response"])))
    (error,) = await qdrant(server).query_batch("any", exchange["request"]["searches"], timeout=1)
    assert isinstance(error, BackendError)
    assert error.status == exchange["status"]


@pytest.mark.parametrize("name", ["no key", "wrong key", "with key", "missing collection info"])
async def test_reads_refusals(name: str) -> None:
    """A refusal in plain words is read like one in JSON: by its status."""
    exchange = SECOND[name]
    body = exchange["response"]
    server = Faulty(answering(exchange["status"], body.encode() if isinstance(body, str) else orjson.dumps(body)))
    with pytest.raises(BackendError) as refused:
        await qdrant(server).collection_info("x", timeout=1)
    assert refused.value.status == exchange["status"]


@pytest.mark.parametrize("name", ["phrase on index without phrase", "prefix on keyword index"])
async def test_reads_pages_of_integer_ids(name: str) -> None:
    """A page of points with integer ids says where the next one begins."""
    exchange = SECOND[name]
    server = Faulty(answering(200, orjson.dumps(exchange["response"])))
    page = await qdrant(server, limits=NO_LIMITS).scroll("plain", limit=3, fields=False, timeout=1)
    recording = exchange["response"]["result"]
    following = recording["next_page_offset"]
    assert [record.id for record in page.records] == [str(point["id"]) for point in recording["points"]]
    assert page.next_offset == (None if following is None else str(following))
