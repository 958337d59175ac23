"""The stage `rerank`: a model's scores in the order before them, by hand and at every weight; what is left out."""

from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from operators.ranking.candidate import Candidate
from operators.ranking.head import rank_by_model
from operators.ranking.run import Facts, ModelScores, Run
from schemas.fields import MAX_FLOAT32
from schemas.pool import ScoreMeasure
from schemas.recipes.stages import Rerank
from tests.operators.ranking.pools import any_finite, candidate, explanation, ids, recipe, run, scores

ORDER = [("a", 1.0), ("b", 0.8), ("c", 0.6), ("d", 0.3), ("e", 0.2)]


def pool(*pairs: tuple[str, float]) -> list[Candidate]:
    """Candidates in the order before the model."""
    return [Candidate(id_, value) for id_, value in pairs]


def merged(
    candidates: list[Candidate], said: Mapping[str, float], top: int, weight: float = 1.0, of: Run | None = None
) -> list[Candidate]:
    """The stage's answer, where the model said this of the first `top`."""
    of = of or Run(Facts())
    of.model = ModelScores(said, top)
    return rank_by_model(candidates, Rerank(weight=weight), of)


def approximately(pairs: list[tuple[str, float]]) -> list[tuple[str, object]]:
    """The same with a tolerance."""
    return [(id_, pytest.approx(value)) for id_, value in pairs]


def test_weight_one_is_the_models_order() -> None:
    """By hand: 0 5 10 become 0 .5 1; the tail .3 .2 becomes 0 -1 and stays behind."""
    found = merged(pool(*ORDER), {"a": 0.0, "b": 5.0, "c": 10.0}, 3)
    assert scores(found) == approximately([("c", 1.0), ("b", 0.5), ("a", 0.0), ("d", 0.0), ("e", -1.0)])


def test_one_is_the_default_weight() -> None:
    """A recipe that only names the stage is ranked by the model."""
    assert Rerank().weight == 1.0


def test_weight_zero_is_the_order_before() -> None:
    """The model has no say; the scores are min-max over what it read: 1 .8 .6 become 1 .5 0."""
    found = merged(pool(*ORDER), {"a": 0.0, "b": 5.0, "c": 10.0}, 3, 0.0)
    assert scores(found) == approximately([("a", 1.0), ("b", 0.5), ("c", 0.0), ("d", 0.0), ("e", -1.0)])


def test_half_a_weight_is_the_mean() -> None:
    """By hand: the model's 0 .25 1 and the order's 1 .5 0 give .5 .375 .5, equal ones by id."""
    found = merged(pool(*ORDER[:3]), {"a": 0.0, "b": 2.5, "c": 10.0}, 3, 0.5)
    assert scores(found) == approximately([("a", 0.5), ("c", 0.5), ("b", 0.375)])


def test_both_scales_are_of_what_the_model_kept() -> None:
    """By hand: without b the order is 1 .6, so 1 0, and the model's 2 4 are 0 1: at weight .25 .75 and .25."""
    found = merged(pool(*ORDER[:3]), {"a": 2.0, "c": 4.0}, 3, 0.25)
    assert scores(found) == approximately([("a", 0.75), ("c", 0.25)])


def test_without_a_model_nothing_changes() -> None:
    """The stage passes its input on, and no score is called reranked."""
    of = run(explain=True)
    candidates = pool(*ORDER)
    assert rank_by_model(candidates, Rerank(weight=0.5), of) is candidates
    assert scores(candidates) == ORDER
    assert not of.reranked
    assert of.explanations is not None
    assert of.explanations.by_id == {}


def test_a_model_that_spoke_reranked() -> None:
    """Whatever it said, also that nothing is relevant, the result is called reranked."""
    for said in ({"a": 1.0, "b": 2.0}, {}):
        of = run()
        merged(pool(*ORDER[:2]), said, 2, of=of)
        assert of.reranked


@pytest.mark.parametrize("weight", [0.0, 0.5, 1.0])
def test_what_the_model_leaves_out_is_dropped_with_the_tail(weight: float) -> None:
    """Of a b c it kept one: the others are gone, and so are d and e, which it never read."""
    assert ids(merged(pool(*ORDER), {"c": 1.0}, 3, weight)) == ["c"]
    assert ids(merged(pool(*ORDER), {"a": 1.0, "b": 0.5}, 3, weight)) == ["a", "b"]


@pytest.mark.parametrize("top", [1, 3, 5, 50])
def test_a_verdict_of_none_is_an_empty_list(top: int) -> None:
    """The model's verdict that nothing is relevant leaves no result, however many it has read."""
    assert merged(pool(*ORDER), {}, top) == []


