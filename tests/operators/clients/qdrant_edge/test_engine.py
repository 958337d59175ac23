"""The embedded engine: what survives a restart, which write wins, and what names mean."""

import asyncio
import signal
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import orjson
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from operators.clients.http.transport import Endpoint
from operators.clients.qdrant.requests import Change
from operators.clients.qdrant.server import ServerClient
from operators.clients.qdrant_edge.engine import EngineClient
from operators.clients.qdrant_edge.shards import Engine, HitPayloads
from operators.query.backend_answers import Hits
from schemas.errors import ConfigError
from tests.operators.clients.qdrant_edge.engine_requests import CREATED, UUID, done, refusal
from tests.qdrant_server.transport import ServerTransport
from tests.tiers import sized


def payload(engine: Engine, identity: int | str) -> Any:
    """The payload of one point, None without it."""
    found = done(engine, "POST", "/collections/docs/points", {"ids": [identity], "with_payload": True})
    return found[0]["payload"] if found else None


@pytest.mark.slow
def test_everything_is_there_after_a_restart(tmp_path: Path) -> None:
    """Points, vectors, indexes, and the configuration outlive the engine that wrote them."""
    point = {
        "id": UUID,
        "vector": {
            "dense": [1.0, 2.0],
            "tokens": [[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]],
            "bm25": {"indices": [3, 1], "values": [1.0, 2.0]},
        },
        "payload": {"text": "lantern", "n": [1, 2.5, None, True, {"deep": "ä"}]},
    }
    schema = {"type": "text", "tokenizer": "word", "stopwords": "english", "phrase_matching": True}
    with Engine(tmp_path) as engine:
        done(engine, "PUT", "/collections/docs", CREATED)
        done(engine, "PUT", "/collections/other", CREATED)
        done(engine, "PUT", "/collections/docs/index", {"field_name": "text", "field_schema": schema})
        done(engine, "PUT", "/collections/docs/points", {"points": [point]})
        before = done(engine, "GET", "/collections/docs")
    with Engine(tmp_path) as engine:
        assert done(engine, "GET", "/collections/docs") == before
        assert before["config"]["params"]["vectors"] == CREATED["vectors"]
        assert before["payload_schema"]["text"] == {"data_type": "text", "params": schema, "points": 1}
        assert engine.names() == ["docs", "other"]
        (found,) = done(
            engine, "POST", "/collections/docs/points", {"ids": [UUID], "with_payload": True, "with_vector": True}
        )
        # As JSON, for which True isn't 1.
        options = orjson.OPT_SORT_KEYS
        assert orjson.dumps(found["payload"], option=options) == orjson.dumps(point["payload"], option=options)
        assert found["vector"]["dense"] == [1.0, 2.0]
        assert found["vector"]["tokens"] == [[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]]
        assert found["vector"]["bm25"] == {"indices": [1, 3], "values": [2.0, 1.0]}


@pytest.mark.slow
def test_acknowledged_writes_survive_a_kill(tmp_path: Path) -> None:
    """An acknowledged write of the engine is there after the process was killed without a flush."""
    script = f"""
import os, signal
from pathlib import Path
from tests.operators.clients.qdrant_edge.engine_requests import CREATED, done
from operators.clients.qdrant_edge.shards import Engine
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
    with Engine(tmp_path), pytest.raises(ConfigError, match="open in another process"):
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


def newest(versions: dict[int | str, int]) -> dict[str, Any]:
    """The condition of an upsert: a point that exists is written over only if its version isn't newer."""
    older = [
        {"must": [{"has_id": [identity]}, {"key": "_version", "range": {"lte": version}}]}
        for identity, version in versions.items()
    ]
    return {"should": [*older, {"is_empty": {"key": "_version"}}]}


def test_a_conditional_upsert_keeps_the_newer(engine: Engine) -> None:
    """Of two versions the newer stays, whichever comes last and each point for itself; new points are written."""
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


def test_the_log_is_flushed_as_it_grows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Many written bytes are flushed without being asked to, so that opening doesn't replay them."""
    flushed = []
    monkeypatch.setattr("operators.clients.qdrant_edge.shards.FLUSH_EVERY", 10_000)
    monkeypatch.setattr("operators.clients.qdrant_edge.shards.Collection.flush", lambda self: flushed.append(self.name))
    with Engine(tmp_path) as engine:
        done(engine, "PUT", "/collections/docs", CREATED)
        text = "x" * 4_000
        for each in range(4):
            point = {"id": each, "vector": {"dense": [1.0, 2.0]}, "payload": {"text": text}}
            done(engine, "PUT", "/collections/docs/points", {"points": [point]})
    assert flushed == ["docs", "docs"]


def test_a_payload_is_set_on_those_that_are_there(engine: Engine) -> None:
    """A point that isn't there has the request refused, after the others were changed, as on a server."""
    point = {"id": 1, "vector": {"dense": [1.0, 2.0]}, "payload": {"n": 1}}
    done(engine, "PUT", "/collections/docs/points", {"points": [point]})
    body = {"payload": {"n": 2}, "points": [7, 1]}
    assert refusal(engine, "POST", "/collections/docs/points/payload", body)[0] == 404
    assert payload(engine, 1) == {"n": 2}


