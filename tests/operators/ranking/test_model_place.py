"""The model's place in a recipe: what stands before it chooses what it reads, what stands behind takes its score."""

from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from operators.ranking.candidate import Leg
from operators.ranking.pipeline import first_phase, second_phase
from operators.ranking.run import Facts, ModelScores
from operators.text.dates import TemporalExpression
from schemas.document import CONTENT
from schemas.recipes import SHIPPED, Recipe
from tests.operators.ranking.odd import ago
from tests.operators.ranking.payloads import RECIPES, facts, judged, pool, said
from tests.operators.ranking.pools import NOW, ids, keyword, near, rank, recipe, scores, vector
from tests.tiers import sized

SEEDS = range(sized(15, nightly=40))
THREE_WEEKS = TemporalExpression(21, 5)


def order(of: Recipe, legs: list[Leg], model: ModelScores | None = None, **asked: Any) -> list[str]:
    """The ids in their order, at NOW."""
    return ids(rank(of, legs, Facts(**{"now": NOW, **asked}), model).candidates)


WORTH = {
    id_: {"memory_tier": "semantic", "salience": salience} for id_, salience in (("a", 0.0), ("b", 0.5), ("c", 1.0))
}
LEGS = [vector(("a", 0.9), ("b", 0.5), ("c", 0.1), payloads=WORTH)]


def test_composite_takes_the_models_score_by_hand() -> None:
    """Fused 1 .5 0, the model's 0 1 .5: .8 of the model and .2 of the legs are .2 .9 .4, of the maximum 2/9 1 4/9. Of
    these .8, and .2 of quality 0 .5 1: b .9. Without the model relevance is 1 .5 0: a .8, b .5, c .2.
    """
    with_model = rank(SHIPPED["composite"], LEGS, Facts(now=NOW), ModelScores({"a": 0.0, "b": 10.0, "c": 5.0}, 3))
    assert scores(with_model.candidates) == near(b=0.9, c=0.8 * 4 / 9 + 0.2, a=0.8 * 2 / 9)
    without = rank(SHIPPED["composite"], LEGS, Facts(now=NOW))
    assert scores(without.candidates) == near(a=0.8, b=0.5, c=0.2)


def test_composite_with_a_model_is_not_hybrid_with_it() -> None:
    """Quality still counts: a document worth more goes past one that the model likes a little more."""
    model = ModelScores({"a": 10.0, "b": 9.9, "c": 0.0}, 3)
    assert order(SHIPPED["hybrid"], LEGS, model) == ["a", "b", "c"]
    assert order(SHIPPED["composite"], LEGS, model) == ["b", "a", "c"]


def test_a_weight_below_one_leaves_the_legs_a_say_in_the_relevance() -> None:
    """At .5 the relevance is (1 + 0)/2, (.5 + 1)/2, (0 + .5)/2, of the maximum 2/3, 1, 1/3; .8 of it and .2 of quality:
    a .5333, b .9, c .4667.
    """
    half = SHIPPED["composite"].overridden({"rerank": {"weight": 0.5}})
    ranked = rank(half, LEGS, Facts(now=NOW), ModelScores({"a": 0.0, "b": 10.0, "c": 5.0}, 3))
    assert scores(ranked.candidates) == near(b=0.9, a=0.8 * 2 / 3, c=0.8 / 3 + 0.2)


def test_time_adds_to_the_models_score() -> None:
    """A document of the query's time goes past what the model likes more: .8 of .8 * .7 + .2 * .5, and .4, over .8,
    quality left aside.
    """
    dated = {"a": {"created_at": ago(1)}, "b": {"created_at": ago(21)}, "c": {}}
    legs = [vector(("a", 0.9), ("b", 0.5), ("c", 0.1), payloads=dated)]
    of = SHIPPED["composite"].overridden({"composite": {"quality": 0}})
    model = ModelScores({"a": 10.0, "b": 7.0, "c": 0.0}, 3)
    ranked = rank(of, legs, Facts(now=NOW, temporal_expression=THREE_WEEKS), model)
    assert scores(ranked.candidates) == near(b=0.928, a=0.8, c=0.0)
    assert order(of, legs, model) == ["a", "b", "c"]


