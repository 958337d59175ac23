"""Combinations of the legs' values: arithmetic, geometric and harmonic means by hand, and what holds of all three."""

import math
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from operators.ranking.candidate import Candidate, Leg, in_tie_order
from operators.ranking.fusion import COMBINATIONS, score
from schemas.recipes import RecipeError
from schemas.recipes.fusion import Score
from schemas.result import KEYWORD, STRUCTURED, VECTOR
from tests.operators.ranking.pools import finite, hits, ids, keyword, recipe, run, scores, structured, vector

MEANS = ["arithmetic", "geometric", "harmonic"]

FOUND = [vector(("a", 0.9), ("b", 0.5), ("c", 0.1)), keyword(("b", 12.0), ("a", 6.0), ("d", 2.0))]
"""By min-max: a 1 and 0.4, b 0.5 and 1, c 0 and none, d none and 0."""


def fuse(found: Sequence[Leg], **parameters: Any) -> list[Candidate]:
    """Score fusion with these parameters."""
    return score(in_tie_order(found), Score(**parameters), run())


@pytest.mark.parametrize(
    ("combination", "a", "b"),
    [
        ("sum", 0.5 * 1 + 0.5 * 0.4, 0.5 * 0.5 + 0.5 * 1),
        ("arithmetic", (1 + 0.4) / 2, (0.5 + 1) / 2),
        ("geometric", math.sqrt(0.4), math.sqrt(0.5)),
        ("harmonic", 2 / (1 / 1 + 1 / 0.4), 2 / (1 / 0.5 + 1 / 1)),
    ],
)
def test_two_legs_of_equal_weight_by_hand(combination: str, a: float, b: float) -> None:
    """The mean of a document's two values is the one that the recipe names."""
    fused = dict(scores(fuse(FOUND, combination=combination)))
    assert (fused["a"], fused["b"]) == pytest.approx((a, b), rel=1e-12)


@pytest.mark.parametrize(
    ("combination", "a"),
    [
        ("arithmetic", (3 * 1 + 1 * 0.4) / 4),
        ("geometric", (1**3 * 0.4**1) ** (1 / 4)),
        ("harmonic", 4 / (3 / 1 + 1 / 0.4)),
    ],
)
def test_weights_three_to_one_by_hand(combination: str, a: float) -> None:
    """Weights count as so many copies of the leg, and their sum is divided out."""
    fused = dict(scores(fuse(FOUND, combination=combination, weights={VECTOR: 3.0, KEYWORD: 1.0})))
    assert fused["a"] == pytest.approx(a, rel=1e-12)


@pytest.mark.parametrize(("combination", "lone"), [("arithmetic", 0.5), ("geometric", 1.0), ("harmonic", 1.0)])
def test_a_leg_that_lacks_a_document(combination: str, lone: float) -> None:
    """It is a 0 in the arithmetic mean and is left out of the other two."""
    fused = dict(scores(fuse([vector(("a", 0.9), ("b", 0.1)), keyword(("k", 3.0))], combination=combination)))
    assert fused["a"] == fused["k"] == pytest.approx(lone, rel=1e-12)


@pytest.mark.parametrize("combination", MEANS)
def test_a_lost_leg_is_no_better_than_an_empty_one(combination: str) -> None:
    """The weight of a leg that did not answer is not shared among the others."""
    found = vector(("a", 0.9), ("b", 0.5), ("c", 0.1))
    empty = fuse([found, keyword()], combination=combination)
    assert scores(fuse([found], combination=combination)) == scores(empty)


@pytest.mark.parametrize("combination", ["geometric", "harmonic"])
def test_a_value_of_zero_makes_the_mean_zero(combination: str) -> None:
    """The worst hit of a leg has 0 there, and no other leg makes up for it."""
    fused = dict(scores(fuse([vector(("a", 0.9), ("b", 0.1)), keyword(("b", 9.0))], combination=combination)))
    assert fused == {"a": 1.0, "b": 0.0}


