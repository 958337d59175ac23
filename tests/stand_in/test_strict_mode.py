"""The stand-in refuses in strict mode what a server of 1.19 refuses, in its words."""

from typing import Any

import pytest

from tests.qdrant_server.unindexed import one_unindexed
from tests.stand_in.asking import Server

VECTORS = {
    "dense": {"size": 2, "distance": "Dot"},
    "tokens": {
        "size": 2,
        "distance": "Dot",
        "hnsw_config": {"m": 0},
        "multivector_config": {"comparator": "max_sim"},
    },
}
SPARSE = {"bm25": {"modifier": "idf"}}
WHERE = {"must": [{"key": "n", "match": {"value": 1}}]}
NEAREST = {"query": [1.0, 0.0], "using": "dense"}
TOKENS = {"query": [[1.5, 0.5]], "using": "tokens"}
BATCH, SCROLL, COUNT, FACET = "points/query/batch", "points/scroll", "points/count", "facet"
POINT = {"id": 1, "vector": {"dense": [1.0, 0.0]}, "payload": {"n": 1, "k": "a"}}
UNINDEXED = '"n" of one of the following types: [integer]'


def _search(**members: Any) -> dict[str, Any]:
    return {"searches": [{**NEAREST, **members}]}


def _made(server: Server, **strict: Any) -> None:
    server.done("PUT", "/collections/c", {"vectors": VECTORS, "sparse_vectors": SPARSE})
    server.done("PUT", "/collections/c/points", {"points": [POINT]})
    server.done("PUT", "/collections/c/index", {"field_name": "k", "field_schema": "keyword"})
    server.done("PATCH", "/collections/c", {"strict_mode_config": {"enabled": True, **strict}})


