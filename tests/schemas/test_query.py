"""The query event: what a producer may ask, and that every mistake is named."""

import math
import struct
from typing import Any

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from schemas.fields import MAX_FLOAT32, MAX_METADATA_BYTES
from schemas.query import DEFAULT_LIMIT, MAX_LIMIT, QueryEvent


def event(**fields: Any) -> QueryEvent:
    """A query with these fields."""
    return QueryEvent.model_validate({"query_id": "q", "text": "find me", **fields})


def refusal(**fields: Any) -> str:
    """The message about a query with these fields."""
    with pytest.raises(ValidationError) as caught:
        event(**fields)
    return str(caught.value)


def test_the_least_that_can_be_asked() -> None:
    """An identifier and a text, or a vector in place of the text, are a query; everything else has its default."""
    assert event().model_dump(exclude_defaults=True) == {"query_id": "q", "text": "find me"}
    assert event(text=None, vector=[0.5]).vector == [0.5]
    assert event().rerank is True


def test_whole_numbers_name_documents() -> None:
    """As results have them where documents do; what equals one in Python is none."""
    like = event(like={"ids": [41193, "a"], "unlike": [-7]}).like
    assert like is not None
    assert like.every_id == ["41193", "a", "-7"]
    for wrong in (True, 1.0, None, [1]):
        assert "like.ids.0" in refusal(like={"ids": [wrong]})


def test_an_unknown_field_is_a_named_error() -> None:
    """A misspelt field is refused by its name."""
    message = refusal(txet="hello")
    assert "txet" in message
    assert "Extra inputs are not permitted" in message


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("query_id", 1),
        ("query_id", ""),
        ("query_id", None),
        ("query_id", "x" * 513),
        ("text", 5),
        ("text", ["a"]),
        ("vector", "abc"),
        ("vector", []),
        ("vector", [1.0, "2"]),
        ("vector", [1.0, math.nan]),
        ("vector", [math.inf]),
        ("vector", [[1.0]]),
        ("vector", [0.0] * 65_537),
        ("vector", [1.0, 3.5e38]),
        ("vector", [-1e300]),
        ("reply_to", 5),
        ("reply_to", ["results"]),
        ("namespace", "x" * 257),
        ("namespace", 3),
        ("destination", ""),
        ("source", ""),
        ("source", 1),
        ("subject", ["a"]),
        ("filters", {}),
        ("filters", [{"field": "a", "op": "like", "value": "b"}]),
        ("filters", [{"field": "_version", "op": "eq", "value": 1}]),
        ("order_by", "year"),
        ("order_by", {"field": "_created"}),
        ("order_by", {"field": "year", "direction": "up"}),
        ("cursor", "x" * 513),
        ("debug", 1),
        ("limit", "5"),
        ("limit", 2.5),
        ("rerank", "false"),
        ("rerank", 0),
        ("now", "2024-01-01T00:00:00"),
        ("now", True),
        ("timeout_ms", 0),
        ("timeout_ms", -5),
        ("timeout_ms", 1.5),
        ("metadata", "x"),
        ("metadata", [1]),
        ("schema_version", 2),
        ("schema_version", "1"),
        ("schema_version", True),
        ("schema_version", False),
        ("schema_version", 1.0),
        ("schema_version", None),
    ],
)
def test_a_wrong_value_is_a_named_error(field: str, value: object) -> None:
    """Wrong types and values out of range are refused by the field's name; nothing is converted."""
    assert refusal(**{field: value}).splitlines()[1].split(".")[0] == field


def test_a_query_asks_for_something() -> None:
    """An order, a cursor or a namespace is no query; what finds or narrows documents is one, and so is blank text."""
    message = "text, vector, like, filters, subject, actor_type, facets or reflections_only must be given"
    fields: dict[str, Any]
    for fields in (
        {},
        {"filters": []},
        {"facets": []},
        {"order_by": {"field": "year"}},
        {"cursor": "c"},
        {"namespace": "n"},
    ):
        assert message in refusal(text=None, **fields)
        for text in ("", "  \n\u3000"):
            assert event(text=text, **fields).text == text
    year = {"field": "year", "op": "eq", "value": 1}
    narrowed = (
        {"vector": [0.5]},
        {"filters": [year]},
        {"subject": "s"},
        {"actor_type": "user"},
        {"facets": [{"field": "brand"}]},
    )
    for fields in (*narrowed, {"reflections_only": True}):
        assert event(text=None, **fields).text is None


@pytest.mark.parametrize("field", ["subject", "actor_type", "collection", "cursor", "namespace", "profile", "recipe"])
def test_an_empty_string_is_missing(field: str) -> None:
    """Callers that fill in every field say so by an empty one."""
    assert getattr(event(**{field: ""}), field) is None