@pytest.mark.parametrize("combination", ["geometric", "harmonic"])
def test_a_negative_value_has_no_mean(combination: str) -> None:
    """Below 0 neither mean is defined, so the document gets 0 and nothing is raised."""
    found = [vector(("a", 4.0), ("b", -3.0)), keyword(("b", 1.0))]
    assert dict(scores(fuse(found, normaliser="l2", combination=combination)))["b"] == 0.0


@pytest.mark.parametrize("combination", ["geometric", "harmonic"])
def test_deviations_have_no_geometric_or_harmonic_mean(combination: str) -> None:
    """A recipe that asks for one of z_score's values, half of which are negative, is refused."""
    with pytest.raises(RecipeError, match="z_score"):
        recipe({"score": {"normaliser": "z_score", "combination": combination}})


@pytest.mark.parametrize("combination", MEANS)
def test_a_leg_without_weight_takes_no_part(combination: str) -> None:
    """Its values change no mean; a document that only it returned has 0."""
    alone = dict(scores(fuse(FOUND, combination=combination, weights={KEYWORD: 0.0})))
    # The vector leg's values are 1, 0.5 and 0.
    assert alone == pytest.approx({"a": 1.0, "b": 0.5, "c": 0.0, "d": 0.0}, rel=1e-12)


@pytest.mark.parametrize("combination", MEANS)
def test_the_structured_leg_takes_no_part_without_a_weight(combination: str) -> None:
    """Its equal scores would be 1 each; with a weight they are."""
    found = [*FOUND, structured("a", "s")]
    assert scores(fuse(found, combination=combination))[:2] == scores(fuse(FOUND, combination=combination))[:2]
    three = dict(scores(fuse(found, combination=combination, weights={STRUCTURED: 1.0})))
    a = {"arithmetic": (1 + 0.4 + 1) / 3, "geometric": 0.4 ** (1 / 3), "harmonic": 3 / (1 + 1 / 0.4 + 1)}
    assert three["a"] == pytest.approx(a[combination], rel=1e-12)


@pytest.mark.parametrize("combination", MEANS)
def test_no_weight_at_all_gives_zeros(combination: str) -> None:
    """Without any weight there is no division by zero: all have 0, in the order of ties."""
    fused = fuse(FOUND, combination=combination, weights={VECTOR: 0.0, KEYWORD: 0.0})
    assert scores(fused) == [("a", 0.0), ("b", 0.0), ("c", 0.0), ("d", 0.0)]


@pytest.mark.parametrize("combination", MEANS)
def test_a_limit_keeps_the_first(combination: str) -> None:
    """A limit cuts the list of any combination; 0 keeps all."""
    assert ids(fuse(FOUND, combination=combination, limit=1)) == ids(fuse(FOUND, combination=combination))[:1]
    assert len(fuse(FOUND, combination=combination, limit=0)) == 4


@pytest.mark.parametrize("combination", list(COMBINATIONS))
def test_a_repeated_id_counts_once(combination: str) -> None:
    """The second appearance of an id in a leg is in no mean."""
    twice = [vector(("a", 0.9), ("b", 0.5), ("a", 0.3), ("c", 0.1)), FOUND[1]]
    assert scores(fuse(twice, combination=combination)) == scores(fuse(FOUND, combination=combination))


@given(hits(finite), hits(finite), st.floats(0.125, 8), st.floats(0.125, 8))
def test_the_means_are_in_their_order(
    one: list[tuple[str, float]], other: list[tuple[str, float]], first: float, second: float
) -> None:
    """Of a document in both legs the harmonic mean is at most the geometric, and that at most the arithmetic."""
    found = [vector(*one), keyword(*other)]
    weights = {VECTOR: first, KEYWORD: second}
    by_name = {name: dict(scores(fuse(found, combination=name, weights=weights))) for name in MEANS}
    for id_ in {id_ for id_, _ in one} & {id_ for id_, _ in other}:
        harmonic, geometric, arithmetic = (by_name[name][id_] for name in reversed(MEANS))
        assert 0 <= harmonic <= geometric + 1e-9
        assert geometric <= arithmetic + 1e-9
        assert arithmetic <= 1 + 1e-9
