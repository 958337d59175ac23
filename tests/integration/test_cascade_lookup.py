"""The structured lookup, through the running flow: filters, orders and pages, and filters on every leg."""

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest

from schemas.recipes import SHIPPED
from tests.integration.cascade import EVERY_LEG, Json, System, ids, leg, listed
from tests.integration.cascade_documents import LOG

pytest_plugins = ["tests.integration.cascade_running"]
pytestmark = pytest.mark.slow

Matches = Callable[[Json], bool]

FILTERS: list[tuple[str, str, Any, Matches]] = [
    ("subject", "eq", "s1", lambda each: each["subject"] == "s1"),
    ("size", "eq", 3, lambda each: each.get("size") == 3),
    ("weight", "eq", 0.75, lambda each: each["weight"] == 0.75),
    ("weight", "eq", 1, lambda each: each["weight"] == 1.0),
    ("flag", "eq", True, lambda each: each["flag"]),
    ("labels", "eq", "l2", lambda each: "l2" in each["labels"]),
    ("place.city", "eq", "Ulm", lambda each: each["place"]["city"] == "Ulm"),
    ("size", "any_of", [1, 5, 99], lambda each: each.get("size") in (1, 5)),
    ("labels", "any_of", ["l1", "m3"], lambda each: not {"l1", "m3"}.isdisjoint(each["labels"])),
    ("size", "none_of", [1, 5], lambda each: each.get("size") not in (1, 5)),
    ("labels", "none_of", ["l1", "m3"], lambda each: {"l1", "m3"}.isdisjoint(each["labels"])),
    ("size", "range", {"gt": 1, "lte": 4}, lambda each: 1 < each.get("size", 0) <= 4),
    ("weight", "range", {"gte": 0.5, "lt": 1.25}, lambda each: 0.5 <= each["weight"] < 1.25),
    (
        "when",
        "date_range",
        {"gte": "2024-02-11T13:00:00+01:00", "lt": "2024-05-11T12:00:00Z"},
        lambda each: "2024-02-11T12" <= each["when"] < "2024-05-11T12",
    ),
    (
        "when",
        "date_range",
        {"gt": datetime(2024, 5, 11, 12, tzinfo=UTC).timestamp()},
        lambda each: each["when"] > "2024-05-11T13",
    ),
    ("size", "exists", True, lambda each: "size" in each),
    ("size", "exists", False, lambda each: "size" not in each),
    ("place.city", "prefix", "Ul", lambda each: each["place"]["city"].startswith("Ul")),
]


def _filter(field: str, op: str, value: Any) -> Json:
    return {"field": field, "op": op, "value": value}


def _matching(*matches: Matches) -> set[str]:
    return {each["id"] for each in LOG if all(match(each) for match in matches)}


def test_every_filter(kitchen: System) -> None:
    """Each op finds exactly the documents that it says, and needs neither text nor vector."""
    events: list[Json] = [{"namespace": "log", "limit": 200, "filters": [_filter(*each[:3])]} for each in FILTERS]
    for (*said, match), pages in zip(FILTERS, kitchen.pages(events), strict=True):
        assert set(listed(pages)) == _matching(match), said
        assert 0 < len(listed(pages)) < len(LOG), said
        assert {(page["retrieval_stage"], page["status"]) for page in pages} == {("structured", "ok")}


def test_filters_all_hold(kitchen: System) -> None:
    """Several filters, a subject and an actor type are conditions that must all hold."""
    pairs = [(FILTERS[n], FILTERS[n - 4]) for n in range(0, len(FILTERS), 3)]
    events = [
        {
            "namespace": "log",
            "subject": "s1",
            "actor_type": "user",
            "limit": 200,
            "filters": [_filter(*a[:3]), _filter(*b[:3])],
        }
        for a, b in pairs
    ]
    for (a, b), answer in zip(pairs, kitchen.answers(events), strict=True):
        scoped = _matching(a[3], b[3], lambda each: each["subject"] == "s1" and each["actor_type"] == "user")
        assert set(ids(answer)) == scoped


def _value(document: Json, field: str) -> Any:
    if field == "when":
        return datetime.fromisoformat(document["when"])
    return document.get(field, 0) if field == "created_at" else document[field]


FIELDS = ("size", "weight", "when", "created_at", "shelf")
ORDERS = [(field, direction) for field in FIELDS for direction in ("asc", "desc")]


def _ordered(field: str, direction: str, limit: int) -> Json:
    order = {"field": field, "direction": direction}
    return {"namespace": "log", "filters": [_filter("flag", "exists", True)], "order_by": order, "limit": limit}


