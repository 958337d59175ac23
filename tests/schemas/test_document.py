"""The document event: what is kept, what is refused, and an identity that never collides."""

import math
import unicodedata
import uuid
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from schemas.document import POINT_NAMESPACE, DocumentEvent, point_id

names = st.text(st.characters(codec="utf-8"), min_size=1, max_size=8) | st.sampled_from(
    ["1", "11", ":", "1:", "1:1", "a", "aa"]
)


def event(**fields: Any) -> DocumentEvent:
    """A document with these fields."""
    return DocumentEvent.model_validate({"id": "d", "text": "content", **fields})


def test_texts_are_composed() -> None:
    """As those of queries are: otherwise a document that was written with decomposed letters isn't found by them."""
    for form in ("NFC", "NFD"):
        written = event(text=unicodedata.normalize(form, "café"), title=unicodedata.normalize(form, "Zürich"))
        assert (written.text, written.title) == ("café", "Zürich")


def refusal(**fields: Any) -> str:
    """The message about a document with these fields."""
    with pytest.raises(ValidationError) as caught:
        event(**fields)
    return str(caught.value)


def test_unknown_fields_are_kept_under_their_names() -> None:
    """Whatever else a document has stays with it."""
    kept = event(author="someone", tags=["a", {"deep": None}], content_type=3)
    assert kept.model_extra == {"author": "someone", "tags": ["a", {"deep": None}], "content_type": 3}


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("id", ""),
        ("id", 5),
        ("id", None),
        ("id", "x" * 4097),
        ("op", "replace"),
        ("text", 5),
        ("title", ["a"]),
        ("vector", []),
        ("vector", [math.nan]),
        ("vector", ["1"]),
        ("namespace", ""),
        ("destination", "x" * 257),
        ("created_at", "2024-01-01T00:00:00"),
        ("updated_at", "soon"),
        ("accessed_at", math.inf),
        ("confirmed_at", []),
        ("schema_version", 2),
        ("cycle", 1.5),
        ("type", 5),
        ("memory_tier", ["semantic"]),
        ("priority", 1),
        ("importance", -1),
        ("importance", "high"),
        ("confidence", math.nan),
        ("salience", True),
        ("access_count", -1),
        ("edges", {"to": "a"}),
        ("edges", [{"weight": 1.0}]),
        ("edges", [{"to": "a", "weight": -1.0}]),
        ("edges", [{"to": "a", "wait": 1.0}]),
    ],
)
def test_a_wrong_value_is_a_named_error(field: str, value: object) -> None:
    """Wrong types and values out of range are refused by the field's name; nothing is converted."""
    assert refusal(**{field: value}).splitlines()[1].split(".")[0] == field


def test_an_unknown_operation_is_told_all_that_there_are() -> None:
    """Also the one that is an event of its own."""
    assert "expected one of upsert, delete, patch, delete_where" in refusal(op="remove")


def test_the_indexs_own_names_are_refused() -> None:
    """Names that begin with an underscore are all named."""
    assert "_content, _version: names that start with an underscore" in refusal(_version=1, _content=2)


@pytest.mark.parametrize("fields", [{"text": None}, {"text": ""}, {"text": " \n", "title": "\t"}, {"title": ""}])
def test_an_upsert_brings_something(fields: dict[str, Any]) -> None:
    """Without text, title and vector there is nothing to index; a delete needs only its id."""
    fields = {"text": None, **fields}
    assert "an upsert needs `text`, `title`, or its embedding as `vector`" in refusal(**fields)
    assert event(**fields, op="delete").op == "delete"
    assert event(**fields, vector=[1.0]).vector == [1.0]


def test_the_content_is_the_columns_in_order() -> None:
    """Title and text are joined by a line break; a missing one leaves none behind."""
    assert event(text="body", title="head").content == "head\nbody"
    assert event(text="body").content == "body"
    assert event(text=None, title="head").content == "head"


def test_a_field_named_content_is_only_payload() -> None:
    """A document's own `content` is kept and changes nothing that is embedded."""
    kept = event(content="elsewhere")
    assert kept.content == "content"
    assert kept.model_dump()["content"] == "elsewhere"


@given(st.tuples(names, names, names), st.tuples(names, names, names))
def test_two_documents_never_share_a_point(one: tuple[str, str, str], other: tuple[str, str, str]) -> None:
    """Destination, namespace and id make different points unless all three are equal, whatever characters they hold."""
    assert (point_id(*one) == point_id(*other)) == (one == other)


@given(names, names, st.data())
def test_moving_the_border_between_names_makes_another_point(first: str, second: str, data: st.DataObject) -> None:
    """The same characters divided elsewhere are other documents."""
    joined = first + second
    cut = data.draw(st.integers(0, len(joined)))
    moved = (joined[:cut], joined[cut:])
    build: Callable[[str, str], str]
    for build in (lambda a, b: point_id(a, b, "x"), lambda a, b: point_id("x", a, b), lambda a, b: point_id(a, "x", b)):
        assert (build(first, second) == build(*moved)) == (moved == (first, second))


def test_a_points_id_never_changes() -> None:
    """It is a UUIDv5 and part of the contract: these values hold for every version."""
    made = uuid.UUID(point_id("default", "public", "doc-1"))
    assert made.version == 5
    assert str(POINT_NAMESPACE) == "6f3c1d0a-4c2e-5b7e-9a52-7d1f0c8e2b46"
    assert made == uuid.uuid5(POINT_NAMESPACE, "7:default6:publicdoc-1")
    assert str(made) == "41b0c804-ed1a-55d2-80b3-904f4ae8455c"
