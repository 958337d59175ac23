"""Which index answers which filter: the answer of the stand-in, which has it from Qdrant, is the same."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from operators.access.filters import condition, count_conditions, on_fields
from operators.access.indexes import Ask, answers, asks, missing_indexes, on_index
from schemas.document import WHOLE_TITLE
from schemas.filters import AnyOf, Eq, Exists, FieldFilter, Group, Nested, Prefix
from schemas.query import QueryEvent
from tests.qdrant_server.unindexed import one_unindexed

UUID = "0b9a1cbe-1ad2-4c6e-9c0c-1f5b9d1d7d01"
SCALARS = st.sampled_from(["a", UUID, True, 1, 2**60, 1.5])
LISTED = st.sampled_from(["a", UUID, False, 1, 2**60])
BOUNDS = st.sampled_from([{"gt": 1.0}, {"gte": 0, "lt": 7}])


def read(op: str, value: Any) -> FieldFilter:
    """A filter on `f`."""
    event = QueryEvent.model_validate({"query_id": "q", "filters": [{"field": "f", "op": op, "value": value}]})
    [(_, wanted)] = on_fields(event.filters, "filters")
    return wanted


FILTERS = st.one_of(
    st.builds(read, st.just("eq"), SCALARS),
    st.builds(read, st.sampled_from(["any_of", "none_of"]), st.lists(LISTED, min_size=1, max_size=4)),
    st.builds(read, st.sampled_from(["range", "date_range"]), BOUNDS),
    st.builds(read, st.just("range"), st.just({"lt": 2**60})),
    st.builds(read, st.sampled_from(["exists", "is_empty", "is_null"]), st.booleans()),
    st.builds(read, st.just("prefix"), st.just("a")),
)
SCHEMAS = st.one_of(
    st.none(),
    st.sampled_from(["float", "bool", "datetime", "uuid", "geo"]).map(lambda kind: {"type": kind}),
    st.builds(lambda prefix: {"type": "keyword", **prefix}, st.sampled_from([{}, {"prefix": True}, {"prefix": False}])),
    st.builds(
        lambda lookup, range_: {"type": "integer", **lookup, **range_},
        st.sampled_from([{}, {"lookup": False}, {"lookup": True}]),
        st.sampled_from([{}, {"range": False}, {"range": True}]),
    ),
    st.builds(lambda phrases: {"type": "text", **phrases}, st.sampled_from([{}, {"phrase_matching": True}])),
)


@given(FILTERS, SCHEMAS)
def test_a_filter_is_answered_where_qdrant_takes_it(wanted: FieldFilter, schema: dict[str, Any] | None) -> None:
    """Every filter on every index."""
    indexed = {} if schema is None else {"f": answers({"data_type": schema["type"], "params": schema})}
    where = {"must": [condition(wanted, indexed)]}
    refused = one_unindexed(where, {} if schema is None else {"f": schema})
    assert (missing_indexes(wanted, indexed) is None) == (refused is None)


@pytest.mark.parametrize("kind", ["any_of", "all_of", "none_of"])
@pytest.mark.parametrize("field", ["f", "v[].f", "v[].w[].f"])
def test_each_filter_in_a_group_needs_its_index(kind: str, field: str) -> None:
    """Also one on an object of an array: the server names the same field, and takes the filter once it is there."""
    leaf = read("eq", "a")
    group = Group.model_validate({kind: [leaf, leaf]})
    filters = [group]
    for array in reversed(field.removesuffix("f").split("[].")[:-1]):
        filters = [Group(all_of=[Nested(field=array, op="nested", value=[*filters])])]
    where = {"must": [condition(each) for each in filters]}
    lacking = [each.field for _, each in on_fields(filters, "") if missing_indexes(each, {}) is not None]
    refused = one_unindexed(where, {})
    assert refused is not None
    assert lacking == [field, field] == [refused[0]] * 2
    indexed = {field: answers({"data_type": "keyword"})}
    assert all(missing_indexes(each, indexed) is None for _, each in on_fields(filters, ""))
    assert one_unindexed(where, {field: "keyword"}) is None


def test_an_index_that_says_no_more_than_its_type_has_the_defaults() -> None:
    """As Qdrant describes one that was created by its type alone."""
    assert answers({"data_type": "integer", "points": 1}) == {Ask.INTEGER, Ask.INTEGER_RANGE}
    assert answers({"data_type": "keyword"}) == {Ask.KEYWORD}
    assert answers({"data_type": "another"}) == frozenset()


@pytest.mark.parametrize(
    "wanted", [Eq(field="title", op="eq", value="a"), Prefix(field="title", op="prefix", value="a")]
)
def test_a_title_as_a_whole_is_asked_where_its_words_can_not_answer(wanted: Any) -> None:
    """In strict mode alone: there, and in collections that have it."""
    indexed = {"title": frozenset({Ask.TEXT}), WHOLE_TITLE: frozenset({Ask.KEYWORD, Ask.PREFIX})}
    assert on_index(wanted, indexed).field == WHOLE_TITLE
    assert missing_indexes(on_index(wanted, indexed), indexed) is None
    assert on_index(wanted, {"title": frozenset({Ask.TEXT})}) is wanted
    assert on_index(wanted, None) is wanted


def test_whether_there_is_a_title_any_index_tells() -> None:
    """It stays with the title."""
    wanted = Exists(field="title", op="exists", value=True)
    assert on_index(wanted, {"title": frozenset({Ask.TEXT}), WHOLE_TITLE: frozenset({Ask.KEYWORD})}) is wanted
    assert asks(AnyOf(field="f", op="any_of", value=[True, "a"])) == [frozenset({Ask.BOOL}), frozenset({Ask.KEYWORD})]


def test_conditions_are_counted_at_the_leaves() -> None:
    """As Qdrant counts them."""
    leaf = {"key": "a", "match": {"value": 1}}
    inner = {"should": [leaf, {"is_empty": {"key": "a"}}]}
    assert count_conditions({"must": [leaf, inner], "must_not": [{"has_id": [1, 2]}]}) == 4
    assert count_conditions({"must": []}) == 0
