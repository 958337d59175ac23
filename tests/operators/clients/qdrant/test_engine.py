"""The embedded engine: what survives, what is refused, what filters match, and who has to wait."""

import asyncio
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import orjson
import pytest

from operators.clients.qdrant.engine import EngineTransport
from operators.clients.qdrant.shards import Engine
from schemas.errors import ConfigError

CREATED = {
    "vectors": {
        "dense": {"size": 2, "distance": "Dot"},
        "tokens": {"size": 2, "distance": "Dot", "multivector_config": {"comparator": "max_sim"}},
    },
    "sparse_vectors": {"bm25": {"modifier": "idf"}},
}
UUID = "e1407479-3136-56c0-9908-bb02fb0339e2"


async def ask(engine: Engine, method: str, path: str, body: object = None) -> tuple[int, Any]:
    """The status and the parsed answer to one request."""
    content = b"" if body is None else orjson.dumps(body)
    request = httpx.Request(method, f"http://engine{path}", content=content)
    response = await EngineTransport(engine).handle_async_request(request)
    return response.status_code, orjson.loads(response.content)


def done(engine: Engine, method: str, path: str, body: object = None) -> Any:
    """The result of a request that must succeed."""
    status, answer = asyncio.run(ask(engine, method, path, body))
    assert status == 200, answer
    return answer["result"]


def refusal(engine: Engine, method: str, path: str, body: object = None) -> tuple[int, str]:
    """The status and the words of a request that must be refused."""
    status, answer = asyncio.run(ask(engine, method, path, body))
    assert status >= 400
    return status, answer["status"]["error"]


def payload(engine: Engine, identity: int | str) -> Any:
    """The payload of one point, None without it."""
    found = done(engine, "POST", "/collections/docs/points", {"ids": [identity]})
    return found[0]["payload"] if found else None


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[Engine]:
    """An engine with the empty collection `docs`."""
    with Engine(tmp_path) as engine:
        done(engine, "PUT", "/collections/docs", CREATED)
        yield engine


def test_everything_is_there_after_a_restart(tmp_path: Path) -> None:
    """Points, vectors, indexes, the configuration and aliases outlive the engine that wrote them."""
    point = {
        "id": UUID,
        "vector": {
            "dense": [1.0, 2.0],
            "tokens": [[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]],
            "bm25": {"indices": [3, 1], "values": [1.0, 2.0]},
        },
        "payload": {"text": "a", "n": [1, 2.5, None, True, {"deep": "ä"}]},
    }
    schema = {"type": "text", "tokenizer": "word", "stopwords": "english", "phrase_matching": True}
    with Engine(tmp_path) as engine:
        done(engine, "PUT", "/collections/docs", CREATED)
        done(engine, "PUT", "/collections/other", CREATED)
        done(engine, "PUT", "/collections/docs/index", {"field_name": "text", "field_schema": schema})
        done(engine, "PUT", "/collections/docs/points", {"points": [point]})
        alias = {"create_alias": {"collection_name": "docs", "alias_name": "live"}}
        done(engine, "POST", "/collections/aliases", {"actions": [alias]})
        before = done(engine, "GET", "/collections/docs")
    with Engine(tmp_path) as engine:
        assert done(engine, "GET", "/collections/docs") == before
        assert before["config"]["params"]["vectors"] == CREATED["vectors"]
        assert before["payload_schema"]["text"] == {"data_type": "text", "params": schema, "points": 1}
        assert engine.names() == ["docs", "other"]
        (found,) = done(engine, "POST", "/collections/live/points", {"ids": [UUID], "with_vector": True})
        assert found["payload"] == point["payload"]
        assert found["vector"]["dense"] == [1.0, 2.0]
        assert found["vector"]["tokens"] == [[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]]
        assert found["vector"]["bm25"] == {"indices": [1, 3], "values": [2.0, 1.0]}


def test_acknowledged_writes_survive_a_kill(tmp_path: Path) -> None:
    """What the engine acknowledged is there after the process was killed without a flush."""
    script = f"""
import os, signal
from pathlib import Path
from tests.operators.clients.qdrant.test_engine import CREATED, done
from operators.clients.qdrant.shards import Engine
engine = Engine(Path({str(tmp_path)!r}))
done(engine, "PUT", "/collections/docs", CREATED)
points = [{{"id": n, "vector": {{"dense": [1.0, n]}}, "payload": {{"n": n}}}} for n in range(50)]
for point in points:
    done(engine, "PUT", "/collections/docs/points", {{"points": [point]}})
os.kill(os.getpid(), signal.SIGKILL)
"""
    killed = subprocess.run([sys.executable, "-c", script], cwd=Path(__file__).parents[4], check=False)
    assert killed.returncode == -signal.SIGKILL
    with Engine(tmp_path) as engine:
        assert done(engine, "POST", "/collections/docs/points/count", {}) == {"count": 50}