@pytest.mark.parametrize("searched", [{}, {"text": None, "vector": [0.5]}, {"text": " "}, {"text": None}])
def test_what_is_found_may_have_an_order(searched: dict[str, Any]) -> None:
    """A search may have one as well as a lookup; reflections alone are in the order of their ranks."""
    order = {"field": "year", "direction": "desc"}
    asked = event(**searched, subject="s", order_by=order)
    assert asked.order_by is not None
    assert asked.order_by.model_dump(by_alias=True, exclude_unset=True) == order
    assert "order_by and reflections_only" in refusal(**searched, reflections_only=True, order_by=order)


def test_a_cursor_has_one_of_two_policies() -> None:
    """Strict, unless the query says otherwise."""
    assert (event().cursor_policy, event(cursor_policy="continue").cursor_policy) == ("strict", "continue")
    assert "cursor_policy" in refusal(cursor_policy="lenient")


@pytest.mark.parametrize(
    ("limit", "size"),
    [
        (-(2**63), DEFAULT_LIMIT),
        (-1, DEFAULT_LIMIT),
        (0, DEFAULT_LIMIT),
        (1, 1),
        (MAX_LIMIT, MAX_LIMIT),
        (MAX_LIMIT + 1, MAX_LIMIT),
        (2**63, 200),
    ],
)
def test_the_page_is_bounded(limit: int, size: int) -> None:
    """A limit of 0 or less means the default, and one over the maximum the maximum."""
    assert event(limit=limit).page_size == size


def test_metadata_is_bounded_by_its_json() -> None:
    """4,096 bytes of JSON are taken, one more is not; multi-byte characters count as their bytes."""
    room = MAX_METADATA_BYTES - len(orjson.dumps({"a": ""}))
    assert event(metadata={"a": "x" * room}).metadata == {"a": "x" * room}
    assert f"{MAX_METADATA_BYTES + 1} bytes of JSON, at most 4096" in refusal(metadata={"a": "x" * (room + 1)})
    assert event(metadata={"a": "ö" * (room // 2)}).metadata
    assert "bytes of JSON" in refusal(metadata={"a": "ö" * (room // 2 + 1)})


json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**53), 2**53)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=9),
    lambda children: st.lists(children, max_size=3) | st.dictionaries(st.text(max_size=5), children, max_size=3),
    max_leaves=8,
)


@settings(max_examples=40)
@given(st.dictionaries(st.text(max_size=5), json_values, max_size=4))
def test_metadata_comes_back_untouched(metadata: dict[str, Any]) -> None:
    """Any JSON object within the limit is kept to the bit."""
    sent = orjson.dumps({"query_id": "q", "text": "t", "metadata": metadata})
    kept = QueryEvent.model_validate(orjson.loads(sent)).metadata
    assert orjson.dumps(kept) == orjson.dumps(metadata)


@pytest.mark.parametrize(("now", "seconds"), [("2023-11-14T22:13:20Z", 1_700_000_000.0), (1_700_000_000, 1.7e9)])
def test_a_clock_is_kept_as_unix_seconds(now: object, seconds: float) -> None:
    """Both forms of a time are read as the same seconds."""
    assert event(now=now).now == seconds


def test_an_event_does_not_change() -> None:
    """A query is frozen once it is read."""
    with pytest.raises(ValidationError):
        event().text = "other"


def test_any_number_is_a_vectors_component() -> None:
    """Integers are numbers, too, and so is all that 32 bits can hold."""
    assert event(vector=[1, -2.5, 0]).vector == [1.0, -2.5, 0.0]
    largest = struct.unpack(">f", b"\x7f\x7f\xff\xff")[0]
    assert largest == MAX_FLOAT32
    assert event(vector=[largest, -largest, 5e-324]).vector == [largest, -largest, 5e-324]


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"now": 0, "current_cycle": 0}, "now and current_cycle are two clocks"),
        ({"reflections_only": True, "include_reflections": False}, "leave nothing"),
        ({"reflection_boost": -0.1}, "reflection_boost"),
        ({"reflection_boost": math.inf}, "reflection_boost"),
        ({"current_cycle": 1.5}, "current_cycle"),
        ({"current_cycle": True}, "current_cycle"),
        ({"current_cycle": 2**53 + 1}, "current_cycle"),
        ({"overrides": []}, "overrides"),
        ({"explain": 1}, "explain"),
        ({"record": "true"}, "record"),
        ({"profile": "x" * 257}, "profile"),
        ({"recipe": 3}, "recipe"),
    ],
)
def test_what_says_how_to_rank_is_checked(fields: dict[str, Any], said: str) -> None:
    """Two clocks, contradictions and values of other types are refused by name."""
    assert said in refusal(**fields)


def test_what_says_how_to_rank_may_be_left_out() -> None:
    """Without a word a query is ranked as its profile and recipe say, unexplained, by its message's time."""
    asked = event()
    assert (asked.profile, asked.recipe, asked.overrides, asked.include_reflections) == (None, None, None, None)
    assert (asked.explain, asked.debug, asked.record, asked.reflections_only) == (False, False, False, False)
    assert event(current_cycle=-3, reflection_boost=0, include_reflections=False).current_cycle == -3
