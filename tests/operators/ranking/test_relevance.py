"""A reranker's scores in the fused order: by hand, at every weight, and what is left out."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from operators.ranking.candidate import Candidate
from operators.ranking.relevance import merge
from operators.ranking.run import ScoreExplanations
from schemas.query import MAX_FLOAT32
from tests.operators.ranking.pools import any_finite, ids, scores

FUSED = [("a", 1.0), ("b", 0.8), ("c", 0.6), ("d", 0.3), ("e", 0.2)]


def fused(*pairs: tuple[str, float]) -> list[Candidate]:
    """Candidates in fused order."""
    return [Candidate(id_, value) for id_, value in pairs]


def approximately(pairs: list[tuple[str, float]]) -> list[tuple[str, object]]:
    """The same with a tolerance."""
    return [(id_, pytest.approx(value)) for id_, value in pairs]


def test_weight_one_is_the_rerankers_order() -> None:
    """By hand: 0 5 10 become 0 .5 1; the tail .3 .2 becomes 0 -1 and stays behind."""
    merged = merge(fused(*FUSED), {"a": 0.0, "b": 5.0, "c": 10.0}, 3, 1.0)
    assert scores(merged) == approximately([("c", 1.0), ("b", 0.5), ("a", 0.0), ("d", 0.0), ("e", -1.0)])


def test_weight_zero_is_the_fused_order() -> None:
    """The reranker has no say; the scores are min-max over the judged ones: 1 .8 .6 become 1 .5 0."""
    merged = merge(fused(*FUSED), {"a": 0.0, "b": 5.0, "c": 10.0}, 3, 0.0)
    assert scores(merged) == approximately([("a", 1.0), ("b", 0.5), ("c", 0.0), ("d", 0.0), ("e", -1.0)])


def test_half_a_weight_is_the_mean() -> None:
    """By hand: reranker 0 .25 1 and fused 1 .5 0 give .5 .375 .5, equal ones in fused order."""
    merged = merge(fused(*FUSED[:3]), {"a": 0.0, "b": 2.5, "c": 10.0}, 3, 0.5)
    assert scores(merged) == approximately([("a", 0.5), ("c", 0.5), ("b", 0.375)])


def test_what_the_reranker_leaves_out_is_dropped() -> None:
    """A judged candidate without a score was irrelevant; one behind `top` wasn't judged and stays."""
    assert ids(merge(fused(*FUSED), {"c": 1.0}, 3, 1.0)) == ["c", "d", "e"]
    assert ids(merge(fused(*FUSED), {}, 3, 1.0)) == ["d", "e"]
    assert ids(merge(fused(*FUSED), {}, 10, 1.0)) == []


def test_a_score_for_a_candidate_behind_top_is_not_used() -> None:
    """Only the first `top` were judged; the order of the rest is the fused one."""
    assert ids(merge(fused(*FUSED), {"a": 1.0, "b": 2.0, "e": 9.0}, 2, 1.0)) == ["b", "a", "c", "d", "e"]


def test_equal_verdicts_leave_the_fused_order() -> None:
    """A reranker that can't tell candidates apart changes no place."""
    merged = merge(fused(*FUSED[:3]), {"a": 2.0, "b": 2.0, "c": 2.0}, 3, 1.0)
    assert scores(merged) == [("a", 1.0), ("b", 1.0), ("c", 1.0)]


def test_nothing_is_merged_as_nothing() -> None:
    """An empty list stays one, whatever was judged."""
    assert merge([], {}, 3, 1.0) == merge([], {"a": 1.0}, 3, 0.5) == []


@pytest.mark.parametrize("top", [0, 1, 2])
def test_one_candidate_is_the_best_of_its_kind(top: int) -> None:
    """The only judged one scores 1 at any weight, and the only one behind `top` 0."""
    expected = 1.0 if top else 0.0
    assert scores(merge(fused(("a", 0.3)), {"a": -7.0} if top else {}, top, 0.25)) == [("a", expected)]


def test_verdicts_as_far_apart_as_numbers_can_be() -> None:
    """The largest and the smallest score that a reranker may give are rescaled as others are, never to NaN."""
    largest = MAX_FLOAT32
    merged = merge(fused(("a", 0.9), ("b", 0.8), ("c", 0.7)), {"a": largest, "b": 0.0, "c": -largest}, 3, 1.0)
    assert scores(merged) == [("a", 1.0), ("b", 0.5), ("c", 0.0)]


