"""Filters as conditions: what each op asks of Qdrant."""

from itertools import product
from math import ulp
from typing import Any

import pytest
from pydantic import TypeAdapter

from operators.access.filters import condition, count_conditions, matches_filter, on_fields
from operators.access.indexes import Ask, Indexed, on_index
from schemas.document import WHOLE_TITLE
from schemas.filters import AnyFilter, Filter

FILTER: TypeAdapter[AnyFilter] = TypeAdapter(Filter)

CONDITIONS: list[tuple[str, Any, Any]] = [
    ("eq", "red", {"key": "a", "match": {"value": "red"}}),
    ("eq", True, {"key": "a", "match": {"value": True}}),
    ("eq", 7, {"key": "a", "range": {"gte": 7, "lte": 7}}),
    ("eq", 7.5, {"key": "a", "range": {"gte": 7.5, "lte": 7.5}}),
    ("eq", 2**53 - 1, {"key": "a", "range": {"gte": 2**53 - 1, "lte": 2**53 - 1}}),
    ("eq", 2**53, {"key": "a", "match": {"value": 2**53}}),
    ("eq", -(2**53), {"key": "a", "match": {"value": -(2**53)}}),
    ("any_of", ["red", "blue"], {"key": "a", "match": {"any": ["red", "blue"]}}),
    ("any_of", [1, 2], {"should": [{"key": "a", "range": {"gte": each, "lte": each}} for each in (1, 2)]}),
    ("any_of", [3, 1, 3], {"should": [{"key": "a", "range": {"gte": each, "lte": each}} for each in (1, 3)]}),
    ("any_of", [2**53, 2**60], {"key": "a", "match": {"any": [2**53, 2**60]}}),
    ("any_of", [False], {"key": "a", "match": {"value": False}}),
    ("none_of", ["red"], {"must_not": [{"key": "a", "match": {"any": ["red"]}}]}),
    ("range", {"gt": 0, "lte": 1.5}, {"key": "a", "range": {"gt": 0.0, "lte": 1.5}}),
    ("exists", True, {"must_not": [{"is_empty": {"key": "a"}}]}),
    ("exists", False, {"is_empty": {"key": "a"}}),
    ("is_empty", True, {"is_empty": {"key": "a"}}),
    ("is_empty", False, {"must_not": [{"is_empty": {"key": "a"}}]}),
    ("is_null", True, {"is_null": {"key": "a"}}),
    ("is_null", False, {"must_not": [{"is_null": {"key": "a"}}]}),
    ("prefix", "re", {"key": "a", "match": {"prefix": "re"}}),
    (
        "any_of",
        [True, 1, "red", 0, False],
        {
            "should": [
                {"key": "a", "match": {"any": ["red"]}},
                {"should": [{"key": "a", "range": {"gte": each, "lte": each}} for each in (0, 1)]},
                {"key": "a", "match": {"value": False}},
                {"key": "a", "match": {"value": True}},
            ]
        },
    ),
    (
        "date_range",
        {"gte": "2026-01-01T00:00:00.123456+02:00", "lt": 0},
        {"key": "a", "range": {"gte": "2025-12-31T22:00:00.123456Z", "lt": "1970-01-01T00:00:00.000000Z"}},
    ),
    (
        "date_range",
        {"gt": "0001-01-01T00:00:00Z", "lte": "9999-12-31T23:59:59Z"},
        {"key": "a", "range": {"gt": "0001-01-01T00:00:00.000000Z", "lte": "9999-12-31T23:59:59.000000Z"}},
    ),
]


@pytest.mark.parametrize(("op", "value", "expected"), CONDITIONS)
def test_a_filter_is_one_condition(op: str, value: Any, expected: dict[str, Any]) -> None:
    """Each op has its one condition, which a `must` list can hold; lists are asked by type, for Qdrant mixes none."""
    wanted = FILTER.validate_python({"field": "a", "op": op, "value": value})
    assert condition(wanted) == expected


INTEGER, KEYWORD = frozenset({Ask.INTEGER, Ask.INTEGER_RANGE}), frozenset({Ask.KEYWORD})


def test_a_dotted_path_goes_through_one_list_more_than_it_names() -> None:
    """Brackets name a list; those spellings that an index answers are asked alone, and the others say nothing."""

    def paths(field: str, indexed: Indexed) -> list[str]:
        asked = condition(read({"field": field, "op": "any_of", "value": ["x"]}), indexed)
        return [each["key"] for each in asked.get("should", [asked])]

    assert paths("v.a", {}) == ["v.a", "v[].a"]
    assert paths("v.a.b", {}) == ["v.a.b", "v[].a.b", "v.a[].b"]
    assert paths("v[].a", {}) == ["v[].a"]
    assert paths("v[].a[]", {}) == ["v[].a"]
    assert paths('"a.b".c', {}) == ['"a.b".c', '"a.b"[].c']
    assert paths("v.a", {"v[].a": KEYWORD}) == ["v[].a"]
    assert paths("v.a", {"v.a": KEYWORD}) == ["v.a"]
    assert paths("v.a", {"v.a": INTEGER, "v[].a": KEYWORD}) == ["v[].a"]
    assert paths("v.a", {"v.a": INTEGER}) == ["v.a", "v[].a"]
    [inside] = condition(
        read({"field": "v", "op": "nested", "value": [{"field": "m.a", "op": "eq", "value": "x"}]}),
        {"v[].m[].a": KEYWORD},
    )["nested"]["filter"]["must"]
    assert inside["key"] == "m[].a"
    # The index of an object in a list has one name: strict mode would refuse the other spelling.
    assert "nested" in condition(read({"field": "m.v", "op": "nested", "value": [IN_TITLE]}))


