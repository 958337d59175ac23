"""A chat model's pick: half of the smallest distance, the first place even at 0, and nothing else."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from operators.ranking import distance
from operators.ranking.candidate import Candidate
from operators.ranking.run import ModelScores, Run
from schemas.recipes.stages import LlmRerank
from tests.operators.ranking.pools import candidate, explanation, ids, recipe, run, scores

STAGE = LlmRerank(enabled=True)


def pick(pool: list[Candidate], picked: str, of: Run | None = None, top: int = 100) -> list[Candidate]:
    """The pool after the model, which read the first `top`, has selected one."""
    return distance.pick(pool, ModelScores({picked: 1.0}, top, selects=True), STAGE, of or run())


def near(*pairs: tuple[str, float]) -> list[tuple[str, object]]:
    """Ids and scores, with a tolerance."""
    return [(id_, pytest.approx(value)) for id_, value in pairs]


def test_half_of_the_smallest_by_hand() -> None:
    """Distances .2 .3 .6: the third, picked, gets .1, which is a score of .9, and goes first."""
    pool = [candidate("a", 0.8), candidate("b", 0.7), candidate("c", 0.4)]
    assert scores(pick(pool, "c")) == near(("c", 0.9), ("a", 0.8), ("b", 0.7))


def test_the_smallest_may_be_its_own() -> None:
    """The nearest, picked, is twice as near: .2 becomes .1."""
    pool = [candidate("a", 0.8), candidate("b", 0.7)]
    assert scores(pick(pool, "a")) == near(("a", 0.9), ("b", 0.7))


def test_it_goes_first_even_at_zero() -> None:
    """The picked document has distance 0, too, if the smallest is 0, and is still the first of those who have."""
    pool = [candidate("a", 1.0), candidate("b", 1.0), candidate("c", 0.4)]
    assert scores(pick(pool, "c")) == [("c", 1.0), ("a", 1.0), ("b", 1.0)]


def test_distances_beyond_one() -> None:
    """Scores below 0 are distances above 1: of 1.5 and 3 the half of the smallest is .75, a score of .25."""
    pool = [candidate("a", -0.5), candidate("b", -2.0)]
    assert scores(pick(pool, "b")) == [("b", 0.25), ("a", -0.5)]


def test_a_score_above_one_is_a_distance_of_zero() -> None:
    """No distance is below 0: beside a raw score of 7 the picked one's is 0; both score 1, and the picked one is first,
    so that scores never rise with the rank.
    """
    pool = [candidate("a", 7.0), candidate("b", 0.5), candidate("c", 0.25)]
    assert scores(pick(pool, "b")) == [("b", 1.0), ("a", 1.0), ("c", 0.25)]


def test_without_a_selection_nothing_changes() -> None:
    """Each candidate keeps place and score if the model named none, or only one that it was not given; it was asked."""
    for said, top in (({}, 2), ({"b": 1.0}, 1), ({"x": 1.0}, 2)):
        pool, of = [candidate("a", 7.0), candidate("b", 0.5)], run()
        found = distance.pick(pool, ModelScores(said, top, selects=True), STAGE, of)
        assert scores(found) == [("a", 7.0), ("b", 0.5)]
        assert of.reranked


def test_the_best_of_the_models_scores_is_the_selection() -> None:
    """A recorded model may have said more than one score: its best one is selected."""
    said = ModelScores({"a": 0.2, "b": 0.9, "c": 0.5}, 3, selects=True)
    pool, of = [candidate("a", 0.8), candidate("b", 0.7), candidate("c", 0.4)], run()
    assert scores(distance.pick(pool, said, STAGE, of)) == near(("b", 0.9), ("a", 0.8), ("c", 0.4))
    assert of.reranked


def test_one_alone() -> None:
    """The only candidate, picked, is at half of its own distance."""
    assert scores(pick([candidate("a", 0.5)], "a")) == [("a", 0.75)]


def test_nothing_to_pick_from_is_nothing() -> None:
    """An empty list stays one."""
    assert pick([], "a") == []


def test_a_pick_is_explained_by_its_smallest_distance() -> None:
    """The picked one's explanation has the score before and after and the distance that was halved; others' none."""
    of = recipe("score", {"llm_rerank": {"enabled": True, "top_k": 7}})
    picking = run(of, explain=True)
    pick([candidate("a", 0.75), candidate("b", 0.25)], "b", picking)
    (step,) = explanation(picking, "b").stages
    assert (step["stage"], step["input"], step["output"]) == ("llm_rerank", 0.25, 0.875)
    assert step["parameters"] == {"enabled": True, "top_k": 7}
    assert step["values"] == {"smallest": 0.25, "distance": 0.125}
    assert picking.explanations is not None
    assert "a" not in picking.explanations.by_id


def test_a_score_that_was_no_distance_is_explained_too() -> None:
    """One whose raw score was above 1 has a step from it to 1: its distance is 0."""
    picking = run(recipe("keyword", {"llm_rerank": {"enabled": True}}), explain=True)
    pick([candidate("a", 7.0), candidate("b", 0.25)], "b", picking)
    for id_, before in (("a", 7.0), ("b", 0.25)):
        (step,) = explanation(picking, id_).stages
        assert (step["input"], step["output"], step["values"]["distance"]) == (before, 1.0, 0.0)


@given(st.lists(st.floats(-100, 1), min_size=1, max_size=12), st.integers(0, 11))
def test_nothing_else_changes(values: list[float], at: int) -> None:
    """The picked one is first and nearest, at half the smallest distance; the others keep scores and order."""
    pool = [Candidate(str(place), value) for place, value in enumerate(sorted(values, reverse=True))]
    before = scores(pool)
    picked = str(at % len(values))
    smallest = 1 - max(values)
    found = pick(pool, picked)
    assert ids(found)[0] == picked
    assert 1 - found[0].score == pytest.approx(smallest / 2, abs=1e-12)
    assert scores(found[1:]) == [pair for pair in before if pair[0] != picked]
    assert [each.score for each in found] == sorted((each.score for each in found), reverse=True)
