"""The fields of documents by the names that their senders have, in queries, results and errors."""

import copy
from collections.abc import Mapping
from typing import Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import TypeAdapter

from operators.access.indexes import check_indexes
from operators.mapping.own_names import OwnNames
from operators.mapping.rows import rename_columns
from schemas.errors import FieldError, InputError
from schemas.filters import FieldFilter

CMS: Final = {"id": "nid", "title": "headline", "text": "content.body", "own_priority": "priority", "EAN": "EAN code"}
NAMES: Final = OwnNames(CMS, whole_ids=True)

OURS: Final = ("title", "text", "lang", "own_title", "place.lat")
THEIRS: Final = ("headline", "title", "content.body", "content.head", "content", "Head line")
COLUMNS: Final = st.lists(st.sampled_from(THEIRS), min_size=len(OURS), max_size=len(OURS), unique=True).map(
    lambda own: dict(zip(OURS, own, strict=True))
)
APART: Final = COLUMNS.filter(lambda columns: "content" not in columns.values())
"""No field is an object that another one is inside of."""

PATHS: Final = st.sampled_from([*THEIRS[:-1], '"Head line"', "content.body.x", "headline.x", "price", "text"])
FILTERS: Final = st.recursive(
    st.fixed_dictionaries({"field": PATHS, "op": st.just("eq"), "value": PATHS}),
    lambda inner: (
        st.fixed_dictionaries({"any_of": st.lists(inner, max_size=2)})
        | st.fixed_dictionaries({"field": PATHS, "op": st.just("nested"), "value": st.lists(inner, max_size=2)})
    ),
    max_leaves=5,
)
VALUES: Final = st.integers() | st.text(max_size=3) | st.lists(st.integers(), max_size=2)


def spell(columns: Mapping[str, str]) -> dict[str, str]:
    """The index's field by its own path."""
    return {f'"{own}"' if " " in own else own: name for name, own in columns.items()}


def ours(path: str, columns: Mapping[str, str]) -> str:
    """The path by plain reading: cut at each point from behind, until its beginning is known."""
    known, parts = spell(columns), path.split(".")
    for length in range(len(parts), 0, -1):
        if (begin := ".".join(parts[:length])) in known:
            return ".".join([known[begin], *parts[length:]])
    return path


def renamed(one: dict[str, Any], columns: Mapping[str, str]) -> dict[str, Any]:
    """The filter by plain reading: what is within `nested` has names of its own."""
    if "any_of" in one:
        return {"any_of": [renamed(each, columns) for each in one["any_of"]]}
    return {**one, "field": ours(one["field"], columns)}


@given(columns=COLUMNS, filters=st.lists(FILTERS, max_size=3), path=PATHS)
def test_every_field_of_a_query_is_renamed_once(
    columns: dict[str, str], filters: list[dict[str, Any]], path: str
) -> None:
    """Those of filters in groups, of orders, groups and wishes; values and metadata stay, and so does the event."""
    told = {"text": path, "namespace": path, "metadata": {"field": path}, "vector": [1.0]}
    event = {**told, "filters": filters, "group_by": path, "order_by": {"field": path}, "understood": [{"field": path}]}
    event["facets"] = [{"field": path, "ranges": [{"gte": 1}]}]
    before = copy.deepcopy(event)
    own = ours(path, columns)
    assert OwnNames(columns).read(event) == {
        **told,
        "filters": [renamed(each, columns) for each in filters],
        "group_by": own,
        "order_by": {"field": own},
        "understood": [{"field": own}],
        "facets": [{"field": own, "ranges": [{"gte": 1}]}],
    }
    assert event == before


@given(
    columns=APART,
    values=st.fixed_dictionaries({}, optional=dict.fromkeys(["headline", "title", "Head line", "price"], VALUES)),
    inside=st.dictionaries(st.sampled_from(["body", "head", "x"]), VALUES, min_size=1),
)
def test_a_document_returns_as_it_was_sent(
    columns: dict[str, str], values: dict[str, Any], inside: dict[str, Any]
) -> None:
    """A row comes out of a result as it went into the index, without fields that a mapped one replaces."""
    row = {**values, "content": inside}
    row = {name: value for name, value in row.items() if name not in columns or name in columns.values()}
    payload = rename_columns(row, columns)
    before = copy.deepcopy(payload)
    [hit] = OwnNames(columns).write({"results": [{"id": "a", "payload": payload}], "warnings": []})["results"]
    assert hit == {"id": "a", "payload": row}
    assert payload == before


@given(columns=COLUMNS, path=st.sampled_from(OURS))
def test_a_name_of_the_index_holds_where_no_field_of_the_sender_has_it(columns: dict[str, str], path: str) -> None:
    """Else it means the field that its sender calls so."""
    read = OwnNames(columns).read({"group_by": path})["group_by"]
    assert read == (path if path not in columns.values() else spell(columns)[path])


