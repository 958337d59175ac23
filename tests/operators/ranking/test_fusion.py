"""Score fusion: the formula by hand, its edges, and a second implementation that agrees."""

import math
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from operators.ranking.candidate import KEYWORD, VECTOR, Candidate, Leg, in_order
from operators.ranking.fusion import by_score, min_max, score
from tests.operators.ranking.pools import any_finite, finite, hits, ids, keyword, leg, legs, scores, vector


def naive(legs: Sequence[Leg], alpha: float) -> dict[str, float]:
    """The formula again, with exact sums of plain min-max scores."""
    total: dict[str, float] = {}
    for one in legs:
        first: dict[str, float] = {}
        for id_, value in zip(one.ids, one.scores, strict=True):
            first.setdefault(id_, value)
        weight = {VECTOR: alpha, KEYWORD: 1 - alpha}[one.name]
        low, high = min(first.values(), default=0.0), max(first.values(), default=0.0)
        for id_, value in first.items():
            share = 1.0 if high == low else (value - low) / (high - low)
            total[id_] = total.get(id_, 0.0) + weight * share
    return total


def test_the_formula_by_hand() -> None:
    """Vector .9 .5 .1 become 1 .5 0, keyword 12 6 2 become 1 .4 0; half of each is the sum."""
    fused = score([vector(("a", 0.9), ("b", 0.5), ("c", 0.1)), keyword(("c", 12.0), ("b", 6.0), ("d", 2.0))])
    # a .5*1, b .5*.5+.5*.4, c .5*0+.5*1, d .5*0: a before c, as the vector leg comes first.
    assert ids(fused) == ["a", "c", "b", "d"]
    assert [candidate.score for candidate in fused] == pytest.approx([0.5, 0.5, 0.45, 0.0])


def test_alpha_weighs_the_vector_leg() -> None:
    """With alpha 0.75 the vector leg's best gets 0.75 and the keyword leg's 0.25; at the ends one leg is nothing."""
    both = [vector(("a", 1.0), ("b", 0.0)), keyword(("b", 1.0), ("a", 0.0))]
    assert scores(score(both, 0.75)) == [("a", 0.75), ("b", 0.25)]
    assert scores(score(both, 0.0)) == [("b", 1.0), ("a", 0.0)]
    assert scores(score(both, 1.0)) == [("a", 1.0), ("b", 0.0)]


@pytest.mark.parametrize("alpha", [-0.01, 1.01, math.nan, math.inf])
def test_alpha_has_a_range(alpha: float) -> None:
    """An alpha outside [0, 1] is an error, not a ranking."""
    with pytest.raises(ValueError, match="alpha"):
        score([vector(("a", 1.0))], alpha)


def test_a_leg_knows_each_ids_place() -> None:
    """A leg names each id's rank from 0 and raw score; a repeated id's first ones."""
    assert keyword(("b", 7.0), ("a", 3.0), ("b", 1.0)).places() == {"b": (0, 7.0), "a": (1, 3.0)}


def test_a_payload_comes_from_the_first_leg_that_has_it() -> None:
    """Each candidate carries what its first leg, in the order of ties, asked of its payload."""
    fused = score([keyword(("b", 7.0), ("a", 3.0)), vector(("a", 0.9))])
    assert {candidate.id: candidate.payload["from"] for candidate in fused} == {"a": VECTOR, "b": KEYWORD}


def test_scores_that_are_all_equal_become_one() -> None:
    """A leg that can't tell its hits apart gives each the full weight, and their order is the leg's."""
    assert scores(score([vector(("b", 0.3), ("a", 0.3), ("c", 0.3))])) == [("b", 0.5), ("a", 0.5), ("c", 0.5)]


def test_one_candidate_has_the_full_weight_of_its_leg() -> None:
    """A single hit is best, whatever its score."""
    assert scores(score([vector(("a", -4.0))])) == [("a", 0.5)]
    assert scores(score([vector(("a", -4.0)), keyword(("a", 0.0))])) == [("a", 1.0)]


def test_a_missing_legs_weight_is_not_shared() -> None:
    """Without the keyword leg no score is above the vector leg's weight; an empty leg is no different."""
    alone = score([vector(("a", 0.9), ("b", 0.1))])
    assert scores(alone) == [("a", 0.5), ("b", 0.0)]
    assert scores(score([vector(("a", 0.9), ("b", 0.1)), keyword()])) == scores(alone)


def test_nothing_found_is_an_empty_list() -> None:
    """No legs, and empty legs, give no candidates."""
    assert score([]) == score([vector(), keyword()]) == []


def test_an_id_that_a_leg_repeats_counts_once_at_its_first_rank() -> None:
    """The second appearance of an id neither adds to its score nor takes part in the leg's minimum."""
    fused = score([vector(("a", 0.9), ("b", 0.5), ("a", 0.1))])
    assert scores(fused) == [("a", 0.5), ("b", 0.0)]


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_ties_go_by_leg_and_then_by_rank(order: tuple[int, int]) -> None:
    """Of equal scores the vector leg's come first in their ranks, then the keyword leg's, in whatever order the legs
    arrived.
    """
    both = [vector(("v2", 1.0), ("v1", 1.0)), keyword(("k2", 5.0), ("k1", 5.0))]
    assert ids(score([both[index] for index in order])) == ["v2", "v1", "k2", "k1"]


