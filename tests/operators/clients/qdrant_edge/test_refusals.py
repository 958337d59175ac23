"""The refusals of the embedded engine, each of which leaves nothing behind."""

import asyncio
from collections.abc import Coroutine
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from operators.clients.qdrant.requests import Change
from operators.clients.qdrant_edge.engine import EngineClient
from operators.clients.qdrant_edge.shards import Engine
from schemas.errors import BackendBadResponse, Reason
from tests.operators.clients.qdrant_edge.engine_requests import CREATED, UUID, done, refusal

POISON = {
    "wrong dimension": {"dense": [1.0]},
    "wrong dimension of a row": {"tokens": [[1.0, 2.0], [1.0, 2.0], [1.0]]},
    "no rows": {"tokens": []},
    "rows for one vector": {"dense": [[1.0, 2.0]]},
    "unknown vector": {"nope": [1.0, 2.0]},
    "a sparse vector of unequal lengths": {"bm25": {"indices": [1, 2], "values": [1.0]}},
    "a sparse vector with one index twice": {"bm25": {"indices": [1, 1], "values": [1.0, 2.0]}},
    "a sparse vector with a large index": {"bm25": {"indices": [2**32], "values": [1.0]}},
    "a dense vector for a sparse one": {"bm25": [1.0, 2.0]},
    "a sparse vector for a dense one": {"dense": {"indices": [1, 2], "values": [1.0, 2.0]}},
    "null": {"dense": [1.0, None]},
    "text": {"dense": [1.0, "2"]},
    "true": {"dense": [1.0, True]},
    "beyond float32": {"dense": [1.0, 1e39]},
}


@pytest.mark.parametrize("vector", POISON.values(), ids=POISON.keys())
def test_a_refused_point_leaves_nothing(tmp_path: Path, vector: Any) -> None:
    """A point that can't be stored is refused together with those beside it, and a restart finds none of them."""
    good = {"id": 1, "vector": {"dense": [1.0, 2.0]}}
    with Engine(tmp_path) as engine:
        done(engine, "PUT", "/collections/docs", CREATED)
        status, _ = refusal(engine, "PUT", "/collections/docs/points", {"points": [good, {"id": 2, "vector": vector}]})
        assert status in {400, 422}
        assert done(engine, "POST", "/collections/docs/points/count", {}) == {"count": 0}
    with Engine(tmp_path) as engine:
        assert done(engine, "GET", "/collections/docs")["points_count"] == 0


ARRAYS = {
    "an array of another dimension": {"dense": np.ones(3, np.float32)},
    "an array of rows for one vector": {"dense": np.ones((2, 2), np.float32)},
    "an array with NaN": {"dense": np.array([1.0, np.nan], np.float32)},
    "rows of another dimension": {"tokens": np.ones((2, 3), np.float32)},
    "a sparse vector with NaN": {"bm25": {"indices": [1, 2], "values": [1.0, float("nan")]}},
}
# Vectors of rankstream's own are numbers: the client of the engine makes numbers of these.
ARE_NUMBERS = {"text", "true", "a sparse vector with a large index"}
UNFIT = {name: vector for name, vector in (POISON | ARRAYS).items() if name not in ARE_NUMBERS}


@pytest.mark.parametrize("vector", UNFIT.values(), ids=UNFIT.keys())
def test_the_engines_client_refuses_what_does_not_fit(tmp_path: Path, vector: Any) -> None:
    """A vector that can't be stored is refused before the engine sees it, and a restart finds none of its request."""
    points = [{"id": each, "vector": {"dense": [1.0, 2.0]}, "payload": {}} for each in (1, 2)]
    points[1]["vector"] = vector
    with Engine(tmp_path) as engine:
        done(engine, "PUT", "/collections/docs", CREATED)
        client = EngineClient(engine)
        with pytest.raises(BackendBadResponse) as refused:
            asyncio.run(client.upsert("docs", points, timeout=10))
        assert (refused.value.status, refused.value.reason) == (400, Reason.REFUSED)
        assert refused.value.__context__ is None
        with pytest.raises(BackendBadResponse):
            asyncio.run(client.change("docs", [Change(UUID, vector, {})], timeout=10))
    with Engine(tmp_path) as engine:
        assert asyncio.run(EngineClient(engine).count("docs", timeout=10)) == 0


def test_the_engines_client_has_the_statuses_of_a_server(engine: Engine) -> None:
    """A collection that is there, one that isn't, a name that can't be one, and an alias."""
    client = EngineClient(engine)
    config = {"vectors": {"dense": {"size": 2, "distance": "Dot"}}}

    def status(request: Coroutine[Any, Any, Any]) -> tuple[int | None, Reason]:
        with pytest.raises(BackendBadResponse) as refused:
            asyncio.run(request)
        return refused.value.status, refused.value.reason

    assert status(client.create_collection("docs", config, timeout=10)) == (409, Reason.REFUSED)
    assert status(client.create_collection("a/b", config, timeout=10)) == (422, Reason.REFUSED)
    assert status(client.change_aliases({"other": "docs"}, timeout=10)) == (400, Reason.REFUSED)
    assert status(client.count("nope", timeout=10)) == (404, Reason.NO_COLLECTION)
    assert status(client.upsert("nope", [{"id": 1, "vector": {}, "payload": {}}], timeout=10))[0] == 404
    assert status(client.change("docs", [Change(UUID, {"dense": [1.0, 2.0]}, {})], timeout=10)) == (404, Reason.REFUSED)