def test_the_tail_stays_where_nothing_was_left_out() -> None:
    """A model that kept all that it read drops nobody behind them."""
    assert ids(merged(pool(*ORDER), {"a": 1.0, "b": 2.0}, 2)) == ["b", "a", "c", "d", "e"]


def test_a_score_for_a_candidate_behind_top_is_not_used() -> None:
    """Only the first `top` were read; the order of the rest is the one before."""
    assert ids(merged(pool(*ORDER), {"a": 1.0, "b": 2.0, "e": 9.0}, 2)) == ["b", "a", "c", "d", "e"]


def test_equal_scores_leave_the_order() -> None:
    """A model that can't tell candidates apart gives each 1, and a weight below 1 leaves their order."""
    of_one = {"a": 2.0, "b": 2.0, "c": 2.0}
    assert scores(merged(pool(*ORDER[:3]), of_one, 3)) == [("a", 1.0), ("b", 1.0), ("c", 1.0)]
    assert ids(merged(pool(("c", 0.9), ("a", 0.5), ("b", 0.1)), of_one, 3, 0.5)) == ["c", "a", "b"]


def test_equal_scores_go_by_the_documents_id() -> None:
    """However the calls to a model were split, candidates with one score stand in one order: by id."""
    found = [candidate("z", 0.9, id="1"), candidate("a", 0.8, id="2"), candidate("m", 0.7, id="0")]
    assert ids(merged(found, {"z": 1.0, "a": 1.0, "m": 1.0}, 3)) == ["m", "z", "a"]


def test_nothing_is_reranked_as_nothing() -> None:
    """An empty list stays one, whatever was said."""
    assert merged([], {}, 3) == merged([], {"a": 1.0}, 3, 0.5) == []


def test_one_candidate_is_the_best_of_its_kind() -> None:
    """The only one that was read scores 1 at any weight, and the only one behind `top` 0."""
    found = merged(pool(("a", 0.3), ("b", 0.1)), {"a": -7.0}, 1, 0.25)
    assert scores(found) == [("a", 1.0), ("b", 0.0)]


def test_scores_as_far_apart_as_numbers_can_be() -> None:
    """The largest and the smallest score that a model may give are rescaled as others are, never to NaN."""
    largest = MAX_FLOAT32
    found = merged(pool(("a", 0.9), ("b", 0.8), ("c", 0.7)), {"a": largest, "b": 0.0, "c": -largest}, 3)
    assert scores(found) == [("a", 1.0), ("b", 0.5), ("c", 0.0)]


def test_a_model_that_selects_moves_one_to_the_front() -> None:
    """By hand: of distances .2 .3 .6 the third is selected and gets .1; nobody is dropped, at any weight."""
    of = run()
    of.model = ModelScores({"c": 1.0}, 3, selects=True)
    found = rank_by_model(pool(("a", 0.8), ("b", 0.7), ("c", 0.4), ("d", 0.3)), Rerank(weight=0.5), of)
    assert scores(found) == approximately([("c", 0.9), ("a", 0.8), ("b", 0.7), ("d", 0.3)])
    assert of.reranked


@pytest.mark.parametrize(
    ("text", "measure", "weight"),
    [
        ("blue lantern", "similarity", 0.25),
        ("the blue lantern of the harbor and the blue harbor", "similarity", 0.5),
        ("", "similarity", 0.0),
        ("blue lantern", "share", 0.5),
    ],
)
def test_late_interaction_of_few_words_counts_for_less(text: str, measure: ScoreMeasure, weight: float) -> None:
    """By hand: of 4 words a query of 2 has half of the weight, one of 6 distinct words all; other models have all."""
    of = Run(Facts(text=text))
    of.model = ModelScores({"a": 0.0, "b": 1.0}, 2, measure=measure)
    found = rank_by_model(pool(("a", 0.9), ("b", 0.1)), Rerank(weight=0.5, words=4), of)
    assert dict(scores(found)) == {"a": pytest.approx(1 - weight), "b": pytest.approx(weight)}


def test_the_model_is_explained() -> None:
    """The step has the model's score, both min-max values and their scales, from which the score follows."""
    of = run(recipe("score", {"rerank": {"weight": 0.25}}), explain=True)
    merged(pool(*ORDER), {"a": 0.0, "c": 10.0, "b": 2.5}, 3, 0.25, of)
    (step,) = explanation(of, "b").stages
    assert step["stage"] == "rerank"
    assert step["parameters"] == {"weight": 0.25, "context": 0.0, "words": 1}
    assert step["input"] == 0.8
    # The model's 0 2.5 10 make .25; the order's 1 .8 .6 make .5; .25 * .25 + .75 * .5 = .4375.
    values = step["values"]
    assert (values["score"], values["top"]) == (2.5, 3)
    assert (values["relevance"], values["order"]) == (pytest.approx(0.25), pytest.approx(0.5))
    assert step["output"] == pytest.approx(0.4375)
    scales = values["relevance_scale"], values["order_scale"]
    assert [(scale["offset"], scale["divisor"]) for scale in scales] == [(0.0, 10.0), (0.6, 0.4)]


