"""The canonical query: one query for every way of writing an event, and how it is answered."""

import unicodedata
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from operators.query.canonical import Query, address_of, canonicalise
from operators.query.cursor import After, Cursor, PoolSlice
from operators.query.plan import Planner
from operators.wire.reply import ReplyTo
from schemas.filters import Eq
from schemas.query import OrderBy, QueryEvent, QueryShape
from schemas.settings.ranking import PROFILES

YEAR = {"field": "year", "op": "eq", "value": 2024}
ORDER = {"field": "year", "direction": "desc"}
PLAN = Planner(PROFILES).plan(QueryEvent(query_id="q", text="t"), "default", [])


def asked(at: Cursor | None = None, **fields: Any) -> Query:
    """The canonical query of an event with these fields."""
    event = QueryEvent.model_validate({"query_id": "q", **fields})
    return canonicalise(event, PLAN, "shop", *address_of(event, "default", "public"), 5.0, at)


def test_what_the_event_does_not_say_is_filled_in() -> None:
    """Destination, namespace, clock and page size have their defaults; the rest is nothing."""
    assert asked(text="t") == Query(
        event=QueryEvent(query_id="q", text="t"),
        plan=PLAN,
        source="shop",
        destination="default",
        namespace="public",
        text="t",
        limit=20,
        now=5.0,
        shape=QueryShape.SEARCH,
        cursor=None,
        reply=ReplyTo(None, None),
        understood=(),
    )


def test_what_the_event_says_is_kept() -> None:
    """No default goes over what was asked."""
    said: dict[str, Any] = {
        "destination": "d",
        "collection": "c",
        "namespace": "n",
        "subject": "s",
        "actor_type": "user",
        "limit": 7,
    }
    query = asked(**said, filters=[YEAR], order_by=ORDER)
    assert {name: getattr(query.event, name) for name in said} == said
    assert (query.destination, query.namespace, query.limit) == ("d", "n", 7)
    assert query.event.filters == [Eq(field="year", op="eq", value=2024)]
    assert query.event.order_by == OrderBy(field="year", direction="desc")
    assert asked(vector=[0.5, 1.0]).event.vector == [0.5, 1.0]


@pytest.mark.parametrize(("limit", "size"), [(0, 20), (1, 1), (200, 200), (201, 200)])
def test_the_page_has_a_size(limit: int, size: int) -> None:
    """No limit is 20, and more than 200 is 200."""
    assert asked(text="t", limit=limit).limit == size


@example(" \n\u3000", "NFC")
@given(st.text(min_size=1, max_size=20), st.sampled_from(["NFC", "NFD"]))
def test_one_text_however_it_is_composed(text: str, form: Any) -> None:
    """Equivalent texts are one query; a text of white space is none."""
    written = unicodedata.normalize(form, text)
    assert asked(text=written, subject="s").text == asked(text=text, subject="s").text
    assert asked(text=written, subject="s").text in {unicodedata.normalize("NFC", text), None}
    assert (asked(text=text, subject="s").text is None) == text.isspace()


@pytest.mark.parametrize(
    ("fields", "shape"),
    [
        ({"subject": "s"}, QueryShape.FAST_PATH),
        ({"subject": "s", "limit": 5}, QueryShape.FAST_PATH),
        ({"subject": "s", "text": " \n"}, QueryShape.FAST_PATH),
        ({"subject": "s", "namespace": "n", "debug": True, "profile": "fast"}, QueryShape.FAST_PATH),
        ({"subject": "s", "filters": [YEAR]}, QueryShape.LOOKUP),
        ({"subject": "s", "actor_type": "user"}, QueryShape.LOOKUP),
        ({"subject": "s", "order_by": ORDER}, QueryShape.LOOKUP),
        ({"subject": "s", "cursor": "c"}, QueryShape.LOOKUP),
        ({"actor_type": "user"}, QueryShape.LOOKUP),
        ({"filters": [YEAR]}, QueryShape.LOOKUP),
        ({"subject": "s", "text": "t"}, QueryShape.SEARCH),
        ({"subject": "s", "vector": [0.0]}, QueryShape.SEARCH),
        ({"subject": "s", "reflections_only": True}, QueryShape.SEARCH),
        ({"text": "t", "filters": [YEAR]}, QueryShape.SEARCH),
    ],
)
def test_the_shape_says_how_it_is_answered(fields: dict[str, Any], shape: QueryShape) -> None:
    """A subject alone takes the fast path; what else has no text and no vector is a lookup; reflections are ranked."""
    assert asked(**fields).shape is shape


@pytest.mark.parametrize(
    ("position", "skip", "after"),
    [(None, 0, After(None, 0)), (PoolSlice(40, 100), 40, After(None, 0)), (After(7, 2), 0, After(7, 2))],
)
def test_a_cursor_is_one_place(position: PoolSlice | After | None, skip: int, after: After) -> None:
    """A place in a merged pool is none in an ordered lookup, and the other way round; without a cursor both begin."""
    cursor = Cursor(bytes(16), None, 5.0, position) if position is not None else None
    query = asked(cursor, text="t")
    assert (query.skip, query.after, query.cursor) == (skip, after, cursor)
