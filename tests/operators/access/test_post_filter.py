"""Tripwire: what a query may not see is out of all that was found, and counted once."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from operators.access.firewall import AccessFilter
from operators.query.in_flight import InFlight
from operators.ranking.candidate import Leg
from schemas.result import KEYWORD, VECTOR
from tests.operators.ranking.pools import leg
from tests.operators.samples import query

GUARD = AccessFilter("acme", ("public", "internal"), blocked=("draft",))
SEEN: dict[str, Any] = {"namespace": "acme", "classification": "internal"}
HIDDEN: dict[str, Any] = {"namespace": "acme", "classification": "restricted"}


def holding(access_filter: AccessFilter | None, **legs: dict[str, Any]) -> InFlight:
    """A query whose legs found these payloads, by id."""
    asked = query()
    asked.asked = replace(asked.asked, access_filter=access_filter)
    asked.outcome.legs = {
        name: leg(name, *((id_, 1.0 - rank / 10) for rank, id_ in enumerate(payloads)), payloads=payloads)
        for name, payloads in legs.items()
    }
    return asked


def test_what_may_not_be_seen_is_as_if_it_were_not_there() -> None:
    """A hidden record is out of every leg that found it; the others keep their order and scores."""
    both = {"a": SEEN, "b": HIDDEN, "c": {**SEEN, "labels": ["draft"]}, "d": SEEN}
    asked = holding(GUARD, vector=both, keyword={"b": HIDDEN, "d": SEEN})
    asked.check_found()
    assert asked.outcome.legs == {
        VECTOR: leg(VECTOR, ("a", 1.0), ("d", 0.7), payloads=both),
        KEYWORD: leg(KEYWORD, ("d", 0.9), payloads=both),
    }
    assert asked.outcome.removed == {"b", "c"}


def test_a_document_that_changed_meanwhile_is_out() -> None:
    """A record that was permitted when found and isn't when fetched has no payload, and is in no leg any more."""
    asked = holding(GUARD, vector={"a": SEEN, "b": SEEN}, keyword={"b": SEEN})
    assert asked.check_fetched({"a": SEEN, "b": {**SEEN, "namespace": "other"}}) == {"a": SEEN}
    assert {name: each.ids for name, each in asked.outcome.legs.items()} == {VECTOR: ["a"], KEYWORD: []}
    assert asked.outcome.removed == {"b"}


def test_without_a_firewall_another_namespace_is_out() -> None:
    """Off, tiers and labels hide nothing; a record of another namespace, or of none, is removed and counted."""
    others: dict[str, Any] = {"b": {"namespace": "other"}, "c": {}, "d": {"namespace": ["acme"]}}
    asked = holding(AccessFilter("acme"), vector={"a": HIDDEN, **others}, keyword={"d": others["d"]})
    asked.check_found()
    assert {name: each.ids for name, each in asked.outcome.legs.items()} == {VECTOR: ["a"], KEYWORD: []}
    assert asked.check_fetched({"a": HIDDEN, **others}) == {"a": HIDDEN}
    assert asked.outcome.removed == {"b", "c", "d"}


def test_without_an_access_filter_nothing_may_be_seen() -> None:
    """A query that was denied has none: should anything be found for it, it is removed."""
    asked = holding(None, vector={"a": SEEN})
    asked.check_found()
    assert asked.outcome.legs[VECTOR].ids == []
    assert asked.check_fetched({"a": SEEN}) == {}


def test_what_is_removed_late_leaves_nothing() -> None:
    """Of a record whose payload is of another namespace, the vector that was read before goes, too."""
    asked = holding(AccessFilter("acme"), vector={"a": SEEN, "b": SEEN})
    asked.outcome.vectors = {"a": np.ones(2, np.float16), "b": np.ones(2, np.float16)}
    asked.check_fetched({"a": SEEN, "b": {"namespace": "other"}})
    assert asked.outcome.vectors.keys() == {"a"}


def test_a_leg_without_hits_stays() -> None:
    """A leg that was lost or found nothing is the same afterwards."""
    asked = holding(GUARD, vector={})
    lost = asked.outcome.legs[VECTOR]
    asked.check_found()
    assert asked.outcome.legs == {VECTOR: lost}


PAYLOADS = st.fixed_dictionaries(
    {},
    optional={
        "namespace": st.sampled_from(["acme", "acme", "other", None, ["acme"], 1]),
        "classification": st.sampled_from(["public", "internal", "restricted", "secret", 5]),
        "labels": st.lists(st.sampled_from(["draft", "final"]), max_size=2),
    },
)
POINTS = st.dictionaries(st.sampled_from("abcdef"), PAYLOADS)


@pytest.mark.parametrize("guard", [GUARD, AccessFilter("acme")], ids=["firewall on", "firewall off"])
@given(POINTS, st.sets(st.sampled_from("abcdef")), st.randoms())
def test_nothing_hidden_is_left(guard: AccessFilter, points: dict[str, Any], also: set[str], chance: Any) -> None:
    """Whatever two legs found, what is left is what each check permits, and each removed record counts once."""
    other = {id_: points[id_] for id_ in sorted(also & points.keys(), key=lambda _: chance.random())}
    asked = holding(guard, vector=points, keyword=other)
    before = dict(asked.outcome.legs)
    asked.check_found()
    hidden = {id_ for id_, payload in points.items() if not guard.permits(payload)}
    assert asked.outcome.removed == hidden
    for name, each in asked.outcome.legs.items():
        assert each == _without(before[name], hidden)
    assert asked.check_fetched(points) == {id_: points[id_] for id_ in points if id_ not in hidden}
    assert asked.outcome.removed == hidden


def _without(each: Leg, hidden: set[str]) -> Leg:
    return each.at([rank for rank, id_ in enumerate(each.ids) if id_ not in hidden])