@pytest.mark.parametrize("model", [None, ModelScores({"new": 2.0, "old": 1.9, "other": 0.0}, 3)])
def test_of_two_copies_the_one_that_time_asked_for_stays(model: ModelScores | None) -> None:
    """One text of yesterday and of three weeks ago, the new one a little more relevant: the query's time decides."""
    of = {
        "new": {CONTENT: 7, "created_at": ago(1)},
        "old": {CONTENT: 7, "created_at": ago(21)},
        "other": {CONTENT: 8, "created_at": ago(400)},
    }
    legs = [vector(("new", 0.9), ("old", 0.85), ("other", 0.1), payloads=of)]
    assert order(SHIPPED["composite"], legs, model, temporal_expression=THREE_WEEKS) == ["old", "other"]
    assert order(SHIPPED["composite"], legs, model) == ["new", "other"]


def test_what_stands_before_chooses_what_the_model_reads() -> None:
    """Of two that it reads, the fusion chooses in one recipe, the composite in the other; the rest is the tail."""
    worth = {"a": {"importance": 0}, "b": {"importance": 0}, "c": {"importance": 5}}
    legs = [vector(("a", 0.9), ("b", 0.5), ("c", 0.4), payloads=worth)]
    important = {"composite": {"importance": 1.0, "quality": 0}}
    before, behind = recipe("vector", important, "rerank"), recipe("vector", "rerank", important)
    asked = Facts(now=NOW)
    assert ids(first_phase(before, legs, asked).candidates) == ["c", "a", "b"]
    assert ids(first_phase(behind, legs, asked).candidates) == ["a", "b", "c"]
    assert order(before, legs, ModelScores({"c": 1.0, "a": 2.0}, 2)) == ["a", "c", "b"]
    assert order(behind, legs, ModelScores({"a": 1.0, "b": 2.0}, 2)) == ["c", "b", "a"]


def test_copies_take_no_place_among_what_the_model_reads() -> None:
    """In `hybrid` a text is read once: dedupe stands before the model."""
    of: dict[str, dict[str, Any]] = {"a": {CONTENT: 7}, "b": {CONTENT: 7}, "c": {CONTENT: 8}}
    legs = [vector(("a", 0.9), ("b", 0.8), ("c", 0.7), payloads=of)]
    assert ids(first_phase(SHIPPED["hybrid"], legs, Facts()).candidates) == ["a", "c"]


def test_age_counts_behind_the_model() -> None:
    """A recipe of one's own with a distance stage behind the model: at weight .9 its best, ten years old, has .9 + .1 *
    7/8 = .9875, a distance of .0125 / .3; the new one has .9 * .7 + .1 = .73.
    """
    dated = {"a": {"created_at": ago(0)}, "b": {"created_at": ago(3650)}}
    legs = [vector(("a", 0.9), ("b", 0.8), ("c", 0.1), payloads={**dated, "c": {}})]
    aged = recipe("linear", {"rerank": {"weight": 0.9}}, {"weibull_decay": {"enabled": True}})
    model = ModelScores({"b": 10.0, "a": 7.0, "c": 0.0}, 3)
    found = dict(scores(rank(aged, legs, Facts(now=NOW), model).candidates))
    assert found["b"] == pytest.approx(1 - 0.0125 / 0.3)
    assert found["a"] == pytest.approx(0.73)


@pytest.mark.parametrize("name", RECIPES)
def test_a_model_that_drops_all_leaves_nothing(name: str) -> None:
    """A verdict of none is an empty list in every recipe that lists the stage, whatever stands behind it."""
    for seed in SEEDS:
        random = Random(seed)
        of, legs, asked = RECIPES[name], pool(random), facts(random, explain=True)
        found = rank(of, legs, asked, ModelScores({}, random.choice([1, 5, 50]))).candidates
        assert found == [] if of.reranking else ids(found) == ids(rank(of, legs, asked).candidates)


