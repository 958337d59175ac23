"""Reciprocal rank fusion and score fusion: the formulas by hand, their edges, ties and properties."""

import itertools
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from operators.ranking.candidate import Candidate, Leg, best_first, in_tie_order
from operators.ranking.fusion import rrf, score
from schemas.recipes import RecipeError
from schemas.recipes.fusion import Rrf, Score
from schemas.result import KEYWORD, STRUCTURED, VECTOR
from tests.operators.ranking.pools import (
    any_finite,
    explanation,
    hits,
    ids,
    keyword,
    leg,
    legs,
    recipe,
    run,
    scores,
    structured,
    vector,
)

FIVE = [
    leg("zebra", ("z", 1.0)),
    leg("apple", ("p", 1.0)),
    structured("s"),
    keyword(("k", 1.0)),
    vector(("v", 1.0)),
]
"""Five legs with a document each, the last in the order of ties first."""


def by_rank(found: Sequence[Leg], **parameters: Any) -> list[Candidate]:
    """Reciprocal rank fusion with these parameters."""
    return rrf(in_tie_order(found), Rrf(**parameters), run())


def by_score(found: Sequence[Leg], **parameters: Any) -> list[Candidate]:
    """Score fusion with these parameters."""
    return score(in_tie_order(found), Score(**parameters), run())


def test_rrf_by_hand() -> None:
    """Each leg gives 1 / (5 + rank), ranks from 0, and the sum decides."""
    fused = by_rank([vector(("a", 0.9), ("b", 0.5), ("c", 0.1)), keyword(("c", 12.0), ("a", 6.0), ("d", 2.0))])
    # a 1/5 + 1/6 = .3667, c 1/7 + 1/5 = .3429, b 1/6 = .1667, d 1/7 = .1429
    assert ids(fused) == ["a", "c", "b", "d"]
    assert [one.score for one in fused] == pytest.approx([11 / 30, 12 / 35, 1 / 6, 1 / 7], rel=1e-12)


def test_rrf_looks_at_ranks_alone() -> None:
    """The legs' scores don't matter, only the places."""
    assert scores(by_rank([vector(("a", 0.9), ("b", 0.5))])) == scores(by_rank([vector(("a", 7e9), ("b", -3.0))]))


@pytest.mark.parametrize(("k", "first"), [(5.0, "a"), (60.0, "b")])
def test_a_steep_k_keeps_a_lone_first_hit_ahead(k: float, first: str) -> None:
    """At k = 5 the best of one leg (1/5) beats the twenty-first of both (2/25); at k = 60 it doesn't (1/60, 2/80)."""
    fillers = [[(f"{name}{rank}", 0.0) for rank in range(19)] for name in "vk"]
    fused = by_rank([vector(("a", 0.0), *fillers[0], ("b", 0.0)), keyword(("x", 0.0), *fillers[1], ("b", 0.0))], k=k)
    assert next(id_ for id_ in ids(fused) if id_ in "ab") == first


@pytest.mark.parametrize("k", [0.0, -0.0, -1.0, -1e9])
def test_a_k_of_zero_or_less_means_five(k: float) -> None:
    """There is no division by zero and no negative share."""
    assert scores(by_rank([vector(("a", 1.0), ("b", 0.5))], k=k)) == [("a", 1 / 5), ("b", 1 / 6)]


def test_rrf_weighs_the_legs() -> None:
    """A leg's share is multiplied by its weight; a leg without one weighs 1, whatever its name."""
    found = [vector(("a", 1.0)), keyword(("b", 1.0)), leg("apple", ("p", 1.0))]
    # a 3/5, b 1/5, p 1/5
    fused = by_rank(found, weights={VECTOR: 3.0})
    assert ids(fused) == ["a", "b", "p"]
    assert [one.score for one in fused] == pytest.approx([3 / 5, 1 / 5, 1 / 5], rel=1e-12)
    assert scores(by_rank(found, weights={VECTOR: 0.0}))[-1] == ("a", 0.0)


