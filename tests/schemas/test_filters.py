"""Filters of a query: what can be asked of a field, and how a mistake is named."""

from typing import Any

import pytest
from pydantic import BaseModel, ConfigDict, ValidationError

from schemas.errors import InputError
from schemas.event import validate
from schemas.filters import (
    MAX_FILTERS,
    MAX_LEVELS,
    MAX_VALUES,
    AnyOf,
    Bounds,
    DateRange,
    Eq,
    Filters,
    Group,
    IsEmpty,
    IsNull,
    Nested,
    Range,
    names_of,
)
from schemas.query import OrderBy


class Query(BaseModel):
    """An event with filters and an order."""

    model_config = ConfigDict(strict=True)

    filters: Filters = []
    order_by: OrderBy | None = None


def asked(op: str, value: Any, field: str = "colour", **more: Any) -> Any:
    """The one filter of a query that asks so."""
    return Query.model_validate({"filters": [{"field": field, "op": op, "value": value, **more}]}).filters[0]


def refusal(**query: Any) -> str:
    """The message about a query with these fields."""
    with pytest.raises(InputError) as caught:
        validate(Query, query)
    assert str(caught.value).startswith(f"{caught.value.field}: ")
    return str(caught.value)


@pytest.mark.parametrize(
    ("op", "value"),
    [
        ("eq", "red"),
        ("eq", ""),
        ("eq", True),
        ("eq", 1),
        ("eq", 1.0),
        ("eq", 2**63 - 1),
        ("eq", -(2**63)),
        ("eq", -1e308),
        ("any_of", ["red", 1, True]),
        ("none_of", [0] * MAX_VALUES),
        ("exists", False),
        ("prefix", "r"),
    ],
)
def test_a_value_is_kept_as_it_is_written(op: str, value: Any) -> None:
    """Values of every op keep their value and their type: 1, 1.0 and true stay three things."""
    kept = asked(op, value).value
    assert (kept, type(kept)) == (value, type(value))
    if isinstance(value, list):
        assert [type(each) for each in kept] == [type(each) for each in value]


def test_bounds_are_those_that_are_given() -> None:
    """One bound is enough, 0 is one, null is none, and an integer bound is a number like any other."""
    assert asked("range", {"gt": 0, "lte": None}) == Range(field="colour", op="range", value=Bounds(gt=0.0))
    assert asked("range", {"gte": 1, "lt": 2.5}).value.given == {"gte": 1.0, "lt": 2.5}


def test_a_time_is_read_in_either_form() -> None:
    """RFC 3339 with an offset and Unix seconds are the same bound."""
    read = asked("date_range", {"gte": "1970-01-01T02:00:01.5+02:00", "lte": 1})
    assert isinstance(read, DateRange)
    assert read.value.given == {"gte": 1.5, "lte": 1.0}


