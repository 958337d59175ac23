"""Filters as conditions: what each op asks of Qdrant."""

from typing import Any

import pytest
from pydantic import TypeAdapter

from operators.access.filters import condition, count_conditions, matches_filter, on_fields, on_index
from schemas.document import WHOLE_TITLE
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


def read(wanted: dict[str, Any]) -> AnyFilter:
    """A filter, as an event has it."""
    return FILTER.validate_python(wanted)


IN_TITLE = {"field": "title", "op": "eq", "value": "a"}
NESTED = {"field": "variants", "op": "nested", "value": [{"none_of": [IN_TITLE]}, {"all_of": [IN_TITLE, IN_TITLE]}]}


def test_a_group_is_one_condition() -> None:
    """Of the members' own conditions: any should hold, all must, or none may."""
    [leaf] = [condition(read(IN_TITLE))]
    for kind, clause in (("any_of", "should"), ("all_of", "must"), ("none_of", "must_not")):
        assert condition(read({kind: [IN_TITLE, {kind: [IN_TITLE]}]})) == {clause: [leaf, {clause: [leaf]}]}


def test_a_nested_filter_looks_at_one_object() -> None:
    """All of its filters are conditions on the same object; each of them counts, as Qdrant counts them."""
    leaf = condition(read(IN_TITLE))
    expected = {"nested": {"key": "variants", "filter": {"must": [{"must_not": [leaf]}, {"must": [leaf, leaf]}]}}}
    assert condition(read(NESTED)) == expected
    assert count_conditions(expected) == 3


def test_each_filter_on_a_field_has_its_path() -> None:
    """In groups and nested ones, too: the field of an object in an array has the array's name before it."""
    found = [(place, each.field) for place, each in on_fields([read({"any_of": [IN_TITLE, NESTED]})], "filters")]
    inside = "filters.0.any_of.1.value"
    assert found == [
        ("filters.0.any_of.0", "title"),
        ("filters.0.any_of.1", "variants"),
        (f"{inside}.0.none_of.0", "variants[].title"),
        (f"{inside}.1.all_of.0", "variants[].title"),
        (f"{inside}.1.all_of.1", "variants[].title"),
    ]


def test_a_whole_title_is_asked_in_groups_too() -> None:
    """But not in the objects of an array, whose title is another field."""
    moved = on_index(read({"none_of": [IN_TITLE, NESTED]}), {WHOLE_TITLE: None})
    fields = [each.field for _, each in on_fields([moved], "")]
    assert fields == [WHOLE_TITLE, "variants", *["variants[].title"] * 3]


WRITTEN, COMPOSED = "Mu\u0308ller", "M\u00fcller"


@pytest.mark.parametrize(
    ("op", "value", "misses"),
    [
        ("eq", WRITTEN, False),
        ("any_of", ["x", WRITTEN], False),
        ("none_of", ["x", WRITTEN], True),
        ("prefix", WRITTEN[:3], False),
    ],
)
@pytest.mark.parametrize("field", ["title", "text"])
def test_a_title_is_found_as_it_was_sent(field: str, op: str, value: Any, misses: bool) -> None:
    """Titles and texts are kept in NFC, so a value in another form is looked for in both: a deletion misses nothing."""
    wanted = read({"field": field, "op": op, "value": value})
    for kept in (COMPOSED, WRITTEN):
        assert matches_filter(wanted, {field: kept}) is not misses
    assert matches_filter(wanted, {field: "Miller"}) is misses
    assert all(form in str(condition(wanted)) for form in (WRITTEN[:3], COMPOSED[:2]))
    inside = read({"field": "variants", "op": "nested", "value": [{"field": field, "op": op, "value": value}]})
    assert matches_filter(inside, {"variants": [{field: COMPOSED}]}) is (op == "none_of")
    assert COMPOSED[:2] not in str(condition(inside))
    assert COMPOSED[:2] not in str(condition(read({"field": "brand", "op": op, "value": value})))
