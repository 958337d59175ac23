"""Linear fusion: an absolute similarity by hand, the bound of what the vector leg left out, and what never moves it."""

import sys
from collections.abc import Sequence

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from operators.ranking.candidate import Leg, in_tie_order
from operators.ranking.fusion import bound, linear
from operators.ranking.run import Facts
from schemas.recipes import SHIPPED
from schemas.recipes.fusion import Linear
from schemas.result import KEYWORD, VECTOR
from tests.operators.ranking.odd import ago
from tests.operators.ranking.pools import (
    NOW,
    explanation,
    ids,
    keyword,
    leg,
    near,
    rank,
    recipe,
    run,
    scores,
    structured,
    vector,
)

BOTH = [vector(("a", 0.9), ("b", 0.5), ("c", 0.3)), keyword(("b", 8.0), ("d", 2.0))]


def fused(legs: Sequence[Leg], alpha: float | None = None) -> list[tuple[str, object]]:
    """Ids and scores, with a tolerance."""
    stage = Linear() if alpha is None else Linear(alpha=alpha)
    return [(id_, pytest.approx(value)) for id_, value in scores(linear(in_tie_order(legs), stage, run()))]


def test_the_similarity_by_hand() -> None:
    """.6 * cosine + .4 * BM25 / 8: a .54, b .3 + .4, c .18; d has the smallest cosine, .3, so .18 + .4 * 2/8."""
    assert scores(linear(BOTH, Linear(), run())) == near(b=0.7, a=0.54, d=0.28, c=0.18)


def test_alpha_is_the_share_of_the_cosine() -> None:
    """At .25: a .225, b .125 + .75, d .075 + .75/4, c .075; at 0 and 1 one of both alone, d at the bound."""
    assert fused(BOTH, 0.25) == [("b", 0.875), ("d", 0.2625), ("a", 0.225), ("c", 0.075)]
    assert fused(BOTH, 0.0) == [("b", 1.0), ("d", 0.25), ("a", 0.0), ("c", 0.0)]
    assert fused(BOTH, 1.0) == [("a", 0.9), ("b", 0.5), ("c", 0.3), ("d", 0.3)]


@pytest.mark.parametrize("alpha", [0.0, 0.6, 1.0])
def test_one_leg_alone_has_all_weight(alpha: float) -> None:
    """Whatever alpha is: keyword alone is BM25 / the largest, vector alone is the cosine."""
    assert fused([keyword(("b", 8.0), ("d", 2.0))], alpha) == [("b", 1.0), ("d", 0.25)]
    assert fused([vector(("a", 0.9), ("b", 0.5))], alpha) == [("a", 0.9), ("b", 0.5)]


def test_a_leg_that_found_nothing_keeps_its_weight() -> None:
    """It answered: without a cosine in it the bound is 0, without a match the words count 0."""
    assert fused([vector(), keyword(("b", 8.0), ("d", 2.0))]) == [("b", 0.4), ("d", 0.1)]
    assert fused([vector(("a", 0.9)), keyword()]) == [("a", 0.54)]


def test_a_cosine_below_zero_counts_zero() -> None:
    """A leg whose smallest cosine is below 0 has the bound 0."""
    assert fused([vector(("a", 0.5), ("b", -0.5)), keyword(("b", 4.0), ("c", 1.0))]) == [
        ("b", 0.4),
        ("a", 0.3),
        ("c", 0.1),
    ]


def test_a_match_below_zero_counts_zero() -> None:
    """As a cosine does: .6 * .5 is left of b."""
    assert fused([vector(("a", 0.9), ("b", 0.5)), keyword(("a", 4.0), ("b", -8.0))]) == [("a", 0.94), ("b", 0.3)]


TINY, HUGE = 5e-324, sys.float_info.max
finite = st.floats(allow_nan=False, allow_infinity=False) | st.sampled_from([TINY, -TINY, 1e-300, -1e20, HUGE, -HUGE])


@given(st.lists(finite, min_size=2, max_size=4), st.lists(finite, min_size=2, max_size=4), st.floats(0, 1))
@example([0.5, 0.4], [1e-300, -1e20], 0.6)
@example([HUGE, -HUGE], [TINY, -HUGE], 0.0)
def test_finite_scores_have_a_similarity(cosines: list[float], matches: list[float], alpha: float) -> None:
    """From 0 to 1, whatever the legs' scores are: a tiny greatest match makes no other one infinite."""
    legs = [
        of(*((f"d{place}", value) for place, value in enumerate(sorted(values, reverse=True))))
        for of, values in ((vector, cosines), (keyword, matches))
    ]
    assert all(0 <= value <= 1 for _, value in scores(linear(legs, Linear(alpha=alpha), run())))