@pytest.mark.parametrize(
    ("op", "value", "said"),
    [
        ("eq", None, "filters.1.value: a string, a boolean, an integer of 64 bits or a finite number"),
        ("eq", ["red"], "filters.1.value: a string"),
        ("eq", {"a": 1}, "filters.1.value: a string"),
        ("eq", 2**63, "is expected (9223372036854775808)"),
        ("eq", -(2**63) - 1, "is expected (-9223372036854775809)"),
        ("eq", float("nan"), "is expected (NaN)"),
        ("eq", float("inf"), "is expected (Infinity)"),
        ("any_of", [], "filters.1.value: 1 values or more are expected"),
        ("any_of", "red", "filters.1.value: Input should be a valid list ('red')"),
        ("any_of", [1, 1.5], "filters.1.value.1: a string, a boolean or an integer of 64 bits is expected"),
        ("none_of", [0] * (MAX_VALUES + 1), "filters.1.value: 1000 values or fewer are expected"),
        ("none_of", [2**64], "filters.1.value.0: a string, a boolean or an integer of 64 bits"),
        ("range", {}, "filters.1.value: one of gt, gte, lt and lte must be given"),
        ("range", {"lt": None}, "filters.1.value: one of gt, gte, lt and lte must be given"),
        ("range", {"gt": 1, "gte": 2}, "filters.1.value: gt and gte are both given"),
        ("range", {"lt": 1, "lte": 2, "gt": 0}, "filters.1.value: lt and lte are both given"),
        ("range", {"gt": True}, "filters.1.value.gt: Input should be a valid number (true)"),
        ("range", {"gt": "1"}, "filters.1.value.gt: Input should be a valid number ('1')"),
        ("range", {"gt": float("inf")}, "filters.1.value.gt: Input should be a finite number"),
        ("range", {"max": 1}, "filters.1.value.max: no such key; there are gt, gte, lt, lte"),
        ("date_range", {"gtt": 1}, "filters.1.value.gtt: no such key; did you mean gt"),
        ("date_range", {"lt": "2026-01-01T00:00:00"}, "filters.1.value.lt: a time needs an offset"),
        ("date_range", {"lt": "soon"}, "filters.1.value.lt: not an RFC 3339 time ('soon')"),
        ("date_range", {"lt": 1, "lte": 1}, "filters.1.value: lt and lte are both given"),
        ("exists", 1, "filters.1.value: Input should be a valid boolean (1)"),
        ("prefix", "", "filters.1.value: String should have at least 1 character"),
        ("prefix", 1, "filters.1.value: Input should be a valid string"),
        ("matches", "red", "one of eq, any_of, none_of, range, date_range, exists, is_empty, is_null, prefix"),
        ("is_null", None, "filters.1.value: Input should be a valid boolean"),
    ],
)
def test_a_wrong_value_is_named(op: str, value: Any, said: str) -> None:
    """A value that the op can't have is one problem, under the filter's place in the query, with the value."""
    message = refusal(filters=[{"field": "colour", "op": "eq", "value": 1}, {"field": "x", "op": op, "value": value}])
    assert message.startswith("filters.1")
    assert said in message
    assert message.count("filters.") == 1


@pytest.mark.parametrize("field", ["a", "a.b", "a-b", "-a", "1", "größe", "标题", "m._a", "x" * 256])
def test_a_field_is_a_plain_path(field: str) -> None:
    """Letters of any script, digits, underscores inside, hyphens and dots between names make a field."""
    read = asked("eq", 1, field)
    assert isinstance(read, Eq)
    assert read.field == field
    assert OrderBy(field=field).field == field


@pytest.mark.parametrize(
    ("field", "said"),
    [
        ("", "String should have at least 1 character"),
        ("x" * 257, "String should have at most 256 characters"),
        *((name, "letters, digits, _ and - are expected") for name in ("a b", "[].a", "a[0]", '"a', "a/b", "a\n")),
        *(
            (name, "letters, digits, _ and - are expected")
            for name in ("a..b", ".a", "a.", "e\u0301", '"a".', '"a\\"', '""', '"a\n"')
        ),
        *(
            (name, "names that start with an underscore are the index's own")
            for name in ("_created", "_", "_a.b", '"_a"')
        ),
    ],
)
def test_another_field_is_refused(field: str, said: str) -> None:
    """A name that the index's path syntax would read otherwise, or the index's own field, is named as wrong."""
    message = refusal(filters=[{"field": field, "op": "exists", "value": True}])
    assert message.startswith("filters.0.field: ")
    assert said in message
    assert said in refusal(order_by={"field": field})


def test_the_list_of_a_path_stands_in_brackets() -> None:
    """In filters: brackets at the end say nothing, and results are neither ordered nor grouped by several values."""
    for field, kept in (("a[].b", "a[].b"), ("a[].b[]", "a[].b"), ("a[]", "a"), ('"a"[]."b c"', 'a[]."b c"')):
        assert asked("eq", 1, field).field == kept
    assert "letters, digits, _ and - are expected" in refusal(order_by={"field": "a[].b"})


def test_what_is_missing_needs_no_value() -> None:
    """`is_empty` and `is_null` are true where nothing is said, and a bound keeps each digit of an integer."""
    read = Query.model_validate({"filters": [{"field": "a", "op": op} for op in ("is_empty", "is_null")]})
    assert [each.value for each in read.filters if isinstance(each, IsEmpty | IsNull)] == [True, True]
    [bounds] = Query.model_validate({"filters": [{"field": "a", "op": "range", "value": {"lt": 2**53 + 1}}]}).filters
    assert '"lt":9007199254740993' in bounds.model_dump_json()