def test_one_process_has_the_directory(tmp_path: Path) -> None:
    """A second engine on a directory is a configuration error until the first one is closed."""
    with Engine(tmp_path), pytest.raises(ConfigError, match="open elsewhere"):
        Engine(tmp_path)
    Engine(tmp_path).close()


def test_a_creation_that_never_finished_is_none(tmp_path: Path) -> None:
    """Leftovers of an interrupted creation don't show, and the name can be used again."""
    (tmp_path / "collections" / "docs" / "shard" / "segments").mkdir(parents=True)
    with Engine(tmp_path) as engine:
        assert engine.names() == []
        done(engine, "PUT", "/collections/docs", CREATED)
        assert done(engine, "GET", "/collections/docs/exists") == {"exists": True}


def test_a_broken_shard_is_a_configuration_error(tmp_path: Path) -> None:
    """A directory that the engine can't open is reported by its path."""
    with Engine(tmp_path) as engine:
        done(engine, "PUT", "/collections/docs", CREATED)
    (tmp_path / "collections" / "docs" / "shard" / "edge_config.json").write_text("{")
    with pytest.raises(ConfigError, match="docs"):
        Engine(tmp_path)


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
    """A point that can't be stored is refused with 400 or 422, beside it nothing is stored, and a restart finds nothing."""
    good = {"id": 1, "vector": {"dense": [1.0, 2.0]}}
    with Engine(tmp_path) as engine:
        done(engine, "PUT", "/collections/docs", CREATED)
        status, _ = refusal(engine, "PUT", "/collections/docs/points", {"points": [good, {"id": 2, "vector": vector}]})
        assert status in {400, 422}
        assert done(engine, "POST", "/collections/docs/points/count", {}) == {"count": 0}
    with Engine(tmp_path) as engine:
        assert done(engine, "GET", "/collections/docs")["points_count"] == 0


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


REQUESTS = {
    "no such path": ("POST", "/collections/docs/points/recommend", {}, 404),
    "no such method": ("PATCH", "/collections/docs", {}, 404),
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
    "facet without an index": ("POST", "/collections/docs/facet", {"key": "a"}, 400),
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
    "quantization": (
        "PUT",
        "/collections/new",
        {"vectors": {"size": 2, "distance": "Dot", "quantization_config": {"scalar": {"type": "int8"}}}},
        400,
    ),
    "alias of nothing": (
        "POST",
        "/collections/aliases",
        {"actions": [{"create_alias": {"collection_name": "new", "alias_name": "live"}}]},
        404,
    ),
    "alias like a collection": (
        "POST",
        "/collections/aliases",
        {"actions": [{"create_alias": {"collection_name": "docs", "alias_name": "docs"}}]},
        409,
    ),
    "time-out in words": ("POST", "/collections/docs/points/query?timeout=soon", {}, 400),
}


@pytest.mark.parametrize(("method", "path", "body", "status"), REQUESTS.values(), ids=REQUESTS.keys())
def test_refused_requests(engine: Engine, method: str, path: str, body: Any, status: int) -> None:
    """A request that the engine doesn't serve has its status, and changes nothing."""
    assert refusal(engine, method, path, body)[0] == status
    assert engine.names() == ["docs"]
    assert done(engine, "GET", "/collections/docs")["payload_schema"] == {}


ROWS: list[dict[str, Any]] = [
    {
        "s": "red",
        "n": 1,
        "f": 0.5,
        "t": "2026-01-01T00:00:00Z",
        "b": True,
        "tags": ["x", "y"],
        "text": "a blue lantern",
    },
    {
        "s": "green",
        "n": 2,
        "f": 1.5,
        "t": "2026-02-01T00:00:00+02:00",
        "b": False,
        "tags": ["y"],
        "text": "blue, a lantern",
    },
    {
        "s": "reddish",
        "n": 1790000000001,
        "nested": [{"a": 1, "b": 2}, {"a": 3, "b": 4}],
        "tags": [],
        "text": "lanterns",
    },
    {"s": None, "n": -3, "nested": [{"a": 1, "b": 4}]},
]
INDEXES: dict[str, Any] = {
    "s": {"type": "keyword", "prefix": True},
    "n": "integer",
    "f": "float",
    "t": "datetime",
    "b": "bool",
    "text": {"type": "text", "tokenizer": "word", "lowercase": True, "phrase_matching": True},
}


