"""A collection of several shards answers like one of a single shard, but for IDF, which each shard counts alone."""

import math
import uuid
from collections import Counter
from typing import Any

import pytest

from tests.qdrant_server.hash_ring import shard_of
from tests.stand_in.asking import Server

SHARDS = 3
IDS = [*range(40), *sorted(str(uuid.uuid5(uuid.NAMESPACE_OID, str(number))) for number in range(40))]
TERM = 7
POINTS: list[dict[str, Any]] = [
    {
        "id": identity,
        "vector": {
            "dense": [math.cos(number), math.sin(number)],
            "bm25": {"indices": [TERM, 8] if number % 3 else [8], "values": [1.5, 1.0] if number % 3 else [1.0]},
        },
        "payload": {"n": number, "k": f"k{number % 4}"},
    }
    for number, identity in enumerate(IDS)
]


@pytest.fixture
def filled(server: Server) -> Server:
    """The same points in a collection of one shard and in one of three."""
    for name, number in (("one", 1), ("three", SHARDS)):
        vectors = {"dense": {"size": 2, "distance": "Dot"}}
        created = {"vectors": vectors, "sparse_vectors": {"bm25": {"modifier": "idf"}}, "shard_number": number}
        server.done("PUT", f"/collections/{name}", created)
        server.done("PUT", f"/collections/{name}/points?wait=true", {"points": POINTS})
        for field, schema in (("n", "integer"), ("k", "keyword")):
            server.done("PUT", f"/collections/{name}/index", {"field_name": field, "field_schema": schema})
    return server


def _both(server: Server, path: str, body: Any) -> Any:
    one, three = (server.done("POST", f"/collections/{name}/{path}", body) for name in ("one", "three"))
    assert three == one
    return one


def _found(server: Server, name: str, **search: Any) -> list[tuple[Any, float]]:
    (result,) = server.done("POST", f"/collections/{name}/points/query/batch", {"searches": [search]})
    return [(point["id"], point["score"]) for point in result["points"]]


def test_every_shard_holds_some(filled: Server) -> None:
    """Each point is in one shard, and no shard is empty or is seen as a collection."""
    assert set(Counter(shard_of(identity, SHARDS) for identity in IDS)) == set(range(SHARDS))
    info = filled.done("GET", "/collections/three")
    assert info["points_count"] == len(IDS)
    assert info["config"]["params"]["shard_number"] == SHARDS
    assert info["payload_schema"]["n"] == {"data_type": "integer", "points": len(IDS)}
    assert filled.done("GET", "/collections") == {"collections": [{"name": "one"}, {"name": "three"}]}


def test_the_hash_is_the_servers() -> None:
    """A point is where a server puts it: the owner of the next node on a ring of 100 nodes a shard."""
    assert [shard_of(identity, 1) for identity in IDS] == [0] * len(IDS)
    before = [shard_of(identity, SHARDS) for identity in range(1000)]
    after = [shard_of(identity, SHARDS + 1) for identity in range(1000)]
    assert {new for old, new in zip(before, after, strict=True) if new != old} == {SHARDS}


def test_dense_searches_agree(filled: Server) -> None:
    """A vector search finds the same points with the same scores, page by page."""
    for offset, limit in ((0, 10), (5, 10), (30, 3)):
        search = {"query": [0.3, 0.7], "using": "dense", "limit": limit, "offset": offset}
        assert _found(filled, "three", **search) == _found(filled, "one", **search)


def test_idf_is_counted_a_shard(filled: Server) -> None:
    """A term weighs what it weighs among the points of the same shard."""
    query = {"query": {"indices": [TERM], "values": [1.0]}, "using": "bm25", "limit": len(IDS)}
    holding, total = Counter[int](), Counter(shard_of(identity, SHARDS) for identity in IDS)
    for point in POINTS:
        holding[shard_of(point["id"], SHARDS)] += TERM in point["vector"]["bm25"]["indices"]
    weights = {
        shard: 1.5 * math.log(1 + (total[shard] - holding[shard] + 0.5) / (holding[shard] + 0.5)) for shard in total
    }
    found = _found(filled, "three", **query)
    assert len(found) == sum(holding.values())
    for identity, score in found:
        assert score == pytest.approx(weights[shard_of(identity, SHARDS)], abs=1e-5)
    assert [score for _, score in found] == sorted((score for _, score in found), reverse=True)
    assert len({round(score, 5) for _, score in _found(filled, "one", **query)}) == 1
    assert len({round(score, 5) for _, score in found}) > 1


def test_the_corpus_is_counted_a_shard(filled: Server) -> None:
    """A corpus of IDF is counted within each shard, too."""
    corpus = {"must": [{"key": "k", "match": {"value": "k1"}}]}
    inside = [point for point in POINTS if point["payload"]["k"] == "k1"]
    query = {"query": {"indices": [TERM], "values": [1.0]}, "using": "bm25", "limit": len(IDS)}
    for identity, score in _found(filled, "three", **query, filter=corpus, params={"idf": {"corpus": corpus}}):
        near = [point for point in inside if shard_of(point["id"], SHARDS) == shard_of(identity, SHARDS)]
        holding = sum(TERM in point["vector"]["bm25"]["indices"] for point in near)
        assert score == pytest.approx(1.5 * math.log(1 + (len(near) - holding + 0.5) / (holding + 0.5)), abs=1e-5)