def test_a_filter_has_three_fields() -> None:
    """A missing field and one too many are named; filters are a list of at most 64."""
    assert "filters.0.field: missing" in refusal(filters=[{"op": "eq", "value": 1}])
    assert "filters.0.not" in refusal(filters=[{"field": "a", "op": "eq", "value": 1, "not": True}])
    several = [{"field": "a", "op": "any_of", "value": [1]}] * (MAX_FILTERS + 1)
    assert "64 values or fewer are expected" in refusal(filters=several)
    assert Query.model_validate({"filters": several[1:]}).filters == [AnyOf(field="a", op="any_of", value=[1])] * 64


def test_an_order_ascends_unless_it_says_so() -> None:
    """The direction is asc or desc, asc when missing."""
    assert Query.model_validate({"order_by": {"field": "n"}}).order_by == OrderBy(field="n", direction="asc")
    assert Query.model_validate({"order_by": {"field": "n", "direction": "desc"}}).order_by != OrderBy(field="n")
    assert "order_by.direction" in refusal(order_by={"field": "n", "direction": "down"})
    assert "order_by.nulls" in refusal(order_by={"field": "n", "nulls": "last"})


def test_a_filter_never_changes() -> None:
    """A filter is frozen."""
    with pytest.raises(ValidationError):
        asked("eq", 1).value = 2


RED = {"field": "colour", "op": "eq", "value": "red"}


@pytest.mark.parametrize(
    ("field", "spelled", "names"),
    [
        ('"part number"', '"part number"', ["part number"]),
        ('metadata."page/no".n', 'metadata."page/no".n', ["metadata", "page/no", "n"]),
        ('"a.b"."c"', '"a.b".c', ["a.b", "c"]),
        ('"title"', "title", ["title"]),
    ],
)
def test_any_name_may_stand_in_quotes(field: str, spelled: str, names: list[str]) -> None:
    """Double quotes hold spaces and dots; a name that needs none loses them, so that one field has one spelling."""
    assert asked("eq", 1, field).field == spelled
    assert list(names_of(spelled)) == names


@pytest.mark.parametrize("kind", ["any_of", "all_of", "none_of"])
def test_a_group_holds_filters(kind: str) -> None:
    """Each kind of group may stand for a filter, hold groups, and stand in a nested filter."""
    group = {kind: [RED, {"any_of": [RED]}]}
    [read, nested] = Query.model_validate({"filters": [group, {**RED, "op": "nested", "value": [group]}]}).filters
    assert isinstance(read, Group)
    assert (read.kind, len(read.filters)) == (kind, 2)
    assert isinstance(nested, Nested)
    assert nested.value == [read]


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"any_of": []}, "filters.1.any_of: 1 values or more are expected"),
        ({"any_of": [RED], "all_of": [RED]}, "filters.1: one of any_of, all_of and none_of is expected"),
        ({"any_of": [RED, {**RED, "value": None}]}, "filters.1.any_of.1.value: a string"),
        ({"all_of": [{"none_of": [{"x": 1}]}]}, "filters.1.all_of.0.none_of.0: one of eq"),
        ({"any_of": [RED], "field": "colour"}, "filters.1.field: no such key"),
        ({**RED, "op": "nested", "value": []}, "filters.1.value: 1 values or more are expected"),
        ({"none_of": None}, "filters.1.none_of: "),
    ],
)
def test_a_wrong_group_is_named(wrong: Any, said: str) -> None:
    """A fault within groups is one problem, with the path to it."""
    message = refusal(filters=[RED, wrong])
    assert message.startswith(said)
    assert message.count("filters.") == 1


def test_groups_are_bounded() -> None:
    """Conditions count wherever they stand, and levels from within; the innermost list with too many is named."""
    deep: Any = RED
    for _ in range(MAX_LEVELS):
        deep = {"any_of": [deep]}
    assert len(Query.model_validate({"filters": [deep]}).filters) == 1
    assert refusal(filters=[{"any_of": [deep]}]).startswith(f"filters: {MAX_LEVELS + 1} levels of groups")
    assert "filters.0.all_of: " in refusal(filters=[{"all_of": [{"any_of": [deep]}]}])
    half = {"any_of": [RED] * (MAX_FILTERS // 2)}
    assert len(Query.model_validate({"filters": [half, half]}).filters) == 2
    assert refusal(filters=[half, half, RED]).startswith(f"filters: {MAX_FILTERS + 1} conditions in groups")
    assert refusal(filters=[{"all_of": [half, half, RED]}]).startswith("filters.0.all_of: ")