@pytest.mark.parametrize("fuse", [by_rank, by_score])
def test_the_structured_leg_weighs_nothing_unless_the_recipe_says_so(fuse: Any) -> None:
    """Its hits are candidates, with 0 where it has no weight and their share where it has one."""
    found = [structured("s", "a"), keyword(("a", 1.0))]
    without = dict(scores(fuse(found)))
    assert without["s"] == 0.0
    assert without["a"] > 0
    one = dict(scores(fuse(found, weights={STRUCTURED: 1.0})))
    # rrf: 1/(5 + 0); score: its scores are all equal, so each has 1.
    assert one["s"] == (0.2 if fuse is by_rank else 1.0)


@pytest.mark.parametrize("fuse", [by_rank, by_score])
def test_ties_go_by_leg_whatever_order_the_legs_arrive_in(fuse: Any) -> None:
    """Of equal scores: vector, keyword, structured, then the others by name, in each of the 120 orders of arrival."""
    weights = dict.fromkeys((VECTOR, KEYWORD, STRUCTURED, "apple", "zebra"), 1.0)
    for found in itertools.permutations(FIVE):
        assert ids(fuse(found, weights=weights)) == ["v", "k", "s", "p", "z"]


def test_ties_of_documents_in_several_legs_go_by_the_first_leg() -> None:
    """Two documents with the ranks 0 and 1 in opposite legs tie, and the vector leg's first goes first."""
    tied = by_rank([keyword(("b", 1.0), ("a", 0.5)), vector(("a", 1.0), ("b", 0.5))])
    assert scores(tied) == [("a", 1 / 5 + 1 / 6), ("b", 1 / 6 + 1 / 5)]


def test_ties_within_a_leg_go_by_rank() -> None:
    """Documents that a leg can't tell apart keep its order, not that of their ids."""
    both = [vector(("v2", 1.0), ("v1", 1.0)), keyword(("k2", 5.0), ("k1", 5.0))]
    assert ids(by_score(both)) == ids(by_score(both[::-1])) == ["v2", "v1", "k2", "k1"]


def test_a_repeated_id_counts_at_its_first_rank_and_moves_nobody() -> None:
    """A rank is a place in the leg's own list: what follows a repeated id stays where the leg has it."""
    fused = by_rank([vector(("a", 0.9), ("b", 0.5), ("a", 0.3), ("c", 0.1))])
    assert scores(fused) == [("a", 1 / 5), ("b", 1 / 6), ("c", 1 / 8)]


@pytest.mark.parametrize("method", ["rrf", "score"])
def test_the_explanation_has_the_ranks_that_the_leg_has(method: str) -> None:
    """The rank that an explanation gives is the place in the leg's own list, behind a repeated id, too."""
    of = run(recipe(method), explain=True)
    found = [vector(("a", 0.9), ("b", 0.5), ("a", 0.3), ("c", 0.1))]
    if method == "rrf":
        rrf(found, Rrf(), of)
    else:
        score(found, Score(), of)
    assert [explanation(of, id_).legs[VECTOR]["rank"] for id_ in "abc"] == [0, 1, 3]


@pytest.mark.parametrize("fuse", [by_rank, by_score])
@pytest.mark.parametrize(("limit", "kept"), [(0, "abc"), (-1, "abc"), (1, "a"), (2, "ab"), (3, "abc"), (9, "abc")])
def test_a_limit_keeps_the_first(fuse: Any, limit: int, kept: str) -> None:
    """At most `limit` candidates stay, the best; 0 or less keeps all."""
    assert ids(fuse([vector(("a", 0.9), ("b", 0.5), ("c", 0.1))], limit=limit)) == list(kept)


@pytest.mark.parametrize("fuse", [by_rank, by_score])
def test_a_lost_legs_weight_is_not_shared(fuse: Any) -> None:
    """Without the keyword leg a document has what the vector leg gives it, as if the other had found nothing."""
    found = vector(("a", 0.9), ("b", 0.1))
    assert scores(fuse([found])) == scores(fuse([found, keyword()]))
    assert dict(scores(fuse([found])))["a"] == (1 / 5 if fuse is by_rank else 0.5)