def field(key: str, **condition: Any) -> dict[str, Any]:
    """A condition on a field."""
    return {"key": key, **condition}


FILTERS: dict[str, tuple[Any, set[int]]] = {
    "nothing asked": ({}, {0, 1, 2, 3}),
    "value": ({"must": [field("s", match={"value": "red"})]}, {0}),
    "value without a list": ({"must": field("s", match={"value": "red"})}, {0}),
    "integer value": ({"must": [field("n", match={"value": 2})]}, {1}),
    "bool value": ({"must": [field("b", match={"value": False})]}, {1}),
    "value of an array": ({"must": [field("tags", match={"value": "y"})]}, {0, 1}),
    "any": ({"must": [field("s", match={"any": ["red", "green"]})]}, {0, 1}),
    "any of none": ({"must": [field("s", match={"any": []})]}, set()),
    "any of integers": ({"must": [field("n", match={"any": [1, -3]})]}, {0, 3}),
    "except": ({"must": [field("s", match={"except": ["red", "green"]})]}, {2}),
    "text": ({"must": [field("text", match={"text": "lantern BLUE"})]}, {0, 1}),
    "text_any": ({"must": [field("text", match={"text_any": "lanterns green"})]}, {2}),
    "phrase": ({"must": [field("text", match={"phrase": "blue lantern"})]}, {0}),
    "prefix": ({"must": [field("s", match={"prefix": "red"})]}, {0, 2}),
    "integer range": ({"must": [field("n", range={"gte": 1, "lt": 1790000000001})]}, {0, 1}),
    "milliseconds apart": ({"must": [field("n", range={"gt": 1790000000000, "lte": 1790000000001})]}, {2}),
    "float range": ({"must": [field("f", range={"gt": 0.5})]}, {1}),
    "bounds that are null": ({"must": [field("f", range={"gt": 0.5, "lt": None})]}, {1}),
    "datetime range": ({"must": [field("t", range={"lt": "2026-01-31T23:00:00Z", "gte": "2026-01-01"})]}, {0, 1}),
    "values_count": ({"must": [field("tags", values_count={"gte": 2})]}, {0}),
    "is_empty": ({"must": [{"is_empty": {"key": "tags"}}]}, {2, 3}),
    "is_empty of a field": ({"must": [field("tags", is_empty=False)]}, {0, 1}),
    "is_null": ({"must": [{"is_null": {"key": "s"}}]}, {3}),
    "has_id": ({"must": [{"has_id": [0, 3, 77]}]}, {0, 3}),
    "has_id of none": ({"must": [{"has_id": []}]}, set()),
    "has_vector": ({"must": [{"has_vector": "tokens"}]}, {0}),
    "nested": (
        {
            "must": [
                {
                    "nested": {
                        "key": "nested",
                        "filter": {"must": [field("a", match={"value": 1}), field("b", match={"value": 4})]},
                    }
                }
            ]
        },
        {3},
    ),
    "should": ({"should": [field("n", match={"value": 1}), field("n", match={"value": 2})]}, {0, 1}),
    "must_not": ({"must_not": [field("b", match={"value": True})]}, {1, 2, 3}),
    "min_should": (
        {
            "min_should": {
                "conditions": [field("b", match={"value": True}), field("n", range={"gt": 0}), {"has_id": [1]}],
                "min_count": 2,
            }
        },
        {0, 1},
    ),
    "a filter in a filter": (
        {"must": [{"should": [{"has_id": [0]}, {"must": [{"has_id": [1, 2]}], "must_not": [{"has_id": [2]}]}]}]},
        {0, 1},
    ),
}


