"""Relevance: how well a candidate fits, from 0 to 1, by what means the same for every query."""

import math
from random import Random
from typing import Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from operators.ranking.candidate import Leg
from operators.ranking.coverage import Relevance
from operators.ranking.pipeline import Ranked
from operators.ranking.run import Facts, Matches, ModelScores
from schemas.pool import ScoreMeasure
from schemas.recipes import SHIPPED
from tests.operators.ranking.payloads import RECIPES, any_single, by_model, facts, pool
from tests.operators.ranking.pools import keyword, rank, recipe, vector
from tests.tiers import sized

LEGS = [vector(("a", 0.8), ("b", 0.4)), keyword(("c", 9.0))]
ONE: Final = {"one": {"a": ("text",)}}


def fit(model: ModelScores | None = None, matches: Matches | None = None, legs: list[Leg] = LEGS) -> dict[str, float]:
    """The relevance of each candidate of `hybrid`."""
    ranked = rank(SHIPPED["hybrid"], legs, Facts(matches=matches), model)
    found = next((leg for leg in legs if leg.name == "vector"), None)
    return of_all(ranked, found)


def of_all(ranked: Ranked, found: Leg | None) -> dict[str, float]:
    """The relevance of each candidate, where it has one."""
    fits = Relevance(found, ranked.run)
    return {each.id: fit for each in ranked.candidates if (fit := fits.of(each.id)) is not None}


def test_relevance_by_hand() -> None:
    """Cosine .8 .4 and, of c, the bound .4; a has one of two words of equal weight; the model read a and b: .25 of the
    words, .2 of the cosine and .55 of the model, of which c has the least that was read.
    """
    found = fit(
        ModelScores({"a": 0.9, "b": 0.5}, 3, unscored=frozenset("c")),
        Matches.of_words({"one": {"a": ("text",)}, "other": {"b": ("text",)}}),
    )
    assert found == {
        "a": 0.78,  # 0.25 * 0.5 + 0.2 * 0.8 + 0.55 * 0.9
        "b": 0.48,  # 0.25 * 0.5 + 0.2 * 0.4 + 0.55 * 0.5
        "c": 0.355,  # 0.2 * 0.4 + 0.55 * 0.5
    }


def test_a_part_that_is_not_known_leaves_its_weight_to_the_others() -> None:
    """Without a model words and cosine count 5 to 4, and the cosine alone counts whole."""
    assert fit(matches=Matches.of_words(ONE))["a"] == pytest.approx((5 * 1.0 + 4 * 0.8) / 9, abs=1e-6)
    assert fit() == {"a": 0.8, "b": 0.4, "c": 0.4}
    assert fit(legs=[keyword(("c", 9.0))]) == {}


def test_a_word_that_nobody_has_makes_all_less_relevant() -> None:
    """The order is the same without it, and the query fits less."""
    assert fit(matches=Matches.of_words({**ONE, "lost": {}}))["a"] < fit(matches=Matches.of_words(ONE))["a"]


@pytest.mark.parametrize(
    ("measure", "score", "share"),
    [
        ("share", 0.3, 0.3),
        ("share", -0.2, 0.0),
        ("share", 7.0, 1.0),
        ("similarity", 0.3, 0.3),
        ("logit", 0.0, 0.5),
        ("logit", math.log(3), 0.75),
        ("logit", -1e30, 0.0),
        ("logit", 1e30, 1.0),
    ],
)
def test_what_a_score_is_worth(measure: ScoreMeasure, score: float, share: float) -> None:
    """A share counts as it is, a logit as its probability."""
    found = fit(ModelScores({"a": score, "b": score}, 3, unscored=frozenset("c"), measure=measure))
    assert found["a"] == pytest.approx((4 * 0.8 + 11 * share) / 15, abs=1e-6)


def test_an_order_is_worth_nothing() -> None:
    """A model that only says who is better, or which is the best, says nothing about how well anything fits."""
    assert fit(ModelScores({"a": 1.0, "b": 0.5}, 3, unscored=frozenset("c"), measure="order")) == fit()
    assert fit(ModelScores({"b": 1.0}, 2, selects=True)) == fit()


@pytest.mark.parametrize("name", RECIPES)
def test_relevance_is_from_0_to_1(name: str) -> None:
    """Whatever legs, payloads and models say."""
    for seed in range(sized(15, nightly=40)):
        random = Random(seed)
        legs = pool(random, any_single)
        ranked = by_model(random, RECIPES[name], legs, facts(random))
        found = of_all(ranked, next((leg for leg in legs if leg.name == "vector"), None))
        assert all(0.0 <= value <= 1.0 for value in found.values())
        assert found.keys() in ({candidate.id for candidate in ranked.candidates}, set())


@given(st.floats(-1, 1), st.floats(-1, 1), st.floats(-9, 9), st.floats(-9, 9))
def test_what_is_better_fits_no_worse(cosine: float, nearer: float, score: float, higher: float) -> None:
    """Of two queries with one candidate each and two, the one that is nearer and whose score is higher fits better."""
    cosine, nearer = sorted((cosine, nearer))
    score, higher = sorted((score, higher))

    def of(near: float, said: float) -> float:
        legs = [vector(("a", near))]
        ranked = rank(recipe("score", "rerank"), legs, Facts(), ModelScores({"a": said}, 1, measure="logit"))
        return of_all(ranked, legs[0])["a"]

    assert of(cosine, score) <= of(nearer, higher)
