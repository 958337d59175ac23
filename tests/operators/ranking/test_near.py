"""The stage near: nearness by hand, without a place, and by what it reads."""

from typing import Any

import pytest

from operators.ranking.run import Facts
from schemas.recipes.stages import Proximity
from tests.operators.ranking.pools import rank, recipe, vector

ORIGIN = {"lat": 52.0, "lon": 13.0, "half_distance_m": 111_195.08}
"""The half distance is one degree of a meridian: 6,371,008.8 m * pi / 180."""

SHOPS: dict[str, dict[str, Any]] = {
    "a": {"location": {"lat": 54.0, "lon": 13.0}},
    "b": {"location": [{"lat": 51.0, "lon": 13.0}, {"lat": 1.0, "lon": 1.0}]},
    "c": {},
}


@pytest.mark.parametrize(
    ("mode", "expected"),
    [
        # .7 * score / .8 + .3 * nearness: a is two halves away, b one, and c nowhere.
        ("exponential", {"a": 0.7 + 0.3 * 0.25, "b": 0.7 * 0.5 + 0.3 * 0.5, "c": 0.7 * 0.25}),
        # Within the step 1, beyond it and without a point .1.
        ("step", {"a": 0.7 + 0.3 * 0.1, "b": 0.7 * 0.5 + 0.3 * 1, "c": 0.7 * 0.25 + 0.3 * 0.1}),
    ],
)
def test_nearness_is_worked_by_hand(mode: str, expected: dict[str, float]) -> None:
    """It halves with each half distance, or falls at once; of several points the nearest counts; all is explained."""
    legs = [vector(("a", 0.8), ("b", 0.4), ("c", 0.2), payloads=SHOPS)]
    origin = {**ORIGIN, "half_distance_m": 111_196.0} if mode == "step" else ORIGIN
    ranked = rank(recipe("vector", {"near": {**origin, "mode": mode}}), legs, Facts(explain=True))
    assert {each.id: each.score for each in ranked.candidates} == pytest.approx(expected, abs=1e-6)
    assert ranked.run.explanations is not None
    step = ranked.run.explanations.by_id["b"].stages[-1]
    assert (step["stage"], step["input"]) == ("near", 0.4)
    assert step["values"]["distance_m"] == pytest.approx(111_195.08, abs=0.1)
    assert step["values"] | {"distance_m": 0} == {
        "relevance": 0.5,
        "distance_m": 0,
        "nearness": pytest.approx(1 if mode == "step" else 0.5, abs=1e-6),
        "maximum": 0.8,
    }


def test_without_a_place_it_changes_nothing_and_reads_nothing() -> None:
    """A recipe may have it for queries that name a place."""
    legs = [vector(("a", 0.8), ("b", 0.4), payloads=SHOPS)]
    assert [each.score for each in rank(recipe("vector", "near"), legs, Facts()).candidates] == [0.8, 0.4]
    assert Proximity().reads == Proximity(lat=1.0).reads == frozenset()
    assert Proximity(field="shop.at", lat=1.0, lon=2.0).reads == {"shop.at", "shop[].at"}