@pytest.mark.parametrize("fuse", [by_rank, by_score])
def test_nothing_found_is_an_empty_list(fuse: Any) -> None:
    """No legs, and empty legs, give no candidates."""
    assert fuse([]) == fuse([vector(), keyword(), structured()]) == []


def test_score_fusion_by_hand() -> None:
    """Vector .9 .5 .1 become 1 .5 0, keyword 12 6 2 become 1 .4 0; half of each is the sum."""
    fused = by_score([vector(("a", 0.9), ("b", 0.5), ("c", 0.1)), keyword(("c", 12.0), ("b", 6.0), ("d", 2.0))])
    # a .5*1, b .5*.5 + .5*.4, c .5*0 + .5*1, d .5*0: a before c, as the vector leg comes first.
    assert ids(fused) == ["a", "c", "b", "d"]
    assert [one.score for one in fused] == pytest.approx([0.5, 0.5, 0.45, 0.0], rel=1e-12)


@pytest.mark.parametrize(
    ("alpha", "expected"),
    [(0.75, [("a", 0.75), ("b", 0.25)]), (0.0, [("b", 1.0), ("a", 0.0)]), (1.0, [("a", 1.0), ("b", 0.0)])],
)
def test_alpha_weighs_the_vector_leg(alpha: float, expected: list[tuple[str, float]]) -> None:
    """The vector leg's best gets alpha and the keyword leg's 1 - alpha; at the ends one leg is nothing."""
    assert scores(by_score([vector(("a", 1.0), ("b", 0.0)), keyword(("b", 1.0), ("a", 0.0))], alpha=alpha)) == expected


@pytest.mark.parametrize("alpha", [None, 0.0, 0.25, 1.0])
def test_a_further_leg_weighs_one(alpha: float | None) -> None:
    """Alpha is shared by vector and keyword; a leg of another name has its normalised scores as they are."""
    found = [vector(("a", 0.9), ("b", 0.5)), leg("image", ("b", 7.0), ("c", 5.0), ("d", 3.0))]
    fused = dict(scores(by_score(found, alpha=alpha)))
    assert fused == {"a": 0.5 if alpha is None else alpha, "b": 1.0, "c": 0.5, "d": 0.0}


def test_weights_go_by_leg() -> None:
    """Each leg has the weight of its name, and 1 without one; they need not sum to 1."""
    found = [vector(("a", 1.0), ("b", 0.0)), keyword(("b", 1.0), ("a", 0.0))]
    assert scores(by_score(found, weights={VECTOR: 0.25})) == [("b", 1.0), ("a", 0.25)]
    assert scores(by_score(found, weights={VECTOR: 4.0, KEYWORD: 2.0})) == [("a", 4.0), ("b", 2.0)]
    assert scores(by_score(found, weights={})) == [("a", 1.0), ("b", 1.0)]


@pytest.mark.parametrize("alpha", [-0.01, 1.01, float("nan"), float("inf")])
def test_alpha_has_a_range(alpha: float) -> None:
    """An alpha outside [0, 1] is an error, not a ranking."""
    with pytest.raises(RecipeError, match=r"score\.alpha"):
        recipe({"score": {"alpha": alpha}})


@pytest.mark.parametrize("weights", [{}, {"vector": 0.5}])
def test_alpha_and_weights_together_are_an_error(weights: dict[str, float]) -> None:
    """They are two ways of saying one thing, so both at once say nothing, be the weights empty."""
    with pytest.raises(RecipeError, match="alpha and weights"):
        recipe({"score": {"alpha": 0.5, "weights": weights}})


@pytest.mark.parametrize("method", ["rrf", "score", "dbsf"])
def test_a_negative_weight_is_an_error(method: str) -> None:
    """No leg can count against a document."""
    with pytest.raises(RecipeError, match=rf"{method}\.weights\.vector"):
        recipe({method: {"weights": {"vector": -0.1}}})


def test_one_candidate_has_the_full_weight_of_its_leg() -> None:
    """A single hit is best, whatever its score."""
    assert scores(by_score([vector(("a", -4.0))])) == [("a", 0.5)]
    assert scores(by_score([vector(("a", -4.0)), keyword(("a", 0.0))])) == [("a", 1.0)]


