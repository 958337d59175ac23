"""The stages `feedback` and `smoothing`: cases worked by hand, and what holds for all of them."""

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from operators.ranking.candidate import Candidate
from operators.ranking.head import feedback, smoothing
from operators.ranking.run import Run
from schemas.recipes.stages import Feedback, SimilarityStage, Smoothing
from tests.operators.ranking.pools import run

SQUARE = {"a": [3, 0], "b": [0, 2], "c": [1, 1], "d": [-1, 0]}
"""Vectors of any length; a and c, and b and c, are 45 degrees apart."""

HALF = math.sqrt(0.5)


def ranked(stage: SimilarityStage, scores: dict[str, float], vectors: dict[str, Any], *, explain: bool = False) -> Run:
    """A run by that stage; `order` has its candidates."""
    of = run(explain=explain)
    of.vectors = {id_: np.array(vector, np.float16) for id_, vector in vectors.items()}
    step: Any = {Feedback: feedback, Smoothing: smoothing}[type(stage)]
    order[:] = step([Candidate(id_, score) for id_, score in scores.items()], stage, of)
    return of


order: list[Candidate] = []


def scores() -> dict[str, float]:
    """The scores of the last run, best first."""
    return {candidate.id: candidate.score for candidate in order}


def test_feedback_by_hand() -> None:
    """The mean of a and half of b is at (1, 1/2): its cosines are spread over 0 to 1, and mixed with the scores."""
    ranked(Feedback(weight=0.5, top=2), {"a": 4.0, "b": 3.0, "c": 2.0, "d": 0.0}, SQUARE)
    length = math.sqrt(1.25)
    cosines = {"a": 1 / length, "b": 0.5 / length, "c": 1.5 * HALF / length, "d": -1 / length}
    low, high = cosines["d"], cosines["c"]
    old = {"a": 1.0, "b": 0.75, "c": 0.5, "d": 0.0}
    expected = {id_: 0.5 * old[id_] + 0.5 * (cosines[id_] - low) / (high - low) for id_ in old}
    assert scores() == pytest.approx(expected, abs=1e-12)
    assert list(scores()) == ["a", "c", "b", "d"]


def test_smoothing_by_hand() -> None:
    """With one neighbour, each moves towards the score of the one that is nearest to it."""
    ranked(Smoothing(weight=0.5, neighbours=1), {"a": 4.0, "b": 3.0, "c": 2.0, "d": 0.0}, SQUARE)
    # The nearest of a and of b is c, that of c is a, which comes first of two equals, and that of d is b.
    assert scores() == pytest.approx({"a": 0.75, "c": 0.75, "b": 0.625, "d": 0.375}, abs=1e-12)


def test_smoothing_weighs_the_nearer_more() -> None:
    """Two neighbours count by the exponentials of their cosines over the temperature."""
    ranked(Smoothing(weight=1.0, neighbours=2, temperature=0.5), {"a": 2.0, "b": 1.0, "d": 0.0}, SQUARE)
    of_b, of_d = math.exp(0.0), math.exp(-1.0 / 0.5)
    expected = {
        "a": (0.5 * of_b + 0.0 * of_d) / (of_b + of_d),
        "b": 0.5,
        "d": (1.0 * of_d + 0.5 * of_b) / (of_b + of_d),
    }
    assert scores() == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize("stage", [Feedback(candidates=2), Smoothing(candidates=2)])
def test_the_others_follow_in_their_order(stage: SimilarityStage) -> None:
    """Behind the candidates that are compared nothing is overtaken, and no score rises."""
    ranked(stage, {"b": 9.0, "d": 8.0, "a": 7.0, "c": 5.0}, SQUARE)
    assert list(scores())[2:] == ["a", "c"]
    assert [scores()["a"], scores()["c"]] == [0.0, -1.0]
    assert min(scores()["b"], scores()["d"]) >= 0


@pytest.mark.parametrize("stage", [Feedback(), Smoothing()])
@pytest.mark.parametrize("vectors", [{}, {"a": [1, 0]}, {"a": [1, 0], "b": [0, 0]}])
def test_without_two_vectors_nothing_changes(stage: SimilarityStage, vectors: dict[str, Any]) -> None:
    """Not a score, for there is nothing to compare; a vector of zeros has no direction."""
    ranked(stage, {"a": 9.0, "b": 3.0, "c": 1.0}, vectors)
    assert scores() == {"a": 9.0, "b": 3.0, "c": 1.0}


def test_a_candidate_without_a_vector() -> None:
    """It is like nothing for feedback; smoothing leaves it its score, and nobody gets a part of that."""
    some = {id_: SQUARE[id_] for id_ in "ab"}
    ranked(Smoothing(weight=0.5), {"c": 4.0, "a": 2.0, "b": 0.0}, some)
    assert scores() == pytest.approx({"c": 1.0, "a": 0.25, "b": 0.25})
    ranked(Feedback(weight=1.0, top=1), {"c": 4.0, "a": 2.0, "b": 0.0}, some)
    assert scores() == pytest.approx({"a": 1.0, "b": 0.0, "c": 0.0})


found = st.dictionaries(st.text("abcdefgh", min_size=1, max_size=2), st.floats(-1e6, 1e6), min_size=2, max_size=30)
stages = st.one_of(
    st.builds(Feedback, weight=st.floats(0, 1), top=st.integers(1, 9), candidates=st.integers(2, 9)),
    st.builds(
        Smoothing,
        weight=st.floats(0, 1),
        neighbours=st.integers(1, 9),
        temperature=st.floats(0.001, 1000),
        candidates=st.integers(2, 9),
    ),
)


@given(found, stages, st.randoms(use_true_random=False))
def test_nothing_is_lost_and_scores_are_bounded(given: dict[str, float], stage: SimilarityStage, random: Any) -> None:
    """The same candidates come out, in the order of their scores, the compared ones first and from 0 to 1."""
    before = dict(sorted(given.items(), key=lambda each: -each[1]))
    vectors = {id_: [random.choice([-1.0, 0.5, 1.0]) for _ in range(3)] for id_ in before if random.random() < 0.8}
    first = list(before)[: stage.candidates]
    ranked(stage, before, vectors)
    assert sorted(scores()) == sorted(before)
    assert list(scores().values()) == sorted(scores().values(), reverse=True)
    if len(vectors.keys() & set(first)) > 1:
        assert set(list(scores())[: len(first)]) == set(first)
        assert all(-1e-9 <= scores()[id_] <= 1 + 1e-9 for id_ in first)


def test_an_explanation_has_what_a_score_is_made_of() -> None:
    """The score before, on its scale, and the cosine or the mean that it is mixed with."""
    of = ranked(Feedback(candidates=2), {"a": 4.0, "b": 3.0, "c": 2.0}, SQUARE, explain=True)
    assert of.explanations is not None
    values = {id_: of.explanations.by_id[id_].stages[0]["values"] for id_ in "abc"}
    assert values["a"].keys() == {"order", "cosine", "similarity", "order_scale", "similarity_scale"}
    assert values["c"].keys() == {"tail", "tail_scale"}
    of = ranked(Smoothing(), {"a": 4.0, "b": 3.0}, SQUARE, explain=True)
    assert of.explanations is not None
    assert of.explanations.by_id["a"].stages[0]["values"].keys() == {"order", "mean", "order_scale"}
