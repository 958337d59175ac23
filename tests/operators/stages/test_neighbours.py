"""Neighbours of results: read with the index's own window, in the order that the documents have now."""

import time
from dataclasses import replace
from typing import Any

import pytest

from operators.access.firewall import AccessFilter
from operators.query.outcome import Answer, Results
from operators.query.result import page, records_of
from operators.query.returned import split_neighbours
from operators.ranking.candidate import Candidate
from operators.ranking.grouping import Grouping
from operators.runtime.dispatcher import Bounds
from operators.stages.fetch import Neighbouring
from schemas.document import EXPIRES, GROUP, NEIGHBOURS, ORDER
from schemas.filters import Eq
from tests.operators.samples import answers, query

NOBODY: Any = None
STAGE = Neighbouring(NOBODY, Bounds(1, 1, 1))


def payload(order: float, group: str = "g", **fields: Any) -> dict[str, Any]:
    """The payload that the index keeps of a document at this place."""
    return {"namespace": "public", GROUP: group, ORDER: order, "text": f"text {order}", **fields}


def found(most: int) -> Any:
    """A query with one result, which was indexed with four others."""
    event: dict[str, Any] = {"return": {"neighbours": most}}
    asked = query(**event)
    asked.outcome.results = Results([Candidate("c", 0.5, {})])
    asked.outcome.payloads = {"c": {**payload(3), NEIGHBOURS: ["a", "b", "c", "d", "e"]}}
    return asked


def test_the_nearest_on_both_sides() -> None:
    """At most so many on each side, those nearest to the result, each side in its order."""
    around = {"a": payload(1), "b": payload(2), "d": payload(4), "e": payload(5)}
    for most, before, behind in ((1, ["b"], ["d"]), (2, ["a", "b"], ["d", "e"])):
        asked = found(most)
        assert STAGE.missing(asked) == ["a", "b", "d", "e"]
        STAGE.on_answer(asked, around)
        sides = asked.outcome.neighbours["c"]
        assert [[each["id"] for each in side] for side in sides] == [before, behind]


def test_documents_of_groups_have_neighbours() -> None:
    """Each document that is returned within a group has its own, and those behind `group_size` have none."""
    asked = found(1)
    outcome = asked.outcome
    candidates = [Candidate(id_, 0.5, {"parent": "p"}) for id_ in "cxy"]
    outcome.results = Results(candidates, Grouping("parent", 2, "max"))
    outcome.payloads |= {"x": {**payload(7), NEIGHBOURS: ["w", "x"]}, "y": {**payload(9), NEIGHBOURS: ["z"]}}
    assert STAGE.missing(asked) == ["a", "b", "d", "e", "w"]
    STAGE.on_answer(asked, {"b": payload(2), "w": payload(6, classification="public")})
    assert [[each["id"] for each in outcome.neighbours[id_][0]] for id_ in "cx"] == [["b"], ["w"]]
    records = records_of(page(asked.asked, outcome), outcome, asked.asked.access_filter)
    assert records == [{"namespace": "public"}] * 3 + [{"namespace": "public", "classification": "public"}]


def test_what_has_moved_or_is_hidden_is_no_neighbour() -> None:
    """A document of another group or namespace by now, or one that is gone, is left out; nothing else is removed."""
    asked = found(2)
    around = {"a": payload(1), "b": payload(2, "other"), "d": payload(4, namespace="another")}
    STAGE.on_answer(asked, around)
    sides = asked.outcome.neighbours["c"]
    assert [[each["id"] for each in side] for side in sides] == [["a"], []]
    assert asked.outcome.removed == set()


def test_an_expired_document_is_no_neighbour(monkeypatch: pytest.MonkeyPatch) -> None:
    """From its moment on it is none, and one that expires ends the time for which the answer is served from caches."""
    asked = found(2)
    asked.retrieval.capabilities = replace(asked.retrieval.capabilities, expires=True)
    soon = round(time.time()) * 1000 + 10**6
    STAGE.on_answer(asked, {"b": {**payload(2), EXPIRES: 1000}, "d": {**payload(4), EXPIRES: soon}, "e": payload(5)})
    sides = asked.outcome.neighbours["c"]
    assert [[each["id"] for each in side] for side in sides] == [[], ["d", "e"]]
    for now, served in ((soon / 1000 - 1, True), (soon / 1000, False)):
        kept, again = answers(), query(1)
        first = kept.look_up(query(), ("0:7",))
        first.outcome.neighbours = asked.outcome.neighbours
        kept.put(first, Answer({"status": "ok", "results": []}, 0.0))
        kept.finish(first.message.origin)
        # It may have waited since it was received.
        with monkeypatch.context() as clock:
            clock.setattr(time, "time", lambda now=now: now)
            assert kept.look_up(again, ("0:7",)).answered == served


@pytest.mark.parametrize("event", [{}, {"return": {"text": 5}}, {"return": {"neighbours": 0}}])
def test_nobody_asks_for_nothing(event: dict[str, Any]) -> None:
    """A query that wants no neighbours has none read."""
    asked = query(**event)
    asked.outcome.results, asked.outcome.payloads = found(1).outcome.results, found(1).outcome.payloads
    assert STAGE.request(asked) is None


def test_equal_places_are_in_the_order_of_ids() -> None:
    """As in the index, and a neighbour's own id goes before the point's."""
    around = [("z", payload(3)), ("a", payload(3, id="own"))]
    before, behind = split_neighbours(("m", payload(3)), around, 2)
    assert [each["id"] for each in before] == ["own"]
    assert [each["id"] for each in behind] == ["z"]


def test_neighbours_are_read_with_the_fields_of_the_querys_own_policy() -> None:
    """They are checked by these; queries whose policies hide by the same fields share a request."""
    asked, other = found(1), found(1)
    assert STAGE.target(asked) == STAGE.target(other)
    colour = Eq(field="colour", op="eq", value="red")
    other.asked = replace(other.asked, access_filter=AccessFilter("public", filters=(colour,)))
    assert STAGE.target(other)[1] - STAGE.target(asked)[1] == {"colour"}