REFUSED: dict[str, tuple[dict[str, Any], str, str, Any, str]] = {
    "search by a field": ({"unindexed_filtering_retrieve": False}, "POST", BATCH, _search(filter=WHERE), UNINDEXED),
    "scroll by a field": ({"unindexed_filtering_retrieve": False}, "POST", SCROLL, {"filter": WHERE}, UNINDEXED),
    "count by a field": ({"unindexed_filtering_retrieve": False}, "POST", COUNT, {"filter": WHERE}, UNINDEXED),
    "facet by a field": (
        {"unindexed_filtering_retrieve": False},
        "POST",
        FACET,
        {"key": "k", "filter": WHERE},
        UNINDEXED,
    ),
    "corpus of IDF": (
        {"unindexed_filtering_retrieve": False},
        "POST",
        BATCH,
        _search(params={"idf": {"corpus": WHERE}}),
        UNINDEXED,
    ),
    "deletion by a field": (
        {"unindexed_filtering_update": False},
        "POST",
        "points/delete",
        {"filter": WHERE},
        UNINDEXED,
    ),
    "limit of a search": ({"max_query_limit": 2}, "POST", BATCH, _search(limit=3), '3 > 2 for "limit"'),
    "default limit": ({"max_query_limit": 2}, "POST", BATCH, _search(), '10 > 2 for "limit"'),
    "limit of a scroll": ({"max_query_limit": 2}, "POST", SCROLL, {"limit": 3}, '3 > 2 for "limit"'),
    "limit of a facet": ({"max_query_limit": 2}, "POST", FACET, {"key": "k", "limit": 3}, '3 > 2 for "limit"'),
    "exact count": ({"search_allow_exact": False}, "POST", COUNT, {}, "Exact search disabled!. Help: Set exact=false."),
    "exact facet": (
        {"search_allow_exact": False},
        "POST",
        FACET,
        {"key": "k", "exact": True},
        "Exact search disabled!",
    ),
    "vector without a graph": (
        {"search_allow_exact": False},
        "POST",
        BATCH,
        {"searches": [TOKENS]},
        "Request is forbidden on 'tokens' because global vector indexing is disabled (hnsw_config.m = 0)",
    ),
    "ef": ({"search_max_hnsw_ef": 8}, "POST", BATCH, _search(params={"hnsw_ef": 9}), '9 > 8 for "hnsw_ef"'),
    "oversampling": (
        {"search_max_oversampling": 1.5},
        "POST",
        BATCH,
        _search(params={"quantization": {"oversampling": 2.0}}),
        '2 > 1.5 for "oversampling"',
    ),
    "searches in a batch": (
        {"search_max_batchsize": 1},
        "POST",
        BATCH,
        {"searches": [NEAREST, NEAREST]},
        '2 > 1 for "search batch size"',
    ),
    "time-out of a lookup": ({"max_timeout": 5}, "POST", "points?timeout=6", {"ids": [1]}, '6 > 5 for "timeout"'),
    "time-out of an upsert": (
        {"max_timeout": 5},
        "PUT",
        "points?wait=true&timeout=6",
        {"points": [POINT]},
        '6 > 5 for "timeout"',
    ),
    "conditions": (
        {"filter_max_conditions": 1},
        "POST",
        COUNT,
        {"filter": {"must": [{"should": [*WHERE["must"], *WHERE["must"]]}]}},
        "Filter condition limit reached (2 > 1). Help: Reduce the amount of conditions of your filter.",
    ),
    "size of a condition": (
        {"condition_max_size": 1},
        "POST",
        COUNT,
        {"filter": {"must": [{"has_id": [1, 2]}]}},
        "Condition size limit reached (2 > 1). Help: Reduce the size of your condition.",
    ),
    "rows of a multivector": (
        {"multivector_config": {"tokens": {"max_vectors": 1}}},
        "PUT",
        "points",
        {"points": [{"id": 2, "vector": {"tokens": [[1.0, 0.5], [0.5, 1.0]]}}]},
        "Multivector 'tokens' has a limit of 1 vectors, but 2 were provided!",
    ),
    "terms of a sparse vector": (
        {"sparse_config": {"bm25": {"max_length": 1}}},
        "PUT",
        "points",
        {"points": [{"id": 2, "vector": {"bm25": {"indices": [1, 2], "values": [1.0, 1.0]}}}]},
        "Sparse vector 'bm25' has a limit of 1 indices, but 2 were provided!",
    ),
    "indexes": (
        {"max_payload_index_count": 1},
        "PUT",
        "index",
        {"field_name": "n", "field_schema": "integer"},
        "Collection already has the maximum number of payload indices (1)",
    ),
    "an update among others": (
        {"upsert_max_batchsize": 1},
        "POST",
        "points/batch",
        {"operations": [{"upsert": {"points": [POINT, POINT]}}]},
        '2 > 1 for "upsert limit"',
    ),
}


@pytest.mark.parametrize(("strict", "method", "path", "body", "words"), REFUSED.values(), ids=REFUSED.keys())
def test_refuses(server: Server, strict: dict[str, Any], method: str, path: str, body: Any, words: str) -> None:
    """Each restriction refuses its requests by name, and none when strict mode is off."""
    _made(server, **strict)
    refusal = server.refused(method, f"/collections/c/{path}", body)
    assert refusal.startswith("Bad request: ")
    assert words in refusal
    server.done("PATCH", "/collections/c", {"strict_mode_config": {"enabled": False}})
    server.done(method, f"/collections/c/{path}", _without_idf(body))


def test_refuses_points_beyond_the_most(stand_in: Server) -> None:
    """A collection that is full takes none; a server counts them now and then, and refuses later."""
    _made(stand_in, max_points_count=1)
    refusal = stand_in.refused("PUT", "/collections/c/points", {"points": [POINT]})
    assert refusal == "Bad request: Max points count limit of 1 reached!"


def _without_idf(body: Any) -> Any:
    # A corpus needs a sparse vector; strict mode is asked before that.
    searches = body.get("searches") if isinstance(body, dict) else None
    return body if searches is None else {"searches": [{**each, "params": {}} for each in searches]}