def test_a_similarity_is_at_most_one() -> None:
    """A cosine that rounding took above 1 is no distance below 0."""
    assert scores(linear([vector(("a", 1.0000001)), keyword(("a", 3.0))], Linear(), run())) == [("a", 1.0)]


def test_words_that_weigh_nothing_are_no_divisor() -> None:
    """All words count 0 if the largest BM25 is 0."""
    assert fused([vector(("a", 0.5)), keyword(("b", 0.0), ("a", 0.0))]) == [("a", 0.3), ("b", 0.3)]


@pytest.mark.parametrize(
    ("cosines", "least"), [([0.9, 0.5, 0.3], 0.3), ([0.7], 0.7), ([0.3, -0.1], 0.0), ([-0.5], 0.0), ([], 0.0)]
)
def test_the_bound_is_the_smallest_cosine(cosines: list[float], least: float) -> None:
    """A document that the vector leg didn't return cannot exceed its last; below 0 counts 0, and nothing found is 0."""
    assert bound({str(place): cosine for place, cosine in enumerate(cosines)}) == least


def test_an_id_that_a_leg_repeats_counts_at_its_first_rank() -> None:
    """A second appearance changes neither the document's cosine nor the bound, nor its BM25."""
    found = [vector(("a", 0.9), ("b", 0.5), ("a", 0.1)), keyword(("c", 8.0), ("d", 4.0), ("c", 2.0))]
    assert fused(found) == [("c", 0.7), ("a", 0.54), ("d", 0.5), ("b", 0.3)]


def test_other_legs_offer_candidates_and_no_score() -> None:
    """A document that only a further leg returned is at the bound, without words."""
    assert fused([structured("s"), leg("image", ("i", 50.0)), *BOTH])[-3:] == [("c", 0.18), ("s", 0.18), ("i", 0.18)]


def test_ties_go_by_leg_and_rank() -> None:
    """Equal scores stand as in the vector leg, then as in the keyword leg, whatever the ids."""
    found = [keyword(("k", 0.0), ("j", 0.0)), vector(("z", 0.5), ("b", 0.5))]
    for legs in (found, found[::-1]):
        assert ids(linear(in_tie_order(legs), Linear(), run())) == ["z", "b", "k", "j"]


@pytest.mark.parametrize(("limit", "kept"), [(2, "ba"), (1, "b"), (9, "badc"), (0, "badc"), (-3, "badc")])
def test_the_limit(limit: int, kept: str) -> None:
    """At most `limit` are left, the best; 0 or less is all."""
    assert ids(linear(BOTH, Linear(limit=limit), run())) == list(kept)


def test_nothing_is_fused_as_nothing() -> None:
    """No legs and empty legs give an empty list."""
    assert linear([], Linear(), run()) == linear([vector(), keyword()], Linear(), run()) == []


def test_it_is_explained_by_cosine_bound_and_the_largest() -> None:
    """d, which the vector leg left out: the bound .3, 2 of 8, and the weights by which they count."""
    of = run(recipe("linear"), explain=True)
    linear(BOTH, Linear(), of)
    told = explanation(of, "d")
    assert told.legs == {
        KEYWORD: {"rank": 1, "score": 2.0, "normalised": 0.25, "weight": 0.4, "contribution": pytest.approx(0.1)}
    }
    (step,) = told.stages
    assert step["values"] == {
        "cosine": 0.3,
        "keyword": 0.25,
        "weights": {VECTOR: 0.6, KEYWORD: 0.4},
        "bound": 0.3,
        "greatest": 8.0,
    }


def test_the_best_candidate_ages_too() -> None:
    """The page's example: cosine .862 and BM25 7.3, ten years old, against .860 and 7.2 of yesterday: the new one is
    first. Its distance is 1 - .516 - .4 * 7.2 / 7.3 = .08948; the old one's 1 - .5172 - .4 = .0828 is divided by .3.
    """
    dated = {"old": {"created_at": ago(3650)}, "new": {"created_at": ago(1)}}
    found = [
        vector(("old", 0.862), ("new", 0.860), payloads=dated),
        keyword(("old", 7.3), ("new", 7.2), payloads=dated),
    ]
    aged = recipe("linear", {"weibull_decay": {"enabled": True}})
    asked = Facts(now=NOW, text="")
    assert ids(rank(recipe("linear"), found, asked).candidates) == ["old", "new"]
    for of in (aged, SHIPPED["distance"]):
        best, second = rank(of, found, asked).candidates
        assert (best.id, second.id) == ("new", "old")
        # S = exp(-(1/90)^1.5) = .99882947: .08947945 / (.3 + .7 * .99882947) = .08955283
        assert best.score == pytest.approx(1 - 0.0895528289, abs=1e-9)
        assert second.score == pytest.approx(1 - 0.0828 / 0.3, abs=1e-9)


