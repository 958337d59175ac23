"""Neighbourhoods: which documents one context is made of, worked by hand."""

from typing import Any

import pytest
from pydantic import ValidationError

from operators.indexing.context import ContextDocument, join_contents, windows, windows_of
from operators.indexing.point import GroupPosition, group_position
from schemas.settings.qdrant import ContextSettings

TURNS = ContextSettings(order_by="turn", group_by="session", before=2, after=1)


def member(id_: str, order: float | None, content: str = "") -> ContextDocument:
    """A document of the group g."""
    return ContextDocument(id_, None if order is None else GroupPosition("g", order), content)


def ids(settings: ContextSettings, *members: ContextDocument) -> dict[str, str]:
    """The ids of the documents in each window, joined."""
    found = windows(members, settings)
    return {id_: "".join(each.id for each in window) for id_, window in found.items()}


def test_a_window_ends_with_its_group() -> None:
    """Two in front and one behind, as far as they are there, in the order and whatever the order they came in."""
    members = [member("d", 4), member("a", 1), member("c", 3), member("b", 2)]
    assert ids(TURNS, *members) == {"a": "ab", "b": "abc", "c": "abcd", "d": "bcd"}


def test_equal_values_go_by_the_id() -> None:
    """So that a window never depends on how the index gave its documents."""
    assert ids(TURNS, member("b", 1), member("a", 1)) == {"a": "ab", "b": "ab"}
    assert [each.id for each in windows([member("b", 1), member("a", 1)], TURNS)["b"]] == ["a", "b"]


def test_a_document_without_a_place_is_alone() -> None:
    """And is nobody's neighbour."""
    assert ids(TURNS, member("a", 1), member("x", None), member("b", 2)) == {"a": "ab", "b": "ab", "x": "x"}


def test_a_document_touches_the_windows_that_it_is_in() -> None:
    """One in front of it, for that has one document behind it, and two behind it."""
    found = windows([member(id_, order) for order, id_ in enumerate("abcdefg")], TURNS)
    assert sorted(windows_of(found, {"d"})) == ["c", "d", "e", "f"]


def test_a_context_is_the_contents_in_order() -> None:
    """Documents without text leave nothing behind."""
    window = (member("a", 1, "one"), member("b", 2), member("c", 3, "three"))
    assert join_contents(window) == "one\nthree"


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"session": 3, "turn": 7}, GroupPosition('["default","public","public",[],3]', 7.0)),
        ({"session": "3", "turn": 7}, GroupPosition('["default","public","public",[],"3"]', 7.0)),
        ({"session": True, "turn": 0.5}, GroupPosition('["default","public","public",[],true]', 0.5)),
        (
            {"session": 3, "turn": "2023-05-08T13:56:00Z"},
            GroupPosition('["default","public","public",[],3]', 1683554160.0),
        ),
        ({"session": 3}, None),
        ({"turn": 7}, None),
        ({"session": [3], "turn": 7}, None),
        ({"session": 3, "turn": True}, None),
        ({"session": 3, "turn": "seventh"}, None),
        ({"session": 3, "turn": 10**400}, None),
    ],
)
def test_the_place_of_a_document(fields: dict[str, Any], expected: GroupPosition | None) -> None:
    """A group is a text, a number or a truth; an order is a number or a time."""
    assert group_position(TURNS, "default", "public", fields) == expected


def test_a_group_is_of_one_namespace_and_destination() -> None:
    """Without a field to group by it is all of them."""
    every = ContextSettings(order_by="turn")
    groups = {group_position(every, *names, {"turn": 1}) for names in (("d", "n"), ("d", "m"), ("e", "n"))}
    assert len(groups) == 3


def test_a_group_is_of_one_tier_and_the_same_labels() -> None:
    """In whatever order labels are listed; a missing tier is public, an unknown one is its own."""
    alike: list[list[dict[str, Any]]] = [
        [{}, {"classification": None, "labels": []}, {"classification": "public", "labels": None}],
        [{"labels": ["a", "b"]}, {"labels": ["b", "a", "b"], "classification": "public"}],
        [{"labels": ["a"]}],
        [{"labels": ['a","b']}],
        [{"classification": "restricted"}],
        [{"classification": "cosmic"}],
        [{"classification": "restricted", "labels": ["a"]}],
    ]
    groups = [{group_position(TURNS, "d", "n", {"session": 3, "turn": 7, **each}) for each in some} for some in alike]
    assert [len(some) for some in groups] == [1] * len(alike)
    assert len(set().union(*groups)) == len(alike)


def test_without_an_order_nothing_has_a_place() -> None:
    """The default: no document is indexed with its neighbours."""
    assert not ContextSettings().on
    assert group_position(ContextSettings(), "default", "public", {"session": 3, "turn": 7}) is None


@pytest.mark.parametrize(
    ("wrong", "problem"),
    [
        ({"group_by": "session"}, "order_by says nothing of the order"),
        ({"order_by": "_order"}, "order_by: _order: no name of a field"),
        ({"order_by": "turn", "group_by": "a b"}, "group_by: a b: no name of a field"),
    ],
)
def test_settings_that_can_not_be(wrong: dict[str, Any], problem: str) -> None:
    """A group without an order, and names that no field has."""
    with pytest.raises(ValidationError, match=problem):
        ContextSettings(**wrong)
