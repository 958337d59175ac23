"""Our names in collections of other tools: requests go out with theirs, payloads come in with ours."""

import copy
import itertools
from collections.abc import Mapping
from typing import Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import TypeAdapter

from operators.access.filters import condition, on_fields
from operators.access.indexes import Ask
from operators.query.field_map import SAME, FieldMap
from operators.query.returned import hide, is_hidden
from schemas.document import CREATED, NAMESPACE
from schemas.filters import AnyFilter, FieldFilter, Filter

FILTER: Final[TypeAdapter[AnyFilter]] = TypeAdapter(Filter)

UUID = "0b9a1cbe-1ad2-4c6e-9c0c-1f5b9d1d7d01"
MAPPED = FieldMap({"text": "page_content", NAMESPACE: "metadata.tenant", "created_at": "metadata.date"})
TENANT = {"key": NAMESPACE, "match": {"value": "acme"}}


def test_conditions_have_their_names_at_every_depth() -> None:
    """Fields, their absence, and the index's own field of a time."""
    inner = {"should": [{"is_empty": {"key": NAMESPACE}}, {"must_not": [{"key": "text", "match": {"text": "a"}}]}]}
    where = {"must": [TENANT, inner, {"has_id": [1]}], "must_not": [{"key": CREATED, "range": {"gte": 1}}]}
    tenant = "metadata.tenant"
    moved = {"should": [{"is_empty": {"key": tenant}}, {"must_not": [{"key": "page_content", "match": {"text": "a"}}]}]}
    assert MAPPED.filter(where) == {
        "must": [{"key": tenant, "match": {"value": "acme"}}, moved, {"has_id": [1]}],
        "must_not": [{"key": "metadata.date", "range": {"gte": 1}}],
    }


def test_a_search_has_their_names_everywhere() -> None:
    """Its filter, the fields that it wants, the documents that IDF counts, and the text that the server ranks."""
    body = {
        "query": {"text": "a"},
        "using": "text",
        "filter": {"must": [TENANT]},
        "with_payload": ["text", "importance"],
        "params": {"idf": {"corpus": {"must": [TENANT]}}, "exact": True},
    }
    place = {"must": [{"key": "metadata.tenant", "match": {"value": "acme"}}]}
    assert MAPPED.search(body) == {
        "query": {"text": "a"},
        "using": "page_content",
        "filter": place,
        "with_payload": ["page_content", "importance"],
        "params": {"idf": {"corpus": place}, "exact": True},
    }
    assert MAPPED.order({"key": CREATED, "direction": "desc"}) == {"key": "metadata.date", "direction": "desc"}


def test_payloads_have_our_names() -> None:
    """A mapped field is moved, and everything else stays where it is."""
    payload = {"page_content": "a", "metadata": {"tenant": "acme", "date": 1_700_000_000, "source": "web"}, "n": 1}
    before = copy.deepcopy(payload)
    assert MAPPED.payload("p", payload) == {
        "text": "a",
        NAMESPACE: "acme",
        "created_at": "2023-11-14T22:13:20.000Z",
        "metadata": {"source": "web"},
        "n": 1,
    }
    assert payload == before


@pytest.mark.parametrize(
    "hidden", ["subject", "metadata.author", 'metadata."author"', "metadata", "meta", "text", "blob", "details.cost"]
)
def test_a_hidden_field_is_hidden_by_each_of_its_names(hidden: str) -> None:
    """By our name, by the collection's, and with all that it is inside of: its value is in no part of a payload."""
    fields = FieldMap({"subject": "metadata.author", "text": "blob#text", "details": "inner.details"})
    values = {"subject": "lovelace", "text": "words", "details.cost": "12"}
    gone = {"metadata": "subject", 'metadata."author"': "subject", "metadata.author": "subject", "blob": "text"}
    found = {
        "metadata": {"author": "lovelace"},
        "blob": '{"text": "words", "n": 1}',
        "inner": {"details": {"cost": "12", "size": 3}},
    }
    seen = str(hide(fields.payload("p", found), fields.every_name([hidden])))
    for name, value in values.items():
        assert (value in seen) == (name != gone.get(hidden, hidden))
    assert is_hidden("inner.details.cost", fields.every_name(["details"]))
    assert fields.every_name(["other"]) == ("other",)