def test_a_name_needs_no_quotes() -> None:
    """One of the columns is known as it is written; every other path is read as such."""
    asked = {
        "group_by": "EAN code",
        "order_by": {"field": '"EAN code"'},
        "return": {"fields": ["EAN code", "EAN.code"]},
    }
    assert NAMES.read(asked) == {
        "group_by": "EAN",
        "order_by": {"field": "EAN"},
        "return": {"fields": ["EAN", "EAN.code"]},
    }


def test_whoever_asks_for_an_object_gets_what_was_taken_out_of_it() -> None:
    """A mapped field from inside of it is asked for, too; of a field that has two roles, both are."""
    fields = NAMES.read({"return": {"fields": ["content", "headline", 5, "title"]}})["return"]["fields"]
    assert fields == ["content", "text", "title", 5, "title"]
    both = OwnNames({"id": "path", "title": "path"})
    assert both.read({"return": {"fields": ["path"]}, "group_by": "path"}) == {
        "return": {"fields": ["id", "title"]},
        "group_by": "id",
    }


def test_a_result_has_its_senders_names_everywhere() -> None:
    """Those of documents, of further ones in their groups, of wishes, facets and warnings; whole numbers are ids."""
    near = {"id": "41", "text": "b"}
    member = {"id": "07", "payload": {"title": "c"}}
    group = {"key": "x", "count": 2, "results": [member]}
    hit = {"id": "40", "payload": {"title": "a", "own_priority": 1, "EAN": "5", "url": "u"}, "group": group}
    wishes = [{"kind": "order", "field": "own_priority"}, {"kind": "order", "field": None}, {"kind": "exclusion"}]
    said = ["no results: no document has the field `titel` of filters.0; did you mean `title`?", "title: `title`"]
    said.append(
        "no results: no document passes filters.0: `own_priority` is indexed as keyword: the value must be a string"
    )
    facets = [{"field": "own_priority", "values": []}]
    result: dict[str, Any] = {"results": [{**hit, "neighbours": {"before": [near], "after": []}}], "understood": wishes}
    result |= {"warnings": said, "facets": facets}
    before = copy.deepcopy(result)
    assert NAMES.write(result) == {
        "results": [
            {
                "id": 40,
                "payload": {"headline": "a", "priority": 1, "EAN code": "5", "url": "u"},
                "group": {**group, "results": [{"id": "07", "payload": {"headline": "c"}}]},
                "neighbours": {"before": [{"id": 41, "text": "b"}], "after": []},
            }
        ],
        "understood": [{"kind": "order", "field": "priority"}, *wishes[1:]],
        "facets": [{"field": "priority", "values": []}],
        "warnings": [said[0].replace("`title`", "`headline`"), said[1], said[2].replace("own_priority", "priority")],
    }
    assert result == before


@pytest.mark.parametrize(
    ("reason", "said"),
    [
        ("id: missing; title: wrong (5)", "nid: missing; headline: wrong (5)"),
        (
            "title: a text is expected (5); labels.0: a text (1)",
            "headline: a text is expected (5); labels.0: a text (1)",
        ),
        ("own_priority.x: wrong ('title: a')", "priority.x: wrong ('title: a')"),
        (
            "an upsert needs `text`, `title`, or its embedding as `vector`",
            "an upsert needs `content.body`, `headline`, or its embedding as `vector`",
        ),
        ("the title is gone", "the title is gone"),
    ],
)
def test_a_refused_document_is_told_of_its_own_fields(reason: str, said: str) -> None:
    """By the paths of its problems, and by names in backticks; values are quoted as they came."""
    assert NAMES.reword(reason) == said


def test_an_error_of_a_step_says_the_senders_names() -> None:
    """The wrong field, and those that would be right; any other error passes as it is."""

    def step(known: list[str]) -> str:
        if known == ["other"]:
            raise InputError(FieldError("p", "w", "title").kind, "title: wrong", "title")
        if known:
            raise FieldError("order_by.field", "nothing to order by", "title", known)
        return "done"

    named = NAMES.around(step)
    assert named([]) == "done"
    with pytest.raises(InputError) as caught:
        named(["own_priority", "created_at"])
    assert str(caught.value) == "order_by.field: nothing to order by; there are created_at, priority ('headline')"
    assert caught.value.field == "order_by.field"
    with pytest.raises(InputError, match=r"^title: wrong$"):
        named(["other"])


def test_a_refusal_of_strict_mode_says_the_name_of_the_sender() -> None:
    """The field of a deletion's filter, which the index calls otherwise."""
    wanted = TypeAdapter(FieldFilter).validate_python({"field": "own_priority", "op": "eq", "value": 1})
    with pytest.raises(FieldError) as refused:
        check_indexes([("filters.0.field", wanted)], {})
    assert str(refused.value).endswith("('own_priority')")
    assert NAMES.reword(str(refused.value)) == str(refused.value.rename(NAMES.own))