def test_other_legs_come_after_by_name() -> None:
    """Ties are broken in the order vector, keyword, then the others by name."""
    found = in_order([leg("zebra"), leg("apple"), keyword(), vector()])
    assert [one.name for one in found] == [VECTOR, KEYWORD, "apple", "zebra"]


def test_huge_magnitudes_stay_finite() -> None:
    """A spread wider than the largest float is rescaled, not overflown."""
    largest = 1.7976931348623157e308
    assert min_max([largest, 0.0, -largest]) == [1.0, 0.5, 0.0]
    assert scores(score([vector(("a", largest), ("b", -largest))])) == [("a", 0.5), ("b", 0.0)]


@pytest.mark.parametrize(
    ("raw", "rescaled"),
    [
        ([], []),
        ([3.0], [1.0]),
        ([2.0, 2.0], [1.0, 1.0]),
        ([4.0, 1.0, 2.0], [1.0, 0.0, 1 / 3]),
        ([-1.0, -3.0], [1.0, 0.0]),
        ([0.0, -0.0], [1.0, 1.0]),
        ([5e-324, 0.0], [1.0, 0.0]),
    ],
)
def test_min_max_by_hand(raw: list[float], rescaled: list[float]) -> None:
    """Best 1, worst 0, linear in between; what is equal is 1, and the smallest float is not equal to 0."""
    assert min_max(raw) == pytest.approx(rescaled)


@given(st.lists(any_finite, min_size=1, max_size=30))
def test_min_max_keeps_the_order_within_zero_and_one(values: list[float]) -> None:
    """Every value is in [0, 1], a higher one never gets less, the best gets 1."""
    rescaled = min_max(values)
    assert all(0 <= value <= 1 for value in rescaled)
    assert rescaled[values.index(max(values))] == 1
    order = sorted(range(len(values)), key=lambda index: values[index])
    assert [rescaled[index] for index in order] == sorted(rescaled)


@given(st.lists(finite, min_size=2, max_size=10), st.floats(0.5, 100), st.floats(-1000, 1000))
def test_min_max_forgets_scale_and_offset(values: list[float], scale: float, offset: float) -> None:
    """Scores of another unit give the same min-max, as far as floats can tell them apart."""
    values = [round(value) for value in values]
    moved = [value * scale + offset for value in values]
    assert min_max(moved) == pytest.approx(min_max(values), abs=1e-6)


@given(legs(), st.floats(0, 1))
def test_a_second_implementation_agrees(found: list[Leg], alpha: float) -> None:
    """Candidates and scores are those of the formula written another way."""
    fused = score(found, alpha)
    expected = naive(found, alpha)
    assert {candidate.id: candidate.score for candidate in fused} == pytest.approx(expected, abs=1e-6)
    assert len(fused) == len(expected)


@given(legs(any_finite), st.floats(0, 1))
def test_fused_scores_fall_from_one_to_zero(found: list[Leg], alpha: float) -> None:
    """Whatever finite scores came, the fused ones are in [0, 1] and never rise with the rank."""
    fused = [candidate.score for candidate in score(found, alpha)]
    assert all(0 <= value <= 1 + 1e-9 for value in fused)
    assert fused == sorted(fused, reverse=True)


@given(legs(any_finite))
def test_the_same_input_gives_the_same_output(found: list[Leg]) -> None:
    """Twice, and with the legs in the other order: ids, scores and places are equal to the bit."""
    assert score(found) == score(found) == score(found[::-1])


@given(hits(), hits(), st.integers(0, 9), st.floats(0.1, 1e5))
def test_a_better_score_never_hurts(
    one: list[tuple[str, float]], other: list[tuple[str, float]], at: int, by: float
) -> None:
    """Raising one document's score in a leg puts nobody ahead of it who wasn't."""
    scored = dict(reversed(one))
    if not scored:
        return
    id_ = list(scored)[at % len(scored)]
    ahead_before = _ahead(score([vector(*_best_first(scored)), keyword(*other)]), id_)
    raised = {**scored, id_: scored[id_] + by}
    assert _ahead(score([vector(*_best_first(raised)), keyword(*other)]), id_) <= ahead_before


def _best_first(scored: dict[str, float]) -> list[tuple[str, float]]:
    return sorted(scored.items(), key=lambda pair: -pair[1])


def _ahead(candidates: list[Candidate], id_: str) -> set[str]:
    own = next(candidate.score for candidate in candidates if candidate.id == id_)
    # As far as floats can tell scores apart.
    return {candidate.id for candidate in candidates if candidate.score > own + 1e-9}


@given(st.lists(st.sampled_from([0.0, 0.5, 1.0]), max_size=12))
def test_sorting_is_stable(values: list[float]) -> None:
    """Best first, and equal scores keep the order that they came in."""
    ranked = by_score([Candidate(str(place), value) for place, value in enumerate(values)])
    places = [(-candidate.score, int(candidate.id)) for candidate in ranked]
    assert places == sorted(places)