@pytest.mark.parametrize(
    ("value", "read"),
    [
        (1_700_000_000, "2023-11-14T22:13:20.000Z"),
        (1_700_000_000_250, "2023-11-14T22:13:20.250Z"),
        (1.5, "1970-01-01T00:00:01.500Z"),
        ("2024-01-02", "2024-01-02T00:00:00.000Z"),
        ("2024-01-02T03:04:05", "2024-01-02T03:04:05.000Z"),
        ("2024-01-02T03:04:05+02:00", "2024-01-02T03:04:05+02:00"),
        ("yesterday", "yesterday"),
        (True, True),
        (1e300, 1e300),
        (["2024"], ["2024"]),
    ],
)
def test_times_are_read_in_every_form(value: Any, read: Any) -> None:
    """Seconds, milliseconds, text with an offset and without; anything else is left as it is."""
    assert FieldMap({"created_at": "date"}).payload("p", {"date": value}) == {"created_at": read}
    assert FieldMap().payload("p", {"updated_at": value, "n": 1}) == {"updated_at": read, "n": 1}


@pytest.mark.parametrize(
    ("content", "text"),
    [
        ('{"text": "a", "n": 1}', {"text": "a"}),
        ("{", {}),
        ("[1]", {}),
        (None, {}),
        ('{"text": null}', {}),
        ("[" * 100_000, {}),
        ('{"text": "a", "n": ' + "9" * 5000 + "}", {}),
    ],
)
def test_a_text_in_a_string_of_json_is_read(content: Any, text: dict[str, Any]) -> None:
    """The string stays, and one that can't be read has no text."""
    found = FieldMap({"text": "_node_content#text"}).payload("p", {"_node_content": content})
    assert found == {"_node_content": content, **text}


@pytest.mark.parametrize(
    ("ids", "match", "points"),
    [
        ("integer", {"value": "5"}, [5]),
        ("integer", {"any": ["5", "x", "7"]}, [5, 7]),
        ("integer", {"value": str(2**64)}, []),
        ("integer", {"any": ["007", "0", "9" * 5000, "\u0665", "-1", ""]}, [0]),
        ("uuid", {"value": UUID.upper()}, [UUID]),
        ("uuid", {"value": "5"}, []),
    ],
)
def test_an_id_is_a_points(ids: Any, match: dict[str, Any], points: list[Any]) -> None:
    """A value that is no point's id matches nothing."""
    mapped = FieldMap(ids=ids)
    assert mapped.filter({"must": [{"key": "id", "match": match}]}) == {"must": [{"has_id": points}]}
    assert mapped.payload("7", {"a": 1}) == {"a": 1, "id": "7"}
    assert mapped.fields(["id", "a"]) == ["a"]
    assert mapped.fields(["id"]) is False
    assert mapped.filter({"must_not": [{"is_empty": {"key": "id"}}]}) == {"must_not": [{"has_id": []}]}


def test_documents_without_a_namespace_are_in_one() -> None:
    """A query in another finds nothing, and none sees a namespace that the payload happens to name."""
    mapped = FieldMap(namespace="articles")
    own = {"key": NAMESPACE, "match": {"value": "articles"}}
    assert mapped.filter({"must": [own]}) == {"must": [{"must": []}]}
    assert mapped.filter({"must": [TENANT]}) == {"must": [{"has_id": []}]}
    assert mapped.payload("p", {NAMESPACE: "acme"}) == {NAMESPACE: "articles"}
    assert mapped.fields([NAMESPACE, "a"]) == ["a"]


@pytest.mark.parametrize(
    ("op", "value", "id_matches", "namespace_matches"),
    [
        ("eq", "7", True, False),
        ("eq", "acme", False, True),
        ("eq", 7, False, False),
        ("eq", True, False, False),
        ("any_of", ["7", "acme"], True, True),
        ("any_of", [7], False, False),
        ("any_of", ["acme", 7, True], False, True),
        ("range", {"gte": 1}, False, False),
        ("date_range", {"gte": "2026-01-01T00:00:00Z"}, False, False),
        ("exists", False, False, False),
        ("prefix", "ac", None, True),
        ("prefix", "b", None, False),
    ],
)
def test_what_is_in_no_payload_is_filtered_all_the_same(
    op: str, value: Any, id_matches: bool | None, namespace_matches: bool
) -> None:
    """Of the document 7 in acme, as if its payload had both: a string equals no number, and both are there."""
    mapped = FieldMap(ids="integer", namespace="acme")
    for name, matches in (("id", id_matches), ("namespace", namespace_matches)):
        wanted = on_field({"field": name, "op": op, "value": value})
        assert (mapped.refusal(wanted) is None) == (matches is not None)
        if matches is not None:
            assert holds(mapped.filter({"must": [condition(wanted)]}), 7) == matches
    assert not FieldMap().refusal(on_field({"field": "id", "op": "prefix", "value": "7"}))