@pytest.fixture(scope="module")
def rows(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    """An engine whose collection `docs` holds ROWS under their numbers, indexed."""
    with Engine(tmp_path_factory.mktemp("rows")) as engine:
        done(engine, "PUT", "/collections/docs", CREATED)
        for name, schema in INDEXES.items():
            done(engine, "PUT", "/collections/docs/index", {"field_name": name, "field_schema": schema})
        points = [
            {"id": number, "vector": {"tokens": [[1.0, 2.0]]} if number == 0 else {"dense": [1.0, 2.0]}, "payload": row}
            for number, row in enumerate(ROWS)
        ]
        done(engine, "PUT", "/collections/docs/points", {"points": points})
        yield engine


@pytest.mark.parametrize(("where", "expected"), FILTERS.values(), ids=FILTERS.keys())
def test_filters(rows: Engine, where: Any, expected: set[int]) -> None:
    """Each form of condition matches these points and no others."""
    found = done(rows, "POST", "/collections/docs/points/scroll", {"filter": where, "limit": 10})
    assert {point["id"] for point in found["points"]} == expected


def newest(versions: dict[int | str, int]) -> dict[str, Any]:
    """The condition of an upsert: a point that exists is written over only if its version isn't newer."""
    older = [
        {"must": [{"has_id": [identity]}, {"key": "_version", "range": {"lte": version}}]}
        for identity, version in versions.items()
    ]
    return {"should": [*older, {"is_empty": {"key": "_version"}}]}


def test_a_conditional_upsert_keeps_the_newer(engine: Engine) -> None:
    """Of two versions the newer stays whichever comes last, each point of a batch for itself; new points are written."""
    done(engine, "PUT", "/collections/docs/index", {"field_name": "_version", "field_schema": "integer"})

    def upsert(versions: dict[int | str, int], text: str) -> None:
        points = [
            {"id": each, "vector": {"dense": [1.0, 2.0]}, "payload": {"_version": version, "text": text}}
            for each, version in versions.items()
        ]
        done(engine, "PUT", "/collections/docs/points", {"points": points, "update_filter": newest(versions)})

    now = 1790000000000
    done(engine, "PUT", "/collections/docs/points", {"points": [{"id": 9, "vector": {}, "payload": {"text": "bare"}}]})
    upsert({1: now, UUID: now}, "first")
    upsert({1: now - 1, UUID: now + 1, 3: 0, 9: 0}, "second")
    upsert({UUID: now + 1}, "again")
    assert payload(engine, 1) == {"_version": now, "text": "first"}
    assert payload(engine, UUID) == {"_version": now + 1, "text": "again"}
    assert payload(engine, 3) == {"_version": 0, "text": "second"}
    assert payload(engine, 9) == {"_version": 0, "text": "second"}


def test_a_large_conditional_upsert_keeps_the_newer(engine: Engine) -> None:
    """The pieces that an upsert is worked off in are all under its condition."""
    fields = {"dense": [1.0, 2.0]}
    old = [{"id": each, "vector": fields, "payload": {"_version": 5 if each % 2 else 1}} for each in range(50)]
    done(engine, "PUT", "/collections/docs/points", {"points": old})
    new = [{"id": each, "vector": fields, "payload": {"_version": 3}} for each in range(50)]
    condition = newest(dict.fromkeys(range(50), 3))
    done(engine, "PUT", "/collections/docs/points", {"points": new, "update_filter": condition})
    assert [payload(engine, each)["_version"] for each in range(50)] == [5 if each % 2 else 3 for each in range(50)]


def test_aliases_move_together(engine: Engine) -> None:
    """One request moves an alias; a request with a wrong action moves none; dropping a collection drops its aliases."""
    done(engine, "PUT", "/collections/next", CREATED)

    def create(target: str) -> dict[str, Any]:
        return {"create_alias": {"collection_name": target, "alias_name": "live"}}

    def count() -> int:
        counted: int = done(engine, "POST", "/collections/live/points/count", {})["count"]
        return counted

    done(engine, "PUT", "/collections/docs/points", {"points": [{"id": 1, "vector": {"dense": [1.0, 2.0]}}]})
    done(engine, "POST", "/collections/aliases", {"actions": [create("docs")]})
    assert count() == 1
    delete = {"delete_alias": {"alias_name": "live"}}
    assert refusal(engine, "POST", "/collections/aliases", {"actions": [delete, create("nope")]})[0] == 404
    assert count() == 1
    done(engine, "POST", "/collections/aliases", {"actions": [delete, create("next")]})
    assert count() == 0
    rename = {"rename_alias": {"old_alias_name": "live", "new_alias_name": "current"}}
    done(engine, "POST", "/collections/aliases", {"actions": [rename]})
    assert not engine.exists("live")
    assert engine.exists("current")
    assert done(engine, "DELETE", "/collections/next") is True
    assert not engine.exists("current")
    assert done(engine, "DELETE", "/collections/next") is False


def test_a_dropped_collection_leaves_nothing(engine: Engine, tmp_path: Path) -> None:
    """A collection that is created again is empty."""
    done(engine, "PUT", "/collections/docs/points", {"points": [{"id": 1, "vector": {"dense": [1.0, 2.0]}}]})
    done(engine, "DELETE", "/collections/docs")
    assert list((tmp_path / "collections").iterdir()) == []
    assert refusal(engine, "POST", "/collections/docs/points/count", {})[0] == 404
    done(engine, "PUT", "/collections/docs", CREATED)
    assert done(engine, "POST", "/collections/docs/points/count", {}) == {"count": 0}


def test_the_unnamed_vector(engine: Engine) -> None:
    """A collection with one vector without a name is searched without a name."""
    done(engine, "PUT", "/collections/plain", {"vectors": {"size": 2, "distance": "Cosine"}})
    done(engine, "PUT", "/collections/plain/points", {"points": [{"id": 1, "vector": [3.0, 4.0]}]})
    (hit,) = done(engine, "POST", "/collections/plain/points/query", {"query": [3.0, 4.0]})["points"]
    assert hit["score"] == pytest.approx(1.0)


def test_documents_become_vectors_as_queries_do(engine: Engine) -> None:
    """A text given as a document is found by its terms, weighted with the options that came with it."""
    options = {"language": "english", "avg_len": 2.0}
    document = {"text": "the lanterns", "model": "qdrant/bm25", "options": options}
    done(engine, "PUT", "/collections/docs/points", {"points": [{"id": 1, "vector": {"bm25": document}}]})
    query = {"query": {"text": "lantern", "model": "Qdrant/BM25"}, "using": "bm25"}
    (hit,) = done(engine, "POST", "/collections/docs/points/query", query)["points"]
    assert hit["id"] == 1
    longer = {**document, "options": {**options, "avg_len": 200.0}}
    done(engine, "PUT", "/collections/docs/points", {"points": [{"id": 1, "vector": {"bm25": longer}}]})
    (heavier,) = done(engine, "POST", "/collections/docs/points/query", query)["points"]
    assert heavier["score"] > hit["score"]


def test_updates_in_one_request_run_in_order(engine: Engine) -> None:
    """A batch of updates is applied one after the other, up to the one that is refused."""
    upsert = {"upsert": {"points": [{"id": 1, "vector": {"dense": [1.0, 2.0]}, "payload": {"n": 1}}]}}
    change = {"set_payload": {"payload": {"n": 2}, "points": [1]}}
    wrong = {"update_vectors": {"points": [{"id": 1, "vector": {"dense": [1.0]}}]}}
    delete = {"delete": {"points": [1]}}
    body = {"operations": [upsert, change, wrong, delete]}
    assert refusal(engine, "POST", "/collections/docs/points/batch", body)[0] == 400
    assert payload(engine, 1) == {"n": 2}


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
def test_long_requests_let_others_run(engine: Engine, method: str, path: str, body: Any) -> None:
    """While 64 searches or upserts run, the loop's other tasks get a turn for every eight of them."""

    async def turns() -> int:
        task = asyncio.create_task(ask(engine, method, f"/collections/docs{path}", body))
        taken = 0
        while not task.done():
            taken += 1
            await asyncio.sleep(0)
        assert (await task)[0] == 200
        return taken

    assert asyncio.run(turns()) >= 8


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


def test_dropping_under_a_search_is_a_missing_collection(engine: Engine) -> None:
    """A collection that is dropped while a batch runs answers that batch with 404, not with an error of the engine."""

    async def race() -> int:
        searches = [{"query": [1.0, 2.0], "using": "dense"}] * 64
        batch = ask(engine, "POST", "/collections/docs/points/query/batch", {"searches": searches})
        (status, _), _ = await asyncio.gather(batch, ask(engine, "DELETE", "/collections/docs"))
        return status

    assert asyncio.run(race()) == 404


def test_the_log_is_flushed_as_it_grows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Many written bytes are flushed without being asked to, so that opening doesn't replay them."""
    flushed = []
    monkeypatch.setattr("operators.clients.qdrant.shards.FLUSH_EVERY", 10_000)
    monkeypatch.setattr("operators.clients.qdrant.shards.Collection.flush", lambda self: flushed.append(self.name))
    with Engine(tmp_path) as engine:
        done(engine, "PUT", "/collections/docs", CREATED)
        text = "x" * 4_000
        for each in range(4):
            point = {"id": each, "vector": {"dense": [1.0, 2.0]}, "payload": {"text": text}}
            done(engine, "PUT", "/collections/docs/points", {"points": [point]})
    assert flushed == ["docs", "docs"]
