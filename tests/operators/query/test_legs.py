"""Legs: the table, and a leg that the product does not have."""

from typing import Any

import pytest

from operators.query.backend_answers import Hits
from operators.query.legs import LEG_SPECS, LegSpec, Searches, legs
from operators.query.search import Found
from operators.query.search_bodies import Bodies
from operators.stages.fuse import rank_hits, take_over
from operators.text.terms import SparseVector
from schemas.errors import BackendTimeout, Reason
from schemas.result import WEIGHED_LEGS, LegStatus
from tests.operators.samples import VECTORS, body, capable, query, searches

SOUNDS = LegSpec(
    "sounds",
    lambda query: query.retrieval.encoding,
    Bodies.sparse,
    able=lambda able: able.has("learned"),
    unready=Reason.NO_TERMS,
)
WEIGHED: dict[str, Any] = {"recipe": "rrf", "overrides": {"rrf": {"weights": {"sounds": 2.0}}}}


@pytest.fixture
def sounds(monkeypatch: pytest.MonkeyPatch) -> None:
    """The leg is in the table, and recipes may weigh it."""
    monkeypatch.setitem(LEG_SPECS, SOUNDS.name, SOUNDS)
    monkeypatch.setattr("schemas.recipes.fusion.WEIGHED_LEGS", (*WEIGHED_LEGS, SOUNDS.name))
    monkeypatch.setitem(VECTORS, SOUNDS.name, "phonetic")


def asked(*, able: bool = True) -> Any:
    """A query whose recipe weighs the leg."""
    each = query(**WEIGHED)
    each.retrieval.capabilities = capable(learned=able)
    each.retrieval.encoding = each.retrieval.terms = SparseVector([3], [1.0])
    return each


@pytest.mark.usefixtures("sounds")
def test_a_new_leg_is_one_entry() -> None:
    """It is written, asked, taken over, fused by its weight, and told of when it is lost or skipped."""
    written = Searches(searches().bodies, frozenset(LEG_SPECS)).write(asked())
    assert body(written["sounds"])["using"] == "phonetic"
    found = Found(Hits(["a"], [1.0], [{"namespace": "public"}]))
    for outcome, status in ((found, LegStatus.OK), (BackendTimeout("late"), LegStatus.TIMEOUT)):
        each = asked()
        each.retrieval.found = {"keyword": Found(Hits([], [], [])), "sounds": outcome}
        done = rank_hits(take_over(each))
        assert done.outcome.legs["sounds"].status is status
        assert [candidate.id for candidate in done.outcome.candidates] == (["a"] if outcome is found else [])
    lacking = take_over(asked(able=False)).outcome.legs["sounds"]
    assert (lacking.status, lacking.reason) == (LegStatus.SKIPPED, Reason.NO_SPARSE_VECTOR)


def test_a_recipe_that_does_not_weigh_a_leg_does_not_ask_it() -> None:
    """Results list the two legs that every recipe may have."""
    each = query(recipe="vector")
    assert list(legs(each)) == ["vector"]
    done = take_over(each)
    assert {name: leg.reason for name, leg in done.outcome.legs.items()} == {
        "vector": Reason.NO_VECTOR,
        "keyword": Reason.RECIPE,
    }