def test_the_index_is_its_owners_alone(tmp_path: Path) -> None:
    """A directory that the engine makes is 0700; one that is there, such as a mounted one, is left as it is."""
    old = tmp_path / "old"
    old.mkdir(mode=0o750)
    for path, mode in ((tmp_path / "parent" / "new", 0o700), (old, 0o750)):
        with Engine(path):
            assert path.stat().st_mode & 0o777 == mode


EVENTS = st.tuples(
    st.sampled_from(["upsert", "set", "delete", "write over", "reopen"]), st.integers(0, 3), st.integers(0, 9)
)


@settings(max_examples=sized(10, nightly=300))
@given(events=st.lists(EVENTS, min_size=1, max_size=12), room=st.sampled_from([0, 600, 1_000_000]))
@example(events=[("upsert", 0, 1), ("set", 0, 2), ("delete", 0, 0), ("upsert", 0, 3)], room=1_000_000)
def test_hits_bring_the_fields_of_their_points_as_they_are_now(events: list[tuple[str, int, int]], room: int) -> None:
    """Whatever was written, and however few fields are kept: listed fields are those that a selection brings."""
    with tempfile.TemporaryDirectory() as directory:
        engine = Engine(Path(directory))
        done(engine, "PUT", "/collections/docs", CREATED)
        engine.collection("docs").hit_payloads = HitPayloads(room)
        for event, id_, value in events:
            match event:
                case "upsert":
                    point = {"id": id_, "vector": {"dense": [1.0, id_]}, "payload": {"n": value, "m": [value], "x": 1}}
                    done(engine, "PUT", "/collections/docs/points", {"points": [point]})
                case "set":
                    changed = {"payload": {"n": value, "new": "ä"}, "filter": {"must": [{"has_id": [id_]}]}}
                    done(engine, "POST", "/collections/docs/points/payload", changed)
                case "delete":
                    done(engine, "POST", "/collections/docs/points/delete", {"points": [id_]})
                case "write over":
                    body = {"points": [{"id": id_, "vector": {"dense": [2.0, value]}}]}
                    where = {"must": [{"key": "n", "match": {"value": value}}]}
                    done(engine, "PUT", "/collections/docs/points", {**body, "update_filter": where})
                case "reopen":
                    engine.close()
                    engine = Engine(Path(directory))
            for fields in (["n", "new"], ["m"], []):
                # One by a filter alone has no versions of points.
                for query in ({"query": [1.0, 1.0], "using": "dense"}, {}):
                    search: dict[str, Any] = {**query, "with_payload": fields, "limit": 10}
                    found = asyncio.run(EngineClient(engine).query_batch("docs", [search, search], timeout=10))
                    selected = done(engine, "POST", "/collections/docs/points/query", search)["points"]
                    expected = Hits(
                        [str(point["id"]) for point in selected],
                        [point["score"] for point in selected],
                        [point["payload"] for point in selected],
                        [point["version"] for point in selected],
                    )
                    assert found == [expected, expected]
        engine.close()


def test_arrays_are_stored_as_numbers_are(engine: Engine) -> None:
    """The engine's client leaves the same vectors as the one that writes numbers to a server, bit for bit."""
    chance = np.random.default_rng(1)
    arrays = {"dense": (2,), "tokens": (3, 2)}
    vector: dict[str, Any] = {
        name: np.round(chance.normal(size=shape), 4).astype(np.float32) for name, shape in arrays.items()
    }
    vector["bm25"] = {"indices": [3], "values": [0.5]}
    stored = []
    server = ServerClient(Endpoint("qdrant", "http://qdrant", ServerTransport(engine)))
    for number, client in enumerate((server, EngineClient(engine))):
        asyncio.run(client.upsert("docs", [{"id": number, "vector": vector, "payload": {}}], timeout=10))
        found = done(engine, "POST", "/collections/docs/points", {"ids": [number], "with_vector": True})
        stored.append(found[0]["vector"])
    assert stored[0] == stored[1]


PAYLOADS = [{"n": float("nan")}, {"n": (1, 2)}, {"n": np.float32(0.5)}, {"n": 2**64 - 1}, {"n": {"deep": [None, True]}}]


@pytest.mark.parametrize("written", PAYLOADS, ids=str)
def test_a_payload_is_kept_as_a_server_keeps_it(engine: Engine, written: Any) -> None:
    """Upserts and changes have the JSON that a server would get, of which NaN is null."""
    kept = []
    server = ServerClient(Endpoint("qdrant", "http://qdrant", ServerTransport(engine)))
    for client in (server, EngineClient(engine)):
        bare = {"id": 1, "vector": {}, "payload": written}
        asyncio.run(client.upsert("docs", [bare, {**bare, "id": UUID, "payload": {}}], timeout=10))
        asyncio.run(client.change("docs", [Change(UUID, {}, written)], timeout=10))
        kept.append([payload(engine, each) for each in (1, UUID)])
    assert kept[0] == kept[1]
