"""Filters: each form of condition against the same few points in the embedded engine."""

from collections.abc import Iterator
from typing import Any

import pytest

from operators.clients.qdrant_edge.shards import Engine
from tests.operators.clients.qdrant_edge.engine_requests import CREATED, done

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
