"""The client against the recorded requests and answers of a real Qdrant 1.19.0."""

import asyncio
from pathlib import Path
from typing import Any

import httpx
import orjson
import pytest

from operators.query.hits import Hits
from tests.operators.clients.qdrant.transports import Faulty, Watched, answering, qdrant

EXCHANGES = {
    exchange["name"]: exchange
    for exchange in orjson.loads((Path(__file__).parents[3] / "data/qdrant_exchanges.json").read_bytes())["exchanges"]
}
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
def test_speaks_as_recorded(name: str, ask: Any, expected: Any) -> None:
    """The client sends what a real server understood, and reads what that server answered."""
    exchange = EXCHANGES[name]
    server = Watched(Faulty(answering(exchange["status"], orjson.dumps(exchange["response"]))))
    assert asyncio.run(ask(qdrant(server), exchange["request"])) == expected
    (request,) = server.requests
    recorded = httpx.URL(exchange["path"])
    assert (request.method, request.url.path) == (exchange["method"], recorded.path)
    assert request.url.params.get("wait") == recorded.params.get("wait")
    if exchange["request"] is not None:
        assert server.bodies() == [exchange["request"]]


@pytest.mark.parametrize("name", ["batch", "batch with timeout", "batch empty"])
def test_reads_recorded_batches(name: str) -> None:
    """The recorded answers to batches are read hit by hit."""
    exchange = EXCHANGES[name]
    server = Faulty(answering(200, orjson.dumps(exchange["response"])))
    answers = asyncio.run(qdrant(server).query_batch("docs", exchange["request"]["searches"], timeout=1))
    assert answers == [
        Hits(
            [point["id"] for point in result["points"]],
            [point["score"] for point in result["points"]],
            [{} for _ in result["points"]],
        )
        for result in exchange["response"]["result"]
    ]


def test_reads_the_recorded_description() -> None:
    """The recorded description of a collection gives its vectors and indexes."""
    server = Faulty(answering(200, orjson.dumps(EXCHANGES["info"]["response"])))
    info = asyncio.run(qdrant(server).collection_info("docs", timeout=1))
    assert info.points == 4
    assert info.vectors["tokens"]["multivector_config"] == {"comparator": "max_sim"}
    assert info.sparse_vectors["bm25"] == {"modifier": "idf"}
    assert info.indexes["created_at"]["data_type"] == "datetime"