@pytest.mark.parametrize(
    ("most", "kept"), [(0.47, "ba"), (0.45, "b"), (0.73, "bad"), (0.83, "badc"), (0.29, ""), (0, "badc")]
)
def test_max_distance_is_absolute(most: float, kept: str) -> None:
    """Of distances .3 .46 .72 .82 those within the bound stay, without any distance stage, with their scores."""
    found = rank(recipe("linear", max_distance=most), BOTH, Facts()).candidates
    assert ids(found) == list(kept)
    assert scores(found) == scores(linear(BOTH, Linear(), run()))[: len(kept)]


def test_at_max_distance_it_stays() -> None:
    """A distance of exactly the bound is within it."""
    found = [vector(("a", 0.75), ("b", 0.5), ("c", 0.4375))]
    assert ids(rank(recipe("linear", max_distance=0.5), found, Facts()).candidates) == ["a", "b"]


def test_max_distance_drops_a_query_without_a_near_document() -> None:
    """Nothing near is nothing found: the best of a bad lot is not near for being the best."""
    far = [vector(("a", 0.2), ("b", 0.1)), keyword()]
    assert rank(recipe("linear", max_distance=0.5), far, Facts()).candidates == []


cosines = st.floats(-1, 1, width=32)
matches = st.floats(0, 50, width=32)
pools = st.tuples(
    st.dictionaries(st.sampled_from("abcdefghij"), cosines, max_size=8),
    st.dictionaries(st.sampled_from("abcdefghij"), matches, max_size=8),
)


def of(cosine: dict[str, float], words: dict[str, float]) -> list[Leg]:
    """Both legs, best first."""
    return [make(*sorted(hits.items(), key=lambda hit: -hit[1])) for make, hits in ((vector, cosine), (keyword, words))]


@given(pools, st.floats(0, 1))
def test_a_similarity_is_within_zero_and_one(pool: tuple[dict[str, float], dict[str, float]], alpha: float) -> None:
    """Every document that a leg returned is there once, within 0 and 1, best first."""
    found = linear(of(*pool), Linear(alpha=alpha), run())
    assert sorted(ids(found)) == sorted(pool[0].keys() | pool[1].keys())
    assert all(0 <= each.score <= 1 for each in found)
    assert [each.score for each in found] == sorted((each.score for each in found), reverse=True)


@given(pools, st.floats(0, 1), st.sampled_from("abcdefghij"), cosines)
def test_who_is_beside_a_document_does_not_move_it(
    pool: tuple[dict[str, float], dict[str, float]], alpha: float, other: str, cosine: float
) -> None:
    """A further hit of the vector leg leaves the score of every document that has a cosine as it was, to the bit."""
    before = dict(scores(linear(of(*pool), Linear(alpha=alpha), run())))
    after = dict(scores(linear(of({**pool[0], other: cosine}, pool[1]), Linear(alpha=alpha), run())))
    assert all(after[id_] == before[id_] for id_ in pool[0].keys() - {other})


@given(pools, st.floats(0, 1), st.sampled_from("abcdefghij"), st.floats(-1, 0))
def test_what_the_vector_leg_left_out_is_never_underestimated(
    pool: tuple[dict[str, float], dict[str, float]], alpha: float, id_: str, under: float
) -> None:
    """With any cosine that it may have had below the leg's last, a document would score no more than by the bound."""
    cosine, words = {key: value for key, value in pool[0].items() if key != id_}, {**pool[1], id_: 1.0}
    if not cosine:
        return
    bounded = dict(scores(linear(of(cosine, words), Linear(alpha=alpha), run())))
    known = dict(scores(linear(of({**cosine, id_: min(cosine.values()) + under}, words), Linear(alpha=alpha), run())))
    assert known[id_] <= bounded[id_]


@given(pools, st.floats(0, 1), st.floats(0, 1, width=32))
def test_more_similar_is_never_farther(
    pool: tuple[dict[str, float], dict[str, float]], alpha: float, more: float
) -> None:
    """A greater cosine never lowers a document's score."""
    for id_, cosine in pool[0].items():
        raised = {**pool[0], id_: cosine + more}
        before = dict(scores(linear(of(*pool), Linear(alpha=alpha), run())))
        after = dict(scores(linear(of(raised, pool[1]), Linear(alpha=alpha), run())))
        assert after[id_] >= before[id_]