def test_pages_of_an_order_are_disjoint_and_all(kitchen: System) -> None:
    """Every field in both directions, pages that cut ties included: each document once, its value in order."""
    known = {each["id"]: each for each in LOG}
    for (field, direction), pages in zip(
        ORDERS, kitchen.pages([_ordered(*order, 17) for order in ORDERS]), strict=True
    ):
        there = {id_ for id_, each in known.items() if field in each or field == "created_at"}
        found = listed(pages)
        values = [_value(known[id_], field) for id_ in found]
        assert values == sorted(values, reverse=direction == "desc"), (field, direction)
        assert [len(page["results"]) for page in pages[:-1]] == [17] * (len(pages) - 1)
        assert all(page["total"] == len(page["results"]) for page in pages)
        assert all(page["has_more"] == (page["next_cursor"] is not None) for page in pages)
        assert len(found) == len(set(found)), (field, direction)
        assert set(found) == there, (field, direction)


def test_ties_of_an_order_go_by_id(kitchen: System) -> None:
    """Ascending, whatever the direction of the order, on short pages as on the longest."""
    short = kitchen.pages([_ordered(*order, 17) for order in ORDERS])
    long = kitchen.pages([_ordered(*order, 200) for order in ORDERS])
    for (field, direction), cut, whole in zip(ORDERS, short, long, strict=True):
        known = [each for each in LOG if field in each or field == "created_at"]
        by_id = sorted(known, key=lambda each: str(each["id"]))
        expected = sorted(by_id, key=lambda each: _value(each, field), reverse=direction == "desc")
        assert listed(whole) == listed(cut) == [each["id"] for each in expected], (field, direction)


def test_without_an_order_the_newest_come_first(kitchen: System) -> None:
    """A lookup without `order_by` goes by `created_at` from the newest on, the undated last, over all its pages."""
    (pages,) = kitchen.pages([{"namespace": "log", "actor_type": "user", "limit": 9}])
    created = {each["id"]: each.get("created_at", 0) for each in LOG if each["actor_type"] == "user"}
    found = listed(pages)
    assert set(found) == created.keys()
    assert [created[id_] for id_ in found] == sorted(created.values(), reverse=True)


def test_only_what_is_indexed_can_be_ordered_by(kitchen: System) -> None:
    """Another field is `invalid`, in a lookup and beside a text or a vector; so is an order of reflections alone."""
    order: Json = {"order_by": {"field": "importance"}}
    looked_up: Json = {"namespace": "log", "filters": [_filter("flag", "exists", True)]}
    events: list[Json] = [
        {**looked_up, **order},
        {**looked_up, "text": "x", **order},
        {**looked_up, "vector": [1.0] * 384, **order},
        {**looked_up, "reflections_only": True, "order_by": {"field": "size"}},
    ]
    assert [ended.kind for ended in kitchen.together(events)] == ["invalid"] * 4


def test_filters_restrict_every_leg(kitchen: System) -> None:
    """Vector, keyword and structured leg each return what matches alone: filters, subject, actor type, namespace."""
    event = {
        "namespace": "log",
        "text": "entry of the harbor",
        "subject": "s2",
        "actor_type": "agent",
        "filters": [_filter("size", "range", {"gte": 2}), _filter("labels", "none_of", ["l0"])],
        "limit": 200,
        **EVERY_LEG,
    }
    allowed = _matching(
        lambda each: each["subject"] == "s2" and each["actor_type"] == "agent",
        lambda each: each.get("size", 0) >= 2 and "l0" not in each["labels"],
    )
    answer = kitchen.ask(event)
    assert {each["name"]: each["candidates"] for each in answer["legs"]} == dict.fromkeys(
        ("vector", "keyword", "structured"), len(allowed)
    )
    assert set(ids(answer)) == allowed


def test_text_is_never_a_filter(kitchen: System) -> None:
    """A query with a text finds what its filters let through, whether the text is in it or not."""
    only = _filter("size", "eq", 4)
    answer = kitchen.ask({"namespace": "log", "text": "xylophone", "filters": [only], "limit": 200})
    assert set(ids(answer)) == _matching(lambda each: each.get("size") == 4)
    assert answer["retrieval_stage"] == "semantic"


def test_where_the_structured_leg_joins(kitchen: System) -> None:
    """The structured leg joins a query without text and vector, or a recipe that gives it a weight."""
    event = {"namespace": "log", "text": "harbor"}
    others: list[Json] = [{}, *({"recipe": name} for name in SHIPPED), {"vector": [1.0] * 384}]
    for more in others:
        assert leg(kitchen.ask({**event, **more}), "vector")
        assert "structured" not in {each["name"] for each in kitchen.ask({**event, **more})["legs"]}
    assert leg(kitchen.ask({**event, **EVERY_LEG}), "structured") == ("ok", None)