def test_a_merge_is_explained() -> None:
    """A judged one's step has its verdict, both min-max values and their scales, from which its score follows."""
    explanations = ScoreExplanations({})
    merge(fused(*FUSED), {"a": 0.0, "c": 10.0, "b": 2.5}, 3, 0.25, explanations)
    (step,) = explanations.by_id["b"].stages
    assert step["stage"] == "rerank"
    assert step["parameters"] == {"top": 3, "weight": 0.25}
    assert step["input"] == 0.8
    # Verdicts 0 2.5 10 make .25; fused 1 .8 .6 make .5; .25 * .25 + .75 * .5 = .4375.
    assert step["values"]["score"] == 2.5
    assert (step["values"]["relevance"], step["values"]["fused"]) == (pytest.approx(0.25), pytest.approx(0.5))
    assert step["output"] == pytest.approx(0.4375)
    scales = step["values"]["relevance_scale"], step["values"]["fused_scale"]
    assert [(scale["offset"], scale["divisor"]) for scale in scales] == [(0.0, 10.0), (0.6, 0.4)]


def test_the_tail_of_a_merge_is_explained() -> None:
    """Behind `top` the step has the min-max value over the tail; who was dropped has no step."""
    explanations = ScoreExplanations({})
    merge(fused(*FUSED, ("f", 0.0)), {"a": 0.0, "c": 10.0}, 3, 1.0, explanations)
    (step,) = explanations.by_id["e"].stages
    assert (step["stage"], step["input"]) == ("rerank", 0.2)
    # Of .3 .2 0 the second is 2/3.
    assert step["values"]["tail"] == pytest.approx(0.6666666666666667)
    assert (step["values"]["tail_scale"]["offset"], step["values"]["tail_scale"]["divisor"]) == (0.0, 0.3)
    assert step["output"] == pytest.approx(-0.3333333333333333)
    assert sorted(explanations.by_id) == ["a", "c", "d", "e", "f"]


def test_an_explanation_changes_nothing() -> None:
    """Scores and order are the same to the bit with an explanation and without."""
    rerank_scores = {"a": 0.1, "b": 0.7, "c": 0.3}
    assert merge(fused(*FUSED), rerank_scores, 3, 0.3, ScoreExplanations({})) == merge(
        fused(*FUSED), rerank_scores, 3, 0.3
    )


judged = st.lists(st.tuples(any_finite, st.none() | any_finite), max_size=12)


@given(judged, st.integers(0, 12), st.floats(0, 1))
def test_scores_never_rise_with_the_rank(pool: list[tuple[float, float | None]], top: int, weight: float) -> None:
    """Over any finite scores: no score is above one before it, the judged in [0, 1], the tail in [-1, 0]."""
    ranked = sorted((value for value, _ in pool), reverse=True)
    candidates = [Candidate(str(index), value) for index, value in enumerate(ranked)]
    rerank_scores = {
        str(index): rerank_scores for index, (_, rerank_scores) in enumerate(pool) if rerank_scores is not None
    }
    merged = merge(candidates, {id_: value for id_, value in rerank_scores.items() if int(id_) < top}, top, weight)
    values = [candidate.score for candidate in merged]
    assert values == sorted(values, reverse=True)
    head = [candidate for candidate in merged if int(candidate.id) < top]
    assert merged[: len(head)] == head
    assert {candidate.id for candidate in head} == {id_ for id_ in rerank_scores if int(id_) < top}
    assert ids(merged[len(head) :]) == [str(index) for index in range(top, len(pool))]
    assert all(-1e-9 <= candidate.score <= 1 + 1e-9 for candidate in head)
    assert all(-1 <= candidate.score <= 0 for candidate in merged[len(head) :])


@given(st.lists(any_finite, min_size=1, max_size=8, unique=True), st.permutations(range(8)))
def test_weight_one_orders_by_the_reranker_alone(rerank_scores: list[float], order: list[int]) -> None:
    """At weight 1 a better verdict is never behind a worse one, whatever the fused order was."""
    order = [place for place in order if place < len(rerank_scores)]
    candidates = [Candidate(str(place), -float(rank)) for rank, place in enumerate(order)]
    merged = merge(candidates, {str(place): rerank_scores[place] for place in order}, len(order), 1.0)
    by_score = [candidate.score for candidate in merged]
    assert by_score == sorted(by_score, reverse=True)
    best = max(range(len(rerank_scores)), key=lambda place: rerank_scores[place])
    assert next(candidate.score for candidate in merged if candidate.id == str(best)) == 1