def on_field(wanted: dict[str, Any]) -> FieldFilter:
    """A filter on a field."""
    [(_, read)] = on_fields([FILTER.validate_python(wanted)], "")
    return read


def holds(where: Mapping[str, Any], point: int) -> bool:
    """True if a filter on ids of points matches one."""
    if "has_id" in where:
        return point in where["has_id"]
    assert where.keys() <= {"must", "should", "must_not"}
    should = where.get("should")
    return (
        all(holds(each, point) for each in where.get("must", ()))
        and not any(holds(each, point) for each in where.get("must_not", ()))
        and (not should or any(holds(each, point) for each in should))
    )


def test_groups_and_nested_filters_have_their_names() -> None:
    """The fields of a group are mapped; of a nested filter the array is, and its objects' fields are their own."""
    mapped = FieldMap({"colour": 'metadata."Main colour"', "variants": "metadata.variants"}, "uuid", "acme")
    colour = {"field": "colour", "op": "exists", "value": False}
    tenant = {"field": "namespace", "op": "any_of", "value": ["acme"]}
    group = FILTER.validate_python(
        {"any_of": [colour, tenant, {"field": "variants", "op": "nested", "value": [colour]}]}
    )
    counted = {"key": "colour", "values_count": {"gte": 1}}
    assert mapped.filter({"must": [condition(group)]})["must"] == [
        {
            "should": [
                {"is_empty": {"key": 'metadata."Main colour"'}},
                {"must": []},
                {"nested": {"key": "metadata.variants", "filter": {"must": [{"must_not": [counted]}]}}},
            ]
        }
    ]


def test_a_name_in_quotes_is_read_and_written() -> None:
    """A name with spaces or dots is one name on the path to a value, also inside of a string."""
    mapped = FieldMap({"page": 'metadata."page no."', "title": '"a b"#"c d".e'})
    payload = {"metadata": {"page no.": 7, "x": 1}, "a b": '{"c d": {"e": "T"}}'}
    assert mapped.payload("p", payload) == {"metadata": {"x": 1}, "a b": payload["a b"], "page": 7, "title": "T"}
    assert mapped.fields(["page", "title"]) == ['metadata."page no."', '"a b"']


WHOLE: Final = FieldMap({"attributes": "metadata", "maker": "metadata.brand.name", "details": "blob#inner"})


@pytest.mark.parametrize(
    ("name", "path"),
    [
        ("attributes", "metadata"),
        ("attributes.colour", "metadata.colour"),
        ('attributes."page no."', 'metadata."page no."'),
        ("attributes.variants[].size", "metadata.variants[].size"),
        ("maker", "metadata.brand.name"),
        ("maker.short", "metadata.brand.name.short"),
        ("attributesque", "attributesque"),
        ("other.attributes", "other.attributes"),
    ],
)
def test_what_is_inside_of_a_mapped_object_goes_with_it(name: str, path: str) -> None:
    """In filters, orders and the names of indexes, at any depth: by the longest path that is mapped."""
    assert (WHOLE.path(name), WHOLE.name(path)) == (path, name)
    assert WHOLE.order({"key": name})["key"] == path
    where = {"should": [{"key": name, "match": {"value": 1}}, {"nested": {"key": name, "filter": {}}}]}
    assert WHOLE.filter({"must": [where]})["must"] == [
        {"should": [{"key": path, "match": {"value": 1}}, {"nested": {"key": path, "filter": {}}}]}
    ]


def test_what_is_inside_of_a_string_is_refused_at_any_depth() -> None:
    """As the object in the string itself is."""
    inside = on_field({"field": "details.cost", "op": "eq", "value": 1})
    assert "blob#inner.cost" in (WHOLE.refusal(inside) or "")
    assert WHOLE.refusal(on_field({"field": "attributes.cost", "op": "eq", "value": 1})) is None


OVERLAPPING: Final = {"attributes": "metadata", NAMESPACE: "metadata.tenant", "price": "metadata.cost.net"}


