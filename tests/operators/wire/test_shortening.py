"""Shortening: of all that a result can lose, only as much as it must, in one order, and it says so."""

import copy
from collections.abc import Callable
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from operators.text.passages import SIZE
from operators.wire.shortening import count_results, shorten

POOL_OUT = "the candidate pool is left out: the topic takes no more"
LOST = {"stage": "result", "reason": "too_large"}


def event(count: int, size: int = 10, **changes: Any) -> dict[str, Any]:
    """A result event with so many hits, each with a text of this size."""
    hits = [
        {"id": f"d{n}", "rank": n + 1, "score": 0.5, "text": "x" * size, "payload": {"a": n}, "legs": {"vector": n}}
        | ({"neighbours": {"before": [{"id": "n", "text": "y"}], "after": []}} if n % 3 else {})
        | ({"passages": [{"text": "x", "start": 0, "highlights": []}]} if n % 2 else {})
        | ({"group": {"key": "k", "count": 4, "results": further(n, size)}} if n % 4 else {})
        for n in range(count)
    ]
    page = {"status": "ok", "results": hits, "has_more": False, "next_cursor": None}
    return {**page, "degraded": [], "warnings": ["w"], **changes}


def further(count: int, size: int) -> list[dict[str, Any]]:
    """The further documents of a group, at most three, each with a text of this size."""
    around = {"before": [], "after": [{"id": "n", "text": "z"}]}
    return [
        {"id": f"f{n}", "score": 0.25, "text": "y" * size, "payload": {}, "legs": {}}
        | ({"neighbours": around} if n % 2 else {})
        for n in range(count % 4)
    ]


def cursor(given: int) -> str:
    """The cursor of the page after so many results."""
    return f"after {given}"


def best(text: str) -> str:
    """The best passage of a text."""
    return text[:SIZE]


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

    def lose(said: str, shorter: Callable[[dict[str, Any]], dict[str, Any]]) -> None:
        nonlocal short
        hits, results, losing, first = short["results"], list(short["results"]), 0, short
        for place in reversed(range(count)):
            if shorter(hits[place]) != hits[place]:
                losing += 1
                results[place] = shorter(hits[place])
                warning = f"{said} in {losing} of {count} results: the topic takes no more"
                short = {**first, "results": list(results), "warnings": [*first["warnings"], warning]}
                found.append(short)

    def leave_out() -> None:
        for left_out in range(1, count + 1):
            then = cursor(count - left_out) if left_out < count else None
            said = f"the last {left_out} of {count} results are left out: the topic takes no more"
            page = {"results": short["results"][: count - left_out], "has_more": True, "next_cursor": then}
            found.append({**short, **page, "warnings": [*short["warnings"], said]})

    def alone(hit: dict[str, Any]) -> dict[str, Any]:
        return {name: hit[name] for name in hit if name != "neighbours"}

    def cut(hit: dict[str, Any]) -> dict[str, Any]:
        return {**hit, "text": best(hit["text"])}

    def grouped(hit: dict[str, Any], results: list[dict[str, Any]]) -> dict[str, Any]:
        return {**hit, "group": {**hit["group"], "results": results}} if "group" in hit else hit

    def of(hit: dict[str, Any]) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = hit.get("group", {}).get("results", [])
        return found

    lose("neighbours are left out", lambda hit: grouped(alone(hit), list(map(alone, of(hit)))))
    lose("texts of further documents are cut to their best passage", lambda hit: grouped(hit, list(map(cut, of(hit)))))
    lose("the further documents of groups are left out", lambda hit: grouped(hit, []))
    lose("texts are cut to their best passage", cut)
    lose("payloads are left out", lambda hit: {**hit, "payload": {}})
    leave_out()
    last = found.pop() if count else None
    short = {**short, "results": [{**hit, "text": None} for hit in short["results"]]}
    for hit in short["results"]:
        hit.pop("passages", None)
    bare = len(found)
    found.append(short)
    leave_out()
    # A result without its text is no better than one with it; without any result there is no text to lose.
    if last is not None and bare == len(found):
        found.append(last)
    return found


@given(
    st.integers(0, 30),
    st.integers(0, 900),
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
    assert shorten(whole, lambda each: size_of(each) <= room, cursor, best) == expected
    assert whole == before


@pytest.mark.parametrize(
    ("status", "then"),
    [("ok", "partial"), ("unranked", "partial"), ("partial", "partial"), ("failed", "failed"), ("denied", "denied")],
)
def test_a_status_is_partial_unless_it_says_more(status: str, then: str) -> None:
    """A result that lost a part is partial; one that failed, expired or is denied stays so."""
    short = shorten(event(1, status=status), lambda _: True, cursor, best)
    assert short is not None
    assert short["status"] == then


def test_what_must_not_be_lost_is_kept() -> None:
    """Ids, ranks, scores, legs and every other field of the answer are there in any form."""
    whole = event(3, query_id="q", metadata={"m": 1}, total=9, debug={"d": 1}, next_cursor="c")
    short = shorten(whole, lambda each: len(each["results"]) < 2, cursor, best)
    assert short is not None
    assert short["next_cursor"] == "after 1"
    assert [hit["id"] for hit in short["results"]] == ["d0"]
    assert {name: short[name] for name in ("query_id", "metadata", "total", "debug")} == {
        name: whole[name] for name in ("query_id", "metadata", "total", "debug")
    }


def test_further_documents_of_groups_go_before_texts() -> None:
    """Their texts are cut first; those of the last results go first; each result stays in its group, with its text."""
    size = 2 * SIZE
    whole = event(3, size=size)
    one = {"id": "f", "score": 0.25, "text": "y" * size, "payload": {"a": 1}, "legs": {}}
    whole["results"] = [{**hit, "group": {"key": "k", "count": 2, "results": [one]}} for hit in whole["results"]]
    limit = size_of(whole) - 3 * SIZE
    shorter = shorten(whole, lambda each: size_of(each) <= limit, cursor, best)
    assert shorter is not None
    assert [hit["text"] for hit in shorter["results"]] == ["x" * size] * 3
    assert [[each["text"] for each in hit["group"]["results"]] for hit in shorter["results"]] == [["y" * SIZE]] * 2 + [
        []
    ]
    assert [hit["group"]["count"] for hit in shorter["results"]] == [2, 2, 2]
    assert shorter["warnings"][-2:] == [
        "texts of further documents are cut to their best passage in 3 of 3 results: the topic takes no more",
        "the further documents of groups are left out in 1 of 3 results: the topic takes no more",
    ]
    assert shorter["degraded"] == [LOST]


@given(st.integers(0, 6), st.integers(0, 2000), st.sampled_from(["", "too_large", '"too_large"']), st.booleans())
def test_results_of_a_shortened_event_are_counted(count: int, room: int, text: str, enveloped: bool) -> None:
    """Of a whole one they need not be, and are counted right if its texts say what a short one says."""
    whole = event(count, metadata={"text": text})
    short = shorten(whole, lambda each: size_of(each) <= room, cursor, best)
    for each in (whole, short) if short is not None else (whole,):
        written = orjson.dumps({"specversion": "1.0", "data": each} if enveloped else each)
        expected = len(each["results"]) if each is short or text else None
        assert count_results(written) == expected
    assert count_results(None) is None