def test_the_modifier_can_be_changed(filled: Server) -> None:
    """Without the modifier a sparse vector is searched by its plain weights, and with it as before."""
    query = {"query": {"indices": [TERM], "values": [1.0]}, "using": "bm25", "limit": len(IDS)}
    before = _found(filled, "three", **query)
    for modifier in ("none", "idf"):
        change = {"sparse_vectors": {"bm25": {"modifier": modifier}}}
        assert filled.done("PATCH", "/collections/three", change) is True
        params = filled.done("GET", "/collections/three")["config"]["params"]
        assert params["sparse_vectors"] == change["sparse_vectors"]
        if modifier == "none":
            assert {score for _, score in _found(filled, "three", **query)} == {1.5}
    assert dict(_found(filled, "three", **query)) == pytest.approx(dict(before))


def test_scrolls_agree(filled: Server) -> None:
    """Pages by id and by a field hold the same points, and each page continues where the last one ended."""
    seen: list[Any] = []
    offset = None
    while True:
        page = _both(filled, "points/scroll", {"limit": 7, "offset": offset, "with_payload": False})
        seen += [point["id"] for point in page["points"]]
        offset = page["next_page_offset"]
        if offset is None:
            break
    assert seen == IDS
    for direction in ("asc", "desc"):
        ordered = {"order_by": {"key": "n", "direction": direction}, "limit": 9, "with_payload": ["n"]}
        assert len(_both(filled, "points/scroll", ordered)["points"]) == 9


def test_lookups_agree(filled: Server) -> None:
    """Counts, facets and points by id are those of all shards together."""
    where = {"must": [{"key": "k", "match": {"any": ["k1", "k2"]}}]}
    assert _both(filled, "points/count", {"filter": where, "exact": True}) == {"count": 40}
    assert len(_both(filled, "facet", {"key": "k", "exact": True})["hits"]) == 4
    assert len(_both(filled, "facet", {"key": "k", "limit": 2})["hits"]) == 2
    found = filled.done("POST", "/collections/three/points", {"ids": [*IDS[::-7], 1000]})
    assert [point["id"] for point in found] == IDS[::-7]


def test_updates_reach_every_shard(filled: Server) -> None:
    """Deletions, payloads and vectors change the points wherever these are."""
    for name in ("one", "three"):
        path = f"/collections/{name}/points"
        filled.done("POST", f"{path}/delete", {"points": IDS[:5]})
        filled.done("POST", f"{path}/delete", {"filter": {"must": [{"key": "k", "match": {"value": "k3"}}]}})
        filled.done("POST", f"{path}/payload", {"payload": {"k": "new"}, "points": IDS[8:10]})
        vectors = [{"id": identity, "vector": {"dense": [9.0, 9.0]}} for identity in (IDS[8], IDS[60])]
        filled.done("PUT", f"{path}/vectors", {"points": vectors})
    _both(filled, "points/scroll", {"limit": 100})
    best = [identity for identity, _ in _found(filled, "three", query=[1.0, 1.0], using="dense", limit=2)]
    assert set(best) == {IDS[8], IDS[60]}


def test_a_dropped_collection_is_gone(filled: Server) -> None:
    """All shards go with their collection, and the name can be had again."""
    assert filled.done("DELETE", "/collections/three") is True
    filled.done("PUT", "/collections/three", {"vectors": {"size": 2, "distance": "Dot"}, "shard_number": 2})
    assert filled.done("GET", "/collections/three")["points_count"] == 0


def test_shards_by_keys(server: Server) -> None:
    """A collection whose shards are made by keys has none, and takes no points."""
    created = {"vectors": {"size": 2, "distance": "Dot"}, "sharding_method": "custom"}
    server.done("PUT", "/collections/c", created)
    words = "Wrong input: Shard key not specified"
    assert server.refused("PUT", "/collections/c/points", {"points": [{"id": 1, "vector": [1.0, 0.0]}]}) == words
    assert server.refused("POST", "/collections/c/points/delete", {"points": [1]}) == words


def test_payloads_are_shown_where_they_are_asked(filled: Server) -> None:
    """A point by its id is without its payload, and a scrolled one has it, unless the request says otherwise."""
    assert filled.done("POST", "/collections/three/points", {"ids": [5]}) == [{"id": 5}]
    wanted = [{"id": 5, "payload": POINTS[5]["payload"]}]
    assert filled.done("POST", "/collections/three/points", {"ids": [5], "with_payload": True}) == wanted
    assert "payload" in filled.done("POST", "/collections/three/points/scroll", {"limit": 1})["points"][0]