@pytest.mark.parametrize("names", list(itertools.permutations(OVERLAPPING)))
def test_overlapping_paths_have_their_whole_values_in_any_order(names: tuple[str, ...]) -> None:
    """And a field that is hidden is hidden by each name that it has."""
    mapped = FieldMap({name: OVERLAPPING[name] for name in names})
    metadata = {"tenant": "acme", "cost": {"net": 3, "gross": 4}}
    payload = {"metadata": copy.deepcopy(metadata), "n": 1}
    found = mapped.payload("p", payload)
    assert found == {"attributes": metadata, NAMESPACE: "acme", "price": 3, "n": 1}
    assert payload["metadata"] == metadata
    for hidden in ("price", "metadata.cost.net", "attributes.cost.net"):
        assert "3" not in str(hide(found, mapped.every_name([hidden])))


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("101", 101),
        ("0", 0),
        ("-7", -7),
        (str(2**63 - 1), 2**63 - 1),
        (str(2**63), None),
        ("007", None),
        ("+1", None),
        ("1.0", None),
        ("\u0661", None),
        ("-", None),
        ("a", None),
        ("9" * 5000, None),
    ],
)
@pytest.mark.parametrize("form", ["value", "any"])
def test_an_id_in_a_payload_may_be_an_integer(text: str, number: int | None, form: str) -> None:
    """A string of digits is the id that results have for it; an index says which of both there are."""
    condition = {"key": "id", "match": {form: [text] if form == "any" else text}}
    strings = {**condition, "key": "sku"}
    integers = {"key": "sku", "match": {"any": [number]}}
    for kind, expected in (
        (None, [strings, integers] if number is not None else [strings]),
        ("keyword", [strings]),
        ("integer", [integers] if number is not None else [{"has_id": []}]),
    ):
        mapped = FieldMap({"id": "sku"}, kinds={} if kind is None else {"sku": kind})
        [found] = mapped.filter({"must": [condition]})["must"]
        assert found == (expected[0] if len(expected) == 1 else {"should": expected})
    assert FieldMap().payload("p", {"id": 101})["id"] == "101"


def test_an_index_answers_for_the_forms_that_are_asked_of_it() -> None:
    """Of times and ids that are numbers; of other fields what Qdrant says."""
    integer = {"data_type": "integer", "params": {}}
    found = FieldMap().answerable(dict.fromkeys(("created_at", "id", "price"), integer))
    assert Ask.DATETIME in found["created_at"]
    assert Ask.KEYWORD in found["id"]
    assert found["price"] == {Ask.INTEGER, Ask.INTEGER_RANGE}
    assert SAME.answerable({"created_at": integer})["created_at"] == found["price"]


def test_no_filter_looks_into_strings() -> None:
    """A field that is part of a string is refused, with its path, whatever is asked."""
    mapped = FieldMap({"text": "_node_content#text"})
    for op, value in (("eq", "a"), ("exists", True)):
        said = mapped.refusal(on_field({"field": "text", "op": op, "value": value}))
        assert said == "its values are inside of strings (_node_content#text), which no filter looks into"
    nested = {"field": "text", "op": "nested", "value": [{"field": "a", "op": "exists", "value": True}]}
    (_, array), (_, inside) = on_fields([FILTER.validate_python(nested)], "filters")
    assert mapped.refusal(array) == said
    assert "_node_content#text[].a" in (mapped.refusal(inside) or "")


VALUES = st.dictionaries(st.sampled_from(["a", "b", NAMESPACE, "id"]), st.integers() | st.text(max_size=3))


@given(VALUES)
def test_our_own_collections_are_untouched(payload: dict[str, Any]) -> None:
    """Without a map everything is as it was."""
    assert SAME.payload("p", payload) is payload
    assert SAME.search({"filter": {"must": [TENANT]}}) == {"filter": {"must": [TENANT]}}
    assert SAME.order({"key": CREATED, "direction": "desc"}) == {"key": CREATED, "direction": "desc"}
    assert [SAME.path(name) for name in payload] == list(payload)


@given(st.dictionaries(st.sampled_from(["x", "y", "z"]), st.text(max_size=3), max_size=3), st.booleans())
def test_nothing_is_lost(values: dict[str, str], nested: bool) -> None:
    """Every value of a payload comes in under one name."""
    paths = {f"our_{name}": f"m.{name}" if nested else name for name in ("x", "y")}
    payload = {"m": values} if nested else values
    found = FieldMap(paths).payload("p", payload)
    rest = found.get("m", {}) if nested else found
    for name, value in values.items():
        assert (found[f"our_{name}"] if name != "z" else rest["z"]) == value