@pytest.mark.parametrize("name", [name for name, of in RECIPES.items() if of.reranking])
def test_nobody_whom_the_model_dropped_or_never_read_comes_back(name: str) -> None:
    """A ranking that left one out ranks what it kept; one that kept all loses nobody but copies and what is
    too far.
    """
    for seed in SEEDS:
        random = Random(seed)
        of, legs, asked = RECIPES[name], pool(random), facts(random)
        first = ids(first_phase(of, legs, asked).candidates)
        model = judged(random, first_phase(of, legs, asked).candidates)
        if model is None or model.selects:
            continue
        found = set(ids(rank(of, legs, asked, model).candidates))
        assert found <= (model.scores.keys() if len(model.scores) < min(model.top, len(first)) else set(first))


@pytest.mark.parametrize("name", RECIPES)
def test_pages_concatenate_to_the_one_long_page(name: str) -> None:
    """Each page is ranked anew, by what the model said once: whatever it dropped, the pages are the whole list, and
    each has a result as long as there are further ones.
    """
    for seed in SEEDS:
        random = Random(seed)
        of, legs, asked = RECIPES[name], pool(random), facts(random)
        model = judged(random, first_phase(of, legs, asked).candidates)
        whole = scores(rank(of, legs, asked, model).candidates)
        size = random.choice([1, 2, 5])
        pages: list[tuple[str, float]] = []
        while len(pages) < len(whole):
            shuffled = random.sample(legs, len(legs))
            page = scores(rank(of, shuffled, asked, model).candidates)[len(pages) : len(pages) + size]
            assert page
            pages += page
        assert pages == whole


@pytest.mark.parametrize("name", RECIPES)
def test_the_second_phase_goes_on_where_the_first_ended(name: str) -> None:
    """Without the stage, and for reflections alone, the first phase is the whole ranking, whatever a model said."""
    for seed in SEEDS:
        random = Random(seed)
        of, legs = RECIPES[name], pool(random)
        asked = facts(random, explain=True, reflections_only=of.reranking is not None)
        first = first_phase(of, legs, asked)
        before = said(first)
        model = judged(random, first.candidates)
        assert said(second_phase(of, first, model)) == before


words = st.lists(st.tuples(st.sampled_from("abcdefgh"), st.floats(0, 30, width=32)), max_size=8)
meaning = st.lists(st.tuples(st.sampled_from("abcdefgh"), st.floats(-1, 1, width=32)), max_size=8)


@given(meaning, words, st.dictionaries(st.sampled_from("abcdefgh"), st.floats(-50, 50)), st.floats(0, 1))
def test_equal_worth_leaves_the_models_order(
    cosines: list[tuple[str, float]], matches: list[tuple[str, float]], judgement: dict[str, float], weight: float
) -> None:
    """The order of `composite` is that of `hybrid` if all documents are worth the same, with the model, too."""
    hits = [sorted(each, key=lambda hit: -hit[1]) for each in (cosines, matches)]
    legs = [vector(*hits[0], payloads={}), keyword(*hits[1], payloads={})]
    model = ModelScores(judgement, 8)
    hybrid, composite = (
        rank(SHIPPED[name].overridden({"rerank": {"weight": weight}}), legs, Facts(now=NOW), model).candidates
        for name in ("hybrid", "composite")
    )
    assert ids(composite) == ids(hybrid)


@given(meaning, words, st.sampled_from(sorted(SHIPPED)))
def test_the_order_of_the_legs_says_nothing(
    cosines: list[tuple[str, float]], matches: list[tuple[str, float]], name: str
) -> None:
    """Whichever leg answered first, the candidates and their scores are the same to the bit."""
    hits = [sorted(each, key=lambda hit: -hit[1]) for each in (cosines, matches)]
    legs = [vector(*hits[0]), keyword(*hits[1])]
    asked = Facts(now=NOW, text="fox")
    model = judged(Random(len(cosines)), first_phase(SHIPPED[name], legs, asked).candidates)
    found = rank(SHIPPED[name], legs, asked, model), rank(SHIPPED[name], legs[::-1], asked, model)
    assert scores(found[0].candidates) == scores(found[1].candidates)