def test_the_tail_is_explained() -> None:
    """Behind `top` the step has the min-max value over the tail and its scale."""
    of = run(explain=True)
    merged(pool(*ORDER, ("f", 0.0)), {"a": 0.0, "b": 5.0, "c": 10.0}, 3, of=of)
    (step,) = explanation(of, "e").stages
    assert (step["stage"], step["input"]) == ("rerank", 0.2)
    # Of .3 .2 0 the second is 2/3.
    assert step["values"]["tail"] == pytest.approx(0.6666666666666667)
    assert step["values"]["top"] == 3
    assert (step["values"]["tail_scale"]["offset"], step["values"]["tail_scale"]["divisor"]) == (0.0, 0.3)
    assert step["output"] == pytest.approx(-0.3333333333333333)


def test_what_is_dropped_has_no_step() -> None:
    """Neither what the model left out nor the tail behind it is explained."""
    of = run(explain=True)
    merged(pool(*ORDER), {"a": 0.0, "c": 10.0}, 3, of=of)
    assert of.explanations is not None
    assert sorted(of.explanations.by_id) == ["a", "c"]


def test_an_explanation_changes_nothing() -> None:
    """Scores and order are the same to the bit with an explanation and without."""
    said = {"a": 0.1, "b": 0.7, "c": 0.3}
    assert merged(pool(*ORDER), said, 3, 0.3, run(explain=True)) == merged(pool(*ORDER), said, 3, 0.3)


read = st.lists(st.tuples(any_finite, st.none() | any_finite), max_size=12)


@given(read, st.integers(1, 12), st.floats(0, 1))
def test_scores_never_rise_with_the_rank(values: list[tuple[float, float | None]], top: int, weight: float) -> None:
    """Over any finite scores: best first, what was read in [0, 1], the tail in [-1, 0] and in its order; the tail is
    there exactly where the model kept all.
    """
    ranked = sorted((value for value, _ in values), reverse=True)
    said = {str(place): score for place, (_, score) in enumerate(values) if score is not None and place < top}
    found = merged([Candidate(str(place), value) for place, value in enumerate(ranked)], said, top, weight)
    assert [each.score for each in found] == sorted((each.score for each in found), reverse=True)
    head, tail = found[: len(said)], found[len(said) :]
    assert {each.id for each in head} == said.keys()
    kept_all = len(said) == min(top, len(values))
    assert ids(tail) == ([str(place) for place in range(top, len(values))] if kept_all else [])
    assert all(-1e-9 <= each.score <= 1 + 1e-9 for each in head)
    assert all(-1 <= each.score <= 0 for each in tail)


@given(st.lists(any_finite, min_size=1, max_size=8, unique=True), st.permutations(range(8)))
def test_weight_one_orders_by_the_model_alone(said: list[float], order: list[int]) -> None:
    """At weight 1 the list is the same in whatever order the candidates came, and the model's best has 1."""
    by_id = {str(place): value for place, value in enumerate(said)}

    def found(places: list[int]) -> list[tuple[str, float]]:
        candidates = [Candidate(str(place), -float(rank)) for rank, place in enumerate(places)]
        return scores(merged(candidates, by_id, len(said)))

    moved = [place for place in order if place < len(said)]
    assert found(moved) == found(sorted(moved))
    assert dict(found(moved))[str(max(range(len(said)), key=said.__getitem__))] == found(moved)[0][1] == 1.0


@given(
    st.lists(st.tuples(st.floats(-1e3, 1e3), st.floats(-1e3, 1e3)), min_size=2, max_size=8),
    st.integers(0, 7),
    st.floats(0.001, 1e3),
    st.floats(0, 1),
)
def test_a_better_word_of_the_model_never_hurts(
    values: list[tuple[float, float]], at: int, more: float, weight: float
) -> None:
    """A candidate of which the model says more than before stands no farther back."""
    at %= len(values)
    ranked = sorted((value for value, _ in values), reverse=True)
    said = {str(place): score for place, (_, score) in enumerate(values)}

    def place(of: Mapping[str, float]) -> int:
        found = merged([Candidate(str(rank), value) for rank, value in enumerate(ranked)], of, len(values), weight)
        mine = next(each.score for each in found if each.id == str(at))
        # As far as floats can tell scores apart.
        return sum(each.score > mine + 1e-9 for each in found)

    assert place({**said, str(at): said[str(at)] + more}) <= place(said)
