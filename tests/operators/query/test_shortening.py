"""Shortening: of all that a result can lose, only as much as it must, in one order, and it says so."""

import copy
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from operators.query.shortening import shorten

POOL_OUT = "the candidate pool is left out: the topic takes no more"
LOST = {"stage": "result", "reason": "too_large"}


def event(count: int, size: int = 10, **changes: Any) -> dict[str, Any]:
    """A result event with so many hits, each with a text of this size."""
    hits = [
        {"id": f"d{n}", "rank": n + 1, "score": 0.5, "text": "x" * size, "payload": {"a": n}, "legs": {"vector": n}}
        for n in range(count)
    ]
    page = {"status": "ok", "results": hits, "has_more": False, "next_cursor": None}
    return {**page, "degraded": [], "warnings": ["w"], **changes}


def cursor(given: int) -> str:
    """The cursor of the page after so many results."""
    return f"after {given}"


def size_of(each: dict[str, Any]) -> int:
    """Bytes of an event."""
    return len(orjson.dumps(each))


def forms(whole: dict[str, Any]) -> list[dict[str, Any]]:
    """Every shorter form, the longest first, written out one by one."""
    count = len(whole["results"])
    status = "partial" if whole["status"] in {"ok", "unranked"} else whole["status"]
    short = {**whole, "status": status, "degraded": [*whole["degraded"], LOST]}
    found = []
    if "pool" in whole:
        short = {name: value for name, value in short.items() if name != "pool"}
        short["warnings"] = [*whole["warnings"], POOL_OUT]
        found.append(short)
    bare = [{**hit, "text": None, "payload": {}} for hit in whole["results"]]
    found.append({**short, "results": bare})
    for left_out in range(1, count + 1):
        then = cursor(count - left_out) if left_out < count else None
        said = f"the last {left_out} of {count} results are left out: the topic takes no more"
        page = {"results": bare[: count - left_out], "has_more": True, "next_cursor": then}
        found.append({**short, **page, "warnings": [*short["warnings"], said]})
    return found


@given(
    st.integers(0, 30),
    st.integers(0, 300),
    st.fixed_dictionaries(
        {"status": st.sampled_from(["ok", "unranked", "partial", "failed", "expired", "denied"])},
        optional={
            "pool": st.just({"legs": ["x" * 200]}),
            "has_more": st.booleans(),
            "degraded": st.just([{"stage": "rerank", "reason": "timeout"}]),
        },
    ),
    st.floats(0, 1.1),
)
def test_the_longest_form_that_fits(count: int, size: int, changes: dict[str, Any], share: float) -> None:
    """Of the forms in their order the first that has room, for any result and any room; none if the last has none."""
    whole = event(count, size, **changes)
    room = int(size_of(whole) * share)
    before = copy.deepcopy(whole)
    expected = next((form for form in forms(whole) if size_of(form) <= room), None)
    assert shorten(whole, lambda each: size_of(each) <= room, cursor) == expected
    assert whole == before


@pytest.mark.parametrize(
    ("status", "then"),
    [("ok", "partial"), ("unranked", "partial"), ("partial", "partial"), ("failed", "failed"), ("denied", "denied")],
)
def test_a_status_is_partial_unless_it_says_more(status: str, then: str) -> None:
    """A result that lost a part is partial; one that failed, expired or is denied stays so."""
    short = shorten(event(1, status=status), lambda _: True, cursor)
    assert short is not None
    assert short["status"] == then


def test_what_must_not_be_lost_is_kept() -> None:
    """Ids, ranks, scores, legs and every other field of the answer are there in any form."""
    whole = event(3, query_id="q", metadata={"m": 1}, total=9, debug={"d": 1}, next_cursor="c")
    short = shorten(whole, lambda each: len(each["results"]) < 2, cursor)
    assert short is not None
    assert short["next_cursor"] == "after 1"
    assert [hit["id"] for hit in short["results"]] == ["d0"]
    assert {name: short[name] for name in ("query_id", "metadata", "total", "debug")} == {
        name: whole[name] for name in ("query_id", "metadata", "total", "debug")
    }


def test_further_documents_of_groups_go_before_texts() -> None:
    """Only they go if the rest fits then; each result stays in its group, and the result says what is left out."""
    whole = event(3, size=50, pool={"legs": "x" * 500})
    further = {"id": "f", "score": 0.25, "text": "y" * 100, "payload": {}, "legs": {}}
    whole["results"] = [{**hit, "group": {"key": "k", "count": 2, "results": [further]}} for hit in whole["results"]]
    limit = size_of(event(3, size=50)) + 450
    shorter = shorten(whole, lambda each: size_of(each) <= limit, cursor)
    assert shorter is not None
    assert [hit["text"] for hit in shorter["results"]] == ["x" * 50] * 3
    assert [hit["group"] for hit in shorter["results"]] == [{"key": "k", "count": 2, "results": []}] * 3
    assert shorter["warnings"] == [
        "w",
        POOL_OUT,
        "the further documents of groups are left out: the topic takes no more",
    ]
    assert shorter["degraded"] == [LOST]
    bare = shorten(whole, lambda each: size_of(each) <= limit - 400, cursor)
    assert bare is not None
    assert {hit["text"] for hit in bare["results"]} == {None}
    assert all(hit["group"]["results"] == [] for hit in bare["results"])