def test_an_index_of_integers_answers_a_list_of_them_at_once() -> None:
    """It has 1.0 as 1; without it, each number is a condition of its own."""
    wanted = read({"field": "a", "op": "none_of", "value": [1, 2**60]})
    listed = {"must_not": [{"key": "a", "match": {"any": [1, 2**60]}}]}
    assert condition(wanted, {"a": INTEGER}) == listed
    assert count_conditions(condition(wanted, {"a": frozenset({Ask.FLOAT})})) == 2


def test_many_numbers_without_an_index_are_ranges_in_ranges() -> None:
    """A record that has none of them is tried by few conditions; an index has each number at once."""
    wanted = read({"field": "a", "op": "any_of", "value": [*range(0, 300, 3)]})
    apart = condition(wanted)
    assert apart["must"][0] == {"key": "a", "range": {"gte": 0, "lte": 297}}
    assert len(apart["must"][1]["should"]) == 4
    assert count_conditions(condition(wanted, {"a": frozenset({Ask.FLOAT})})) == 100


@pytest.mark.parametrize("base", [2**53, -(2**53), 2**57, -(2**57), 2**62 - 2048, -(2**63) + 4096, 2**63 - 4096])
def test_integers_beyond_doubles_are_compared_exactly(base: int) -> None:
    """Each bound next to each integer; a double is within where all integers that round to it are."""
    step = max(2, int(ulp(float(base))))
    near = [base + each for each in (-step, -step // 2, -3, -1, 0, 1, 2, step // 2, step // 2 + 1, step, 2 * step)]
    checks = {"gt": int.__gt__, "gte": int.__ge__, "lt": int.__lt__, "lte": int.__le__}
    for bound, (name, check) in product(near, checks.items()):
        wanted = read({"field": "a", "op": "range", "value": {name: bound}})
        for value in near:
            assert matches_filter(wanted, {"a": value}) is check(value, bound), (name, bound, value)
        for double in map(float, near):
            around = range(int(double) - step, int(double) + step + 1)
            expected = all(check(each, bound) for each in around if float(each) == double)
            assert matches_filter(wanted, {"a": double}) is expected, (name, bound, double)


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
        ("filters.0.any_of.0.field", "title"),
        ("filters.0.any_of.1.field", "variants"),
        (f"{inside}.0.none_of.0.field", "variants[].title"),
        (f"{inside}.1.all_of.0.field", "variants[].title"),
        (f"{inside}.1.all_of.1.field", "variants[].title"),
    ]


def test_a_whole_title_is_asked_in_groups_too() -> None:
    """But not in the objects of an array, whose title is another field."""
    moved = on_index(read({"none_of": [IN_TITLE, NESTED]}), {WHOLE_TITLE: frozenset()})
    fields = [each.field for _, each in on_fields([moved], "")]
    assert fields == [WHOLE_TITLE, "variants", *["variants[].title"] * 3]


WRITTEN, COMPOSED = "Mu\u0308ller", "M\u00fcller"
UUID = "0B9A1CBE-1AD2-4C6E-9C0C-1F5B9D1D7D01"


@pytest.mark.parametrize(
    ("op", "value", "misses"),
    [
        ("eq", WRITTEN, False),
        ("eq", COMPOSED, False),
        ("any_of", ["x", WRITTEN], False),
        ("none_of", ["x", COMPOSED], True),
        ("prefix", WRITTEN[:3], False),
    ],
)
@pytest.mark.parametrize("field", ["title", "text", "brand"])
def test_a_text_is_found_in_every_form(field: str, op: str, value: Any, misses: bool) -> None:
    """With its marks in the letters or behind them, whichever the filter has, in the objects of lists, too."""
    wanted = read({"field": field, "op": op, "value": value})
    inside = read({"field": "variants", "op": "nested", "value": [{"field": field, "op": op, "value": value}]})
    for kept in (COMPOSED, WRITTEN):
        assert matches_filter(wanted, {field: kept}) is not misses
        assert matches_filter(inside, {"variants": [{field: kept}]}) is not misses
    assert matches_filter(wanted, {field: "Miller"}) is misses
    assert all(form in str(condition(each)) for form in (WRITTEN[:3], COMPOSED[:2]) for each in (wanted, inside))


def test_a_uuid_is_found_in_either_case() -> None:
    """Its letters may be small or capital; those of any other text are told apart."""
    for value in (UUID, UUID.lower()):
        wanted = read({"field": "a", "op": "any_of", "value": [value]})
        assert all(matches_filter(wanted, {"a": kept}) for kept in (UUID, UUID.lower()))
    assert not matches_filter(read({"field": "a", "op": "eq", "value": UUID[1:]}), {"a": UUID[1:].lower()})