QUERIES = {
    "a sparse query of unequal lengths": ({"query": {"indices": [1, 2], "values": [1.0]}, "using": "bm25"}, 422),
    "a dense query on a sparse vector": ({"query": [1.0, 2.0], "using": "bm25"}, 400),
    "a query without the vector's name": ({"query": [1.0, 2.0]}, 400),
    "a query by id": ({"query": UUID, "using": "dense"}, 400),
    "an unknown query": ({"query": {"fusion": "rrf"}, "using": "dense"}, 400),
    "a model that isn't here": ({"query": {"text": "a", "model": "other"}, "using": "bm25"}, 400),
    "prefetch": ({"query": [1.0, 2.0], "using": "dense", "prefetch": [{}]}, 400),
    "a limit in words": ({"query": [1.0, 2.0], "using": "dense", "limit": "3"}, 400),
    "a negative offset": ({"query": [1.0, 2.0], "using": "dense", "offset": -1}, 400),
    "an unknown clause": ({"query": [1.0, 2.0], "using": "dense", "filter": {"may": []}}, 400),
    "an empty condition": ({"query": [1.0, 2.0], "using": "dense", "filter": {"must": [{}]}}, 400),
    "a field without a condition": ({"query": [1.0, 2.0], "using": "dense", "filter": {"must": [{"key": "a"}]}}, 400),
    "a geographic condition": (
        {"query": [1.0, 2.0], "using": "dense", "filter": {"must": {"key": "a", "geo_radius": {"radius": 1}}}},
        400,
    ),
    "an unknown match": (
        {"query": [1.0, 2.0], "using": "dense", "filter": {"must": {"key": "a", "match": {"like": "b"}}}},
        400,
    ),
    "a date that isn't one": (
        {"query": [1.0, 2.0], "using": "dense", "filter": {"must": {"key": "a", "range": {"gt": "soon"}}}},
        400,
    ),
    "a path that isn't one": (
        {"query": [1.0, 2.0], "using": "dense", "filter": {"must": {"key": "a[", "is_empty": True}}},
        400,
    ),
    "an id that isn't one": ({"query": [1.0, 2.0], "using": "dense", "filter": {"must": {"has_id": ["a"]}}}, 400),
    "a list": ([], 400),
    "null": (None, 400),
}


@pytest.mark.parametrize(("body", "status"), QUERIES.values(), ids=QUERIES.keys())
def test_what_the_engine_cannot_do_is_refused(engine: Engine, body: Any, status: int) -> None:
    """A search that is malformed, or that the engine doesn't know, is refused; it is never answered in part."""
    assert refusal(engine, "POST", "/collections/docs/points/query", body)[0] == status


REQUESTS: dict[str, tuple[str, str, Any, int]] = {
    "no such path": ("POST", "/collections/docs/points/recommend", {}, 404),
    "no such method": ("PATCH", "/collections/docs/points", {}, 404),
    "outside": ("GET", "/cluster", None, 404),
    "upsert of columns": ("PUT", "/collections/docs/points", {"batch": {"ids": [1]}, "points": []}, 400),
    "upsert of nothing": ("PUT", "/collections/docs/points", {}, 400),
    "upsert of a list": ("PUT", "/collections/docs/points", [], 400),
    "unknown update": ("POST", "/collections/docs/points/batch", {"operations": [{"clear_payload": {}}]}, 400),
    "payload of a missing point": ("POST", "/collections/docs/points/payload", {"payload": {}, "points": [7]}, 404),
    "vectors of a missing point": (
        "PUT",
        "/collections/docs/points/vectors",
        {"points": [{"id": 7, "vector": {"dense": [1.0, 2.0]}}]},
        404,
    ),
    "unknown index": ("PUT", "/collections/docs/index", {"field_name": "a", "field_schema": "magic"}, 400),
    "unknown index option": (
        "PUT",
        "/collections/docs/index",
        {"field_name": "a", "field_schema": {"type": "keyword", "magic": True}},
        400,
    ),
    "name with a slash": ("PUT", "/collections/a%2Fb", CREATED, 422),
    "name of the parent": ("PUT", "/collections/..%2F..", CREATED, 422),
    "unknown distance": ("PUT", "/collections/new", {"vectors": {"size": 2, "distance": "Far"}}, 400),
    "time-out in words": ("POST", "/collections/docs/points/query?timeout=soon", {}, 400),
}


def test_there_is_no_quantization(engine: Engine) -> None:
    """The engine refuses to quantize, where a server would and the stand-in says that it does."""
    scalar = {"scalar": {"type": "int8"}}
    config = {"vectors": {"dense": {"size": 2, "distance": "Dot", "quantization_config": scalar}}}
    with pytest.raises(BackendBadResponse, match="the engine has no quantization"):
        asyncio.run(EngineClient(engine).create_collection("new", config, timeout=10))
    assert engine.names() == ["docs"]


@pytest.mark.parametrize(("method", "path", "body", "status"), REQUESTS.values(), ids=REQUESTS.keys())
def test_refused_requests(engine: Engine, method: str, path: str, body: Any, status: int) -> None:
    """A request that the engine doesn't serve has its status, and changes nothing."""
    assert refusal(engine, method, path, body)[0] == status
    assert engine.names() == ["docs"]
    assert done(engine, "GET", "/collections/docs")["payload_schema"] == {}