def test_what_is_not_restricted(server: Server) -> None:
    """Lookups have no limit, an inexact count is no exact search, and a condition of an upsert needs no index."""
    _made(
        server,
        unindexed_filtering_retrieve=False,
        unindexed_filtering_update=False,
        max_query_limit=1,
        search_allow_exact=False,
        max_timeout=1,
    )
    server.done("POST", "/collections/c/points?timeout=1", {"ids": [1, 2, 3]})
    server.done("POST", "/collections/c/points/count", {"exact": False})
    server.done("PUT", "/collections/c/points", {"points": [POINT], "update_filter": WHERE})
    server.done("GET", "/collections/c?timeout=60")


NEEDS: dict[str, tuple[dict[str, Any], Any, str]] = {
    "a word": ({"match": {"value": "a"}}, "keyword", "keyword"),
    "a UUID": ({"match": {"value": "e1407479-3136-56c0-9908-bb02fb0339e2"}}, "uuid", "keyword, uuid"),
    "a number": ({"match": {"value": 1}}, {"type": "integer", "range": False}, "integer"),
    "a truth": ({"match": {"value": True}}, "bool", "bool"),
    "one of words": ({"match": {"any": ["a", "b"]}}, "keyword", "keyword"),
    "a text": ({"match": {"text": "a"}}, "text", "text"),
    "a phrase": (
        {"match": {"phrase": "a b"}},
        {"type": "text", "phrase_matching": True},
        "text (with phrase_matching: true)",
    ),
    "a prefix": ({"match": {"prefix": "a"}}, {"type": "keyword", "prefix": True}, "keyword (with prefix: true)"),
    "a range": ({"range": {"gt": 1}}, {"type": "integer", "lookup": False}, "float, integer"),
    "a time": ({"range": {"gt": "2026-01-01T00:00:00Z"}}, "datetime", "datetime"),
}


@pytest.mark.parametrize(("condition", "schema", "kinds"), NEEDS.values(), ids=NEEDS.keys())
def test_an_index_must_fit(condition: dict[str, Any], schema: Any, kinds: str) -> None:
    """A condition needs an index of its type and parameters, and another one doesn't do."""
    where = {"should": [{"key": "metadata.f", **condition}]}
    unfit = {"metadata.f": "geo"}
    missing = one_unindexed(where, unfit)
    assert missing is not None
    assert (missing[0], ", ".join(missing[1])) == ("metadata.f", kinds)
    assert one_unindexed(where, {"metadata.f": schema}) is None


@pytest.mark.parametrize(
    ("condition", "schema"),
    [
        ({"match": {"prefix": "a"}}, "keyword"),
        ({"match": {"phrase": "a b"}}, {"type": "text", "phrase_matching": False}),
        ({"match": {"value": 1}}, {"type": "integer", "lookup": False}),
        ({"range": {"gt": 1}}, {"type": "integer", "range": False}),
        ({"match": {"value": "a"}}, "text"),
    ],
)
def test_the_type_alone_is_not_enough(condition: dict[str, Any], schema: Any) -> None:
    """An index whose parameters don't serve the condition is as good as none."""
    assert one_unindexed({"must": [{"key": "f", **condition}]}, {"f": schema}) is not None


def test_no_index_is_needed() -> None:
    """Ids, an empty list of values and a field with any index need none more; a nested field is named by its path."""
    assert one_unindexed({"must": [{"has_id": [1]}, {"key": "f", "match": {"any": []}}]}, {}) is None
    assert one_unindexed({"must_not": [{"is_empty": {"key": "f"}}]}, {"f": "geo"}) is None
    nested = {"nested": {"key": "a", "filter": WHERE}}
    assert one_unindexed({"must": [nested]}, {"n": "integer"}) == ("a[].n", ["integer"])
