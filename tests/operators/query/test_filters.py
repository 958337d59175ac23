"""Filters as conditions: what each op asks of Qdrant."""

from typing import Any

import pytest
from pydantic import TypeAdapter

from operators.query.filters import condition
from schemas.filters import AnyFilter, Filter

FILTER: TypeAdapter[AnyFilter] = TypeAdapter(Filter)

CONDITIONS: list[tuple[str, Any, Any]] = [
    ("eq", "red", {"key": "m.a", "match": {"value": "red"}}),
    ("eq", True, {"key": "m.a", "match": {"value": True}}),
    ("eq", 7, {"key": "m.a", "range": {"gte": 7, "lte": 7}}),
    ("eq", 7.5, {"key": "m.a", "range": {"gte": 7.5, "lte": 7.5}}),
    ("eq", 2**53 - 1, {"key": "m.a", "range": {"gte": 2**53 - 1, "lte": 2**53 - 1}}),
    ("eq", 2**53, {"key": "m.a", "match": {"value": 2**53}}),
    ("eq", -(2**53), {"key": "m.a", "match": {"value": -(2**53)}}),
    ("any_of", ["red", "blue"], {"key": "m.a", "match": {"any": ["red", "blue"]}}),
    ("any_of", [1, 2], {"key": "m.a", "match": {"any": [1, 2]}}),
    ("any_of", [False], {"key": "m.a", "match": {"value": False}}),
    ("none_of", ["red"], {"must_not": [{"key": "m.a", "match": {"any": ["red"]}}]}),
    ("range", {"gt": 0, "lte": 1.5}, {"key": "m.a", "range": {"gt": 0.0, "lte": 1.5}}),
    ("exists", True, {"must_not": [{"is_empty": {"key": "m.a"}}]}),
    ("exists", False, {"is_empty": {"key": "m.a"}}),
    ("prefix", "re", {"key": "m.a", "match": {"prefix": "re"}}),
    (
        "any_of",
        [True, 1, "red", 0, False],
        {
            "should": [
                {"key": "m.a", "match": {"any": ["red"]}},
                {"key": "m.a", "match": {"any": [1, 0]}},
                {"key": "m.a", "match": {"value": False}},
                {"key": "m.a", "match": {"value": True}},
            ]
        },
    ),
    (
        "date_range",
        {"gte": "2026-01-01T00:00:00.123456+02:00", "lt": 0},
        {"key": "m.a", "range": {"gte": "2025-12-31T22:00:00.123456Z", "lt": "1970-01-01T00:00:00.000000Z"}},
    ),
    (
        "date_range",
        {"gt": "0001-01-01T00:00:00Z", "lte": "9999-12-31T23:59:59Z"},
        {"key": "m.a", "range": {"gt": "0001-01-01T00:00:00.000000Z", "lte": "9999-12-31T23:59:59.000000Z"}},
    ),
]


@pytest.mark.parametrize(("op", "value", "expected"), CONDITIONS)
def test_a_filter_is_one_condition(op: str, value: Any, expected: dict[str, Any]) -> None:
    """Each op has its one condition, which a `must` list can hold; lists are asked by type, for Qdrant mixes none."""
    wanted = FILTER.validate_python({"field": "m.a", "op": op, "value": value})
    assert condition(wanted) == expected


def test_the_type_of_a_value_stays() -> None:
    """A boolean is never asked for as a number, nor a number as a boolean."""
    for value in (True, 1, 1.0):
        asked = condition(FILTER.validate_python({"field": "a", "op": "eq", "value": value}))
        (inner,) = (each for name, each in asked.items() if name != "key")
        assert {type(each) for each in inner.values()} == {type(value)}