def test_scores_that_are_all_equal_become_one() -> None:
    """A leg that can't tell its hits apart gives each the full weight, and their order is the leg's."""
    assert scores(by_score([vector(("b", 0.3), ("a", 0.3), ("c", 0.3))])) == [("b", 0.5), ("a", 0.5), ("c", 0.5)]


def test_a_repeated_id_takes_no_part_in_the_legs_minimum() -> None:
    """The second appearance of an id neither adds to its score nor stretches the scale."""
    assert scores(by_score([vector(("a", 0.9), ("b", 0.5), ("a", 0.1))])) == [("a", 0.5), ("b", 0.0)]


def test_a_leg_knows_each_ids_place() -> None:
    """A leg names each id's rank from 0 and raw score; a repeated id's first ones."""
    assert keyword(("b", 7.0), ("a", 3.0), ("b", 1.0)).ranks() == {"b": (0, 7.0), "a": (1, 3.0)}


@pytest.mark.parametrize("fuse", [by_rank, by_score])
def test_a_payload_comes_from_the_first_leg_that_has_it(fuse: Any) -> None:
    """Each candidate carries what its first leg, in the order of ties, asked of its payload."""
    fused = fuse([keyword(("b", 7.0), ("a", 3.0)), vector(("a", 0.9))])
    assert {one.id: one.payload["from"] for one in fused} == {"a": VECTOR, "b": KEYWORD}


def test_other_legs_come_after_by_name() -> None:
    """Ties are broken in the order vector, keyword, structured, then the others by name."""
    assert [one.name for one in in_tie_order(FIVE)] == [VECTOR, KEYWORD, STRUCTURED, "apple", "zebra"]


@given(st.lists(st.sampled_from([0.0, 0.5, 1.0]), max_size=12))
def test_sorting_is_stable(values: list[float]) -> None:
    """Best first, and equal scores keep the order that they came in."""
    ranked = best_first([Candidate(str(place), value) for place, value in enumerate(values)])
    places = [(-one.score, int(one.id)) for one in ranked]
    assert places == sorted(places)


@given(legs(any_finite), st.floats(0, 1))
def test_fused_scores_fall_from_one_to_zero(found: list[Leg], alpha: float) -> None:
    """Whatever finite scores came, the fused ones are in [0, 1] and never rise with the rank."""
    fused = [one.score for one in by_score(found, alpha=alpha)]
    assert all(0 <= value <= 1 + 1e-9 for value in fused)
    assert fused == sorted(fused, reverse=True)


@given(legs(any_finite))
def test_the_same_input_gives_the_same_output(found: list[Leg]) -> None:
    """Twice, and with the legs in the other order: ids, scores and payloads are equal to the bit."""
    assert by_score(found) == by_score(found) == by_score(found[::-1])
    assert by_rank(found) == by_rank(found) == by_rank(found[::-1])


@given(hits(), hits(), st.integers(0, 9), st.floats(0.1, 1e5))
def test_a_better_score_never_hurts(
    one: list[tuple[str, float]], other: list[tuple[str, float]], at: int, by: float
) -> None:
    """Raising one document's score in a leg puts nobody ahead of it who wasn't, by rank and by score."""
    scored = dict(reversed(one))
    if not scored:
        return
    id_ = list(scored)[at % len(scored)]
    raised = {**scored, id_: scored[id_] + by}
    for fuse in (by_rank, by_score):
        before = fuse([vector(*_descending(scored)), keyword(*other)])
        after = fuse([vector(*_descending(raised)), keyword(*other)])
        assert _ahead(after, id_) <= _ahead(before, id_)


def _descending(scored: dict[str, float]) -> list[tuple[str, float]]:
    return sorted(scored.items(), key=lambda pair: -pair[1])


def _ahead(candidates: list[Candidate], id_: str) -> set[str]:
    own = next(one.score for one in candidates if one.id == id_)
    # As far as floats can tell scores apart.
    return {one.id for one in candidates if one.score > own + 1e-9}
