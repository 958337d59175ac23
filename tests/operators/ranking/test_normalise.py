"""Normalisers: each formula by hand, its edges, and what holds of any scores."""

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from operators.ranking.candidate import Candidate, Leg, in_tie_order
from operators.ranking.fusion import dbsf, score
from operators.ranking.normalise import NORMALISERS
from schemas.fields import MAX_FLOAT32
from schemas.recipes.fusion import Dbsf, Score
from schemas.result import KEYWORD, STRUCTURED
from tests.operators.ranking.pools import any_finite, finite, ids, keyword, run, scores, structured, vector

LARGEST = MAX_FLOAT32
SMALLEST = 5e-324

EACH = pytest.mark.parametrize("name", list(NORMALISERS))


def of(name: str, raw: Sequence[float]) -> list[float]:
    """The normalised scores of a leg."""
    return NORMALISERS[name](raw).of(raw)


def by_dbsf(found: Sequence[Leg], **parameters: Any) -> list[Candidate]:
    """Distribution-based fusion with these parameters."""
    return dbsf(in_tie_order(found), Dbsf(**parameters), run())


def by_score(found: Sequence[Leg], **parameters: Any) -> list[Candidate]:
    """Score fusion with these parameters."""
    return score(in_tie_order(found), Score(**parameters), run())


@pytest.mark.parametrize(
    ("raw", "normalised"),
    [
        ([3.0], [1.0]),
        ([2.0, 2.0], [1.0, 1.0]),
        ([4.0, 1.0, 2.0], [1.0, 0.0, 1 / 3]),
        ([-1.0, -3.0], [1.0, 0.0]),
        ([0.0, -0.0], [1.0, 1.0]),
        ([SMALLEST, 0.0], [1.0, 0.0]),
    ],
)
def test_min_max_by_hand(raw: list[float], normalised: list[float]) -> None:
    """Best 1, worst 0, linear in between; what is equal is 1, and the smallest float is not equal to 0."""
    assert of("min_max", raw) == pytest.approx(normalised, rel=1e-12)


# 1, 2, 3: mean 2, sample deviation 1, so -1 becomes 0 and 5 becomes 1.
# 7, 3: mean 5, sample deviation sqrt(2^2 + 2^2) = 2 sqrt(2): 0.5 +- 2 / (6 * 2 sqrt(2)) = 0.5 +- sqrt(2) / 12.
@pytest.mark.parametrize(
    ("raw", "normalised"),
    [
        ([3.0, 2.0, 1.0], [4 / 6, 3 / 6, 2 / 6]),
        ([7.0, 3.0], [0.5 + math.sqrt(2) / 12, 0.5 - math.sqrt(2) / 12]),
        ([9.0], [0.5]),
        ([-2.0, -2.0, -2.0], [0.5, 0.5, 0.5]),
    ],
)
def test_dbsf_by_hand(raw: list[float], normalised: list[float]) -> None:
    """Three sample deviations below the mean are 0, three above are 1; one hit or no variance is 0.5."""
    assert of("dbsf", raw) == pytest.approx(normalised, rel=1e-12)


def test_dbsf_does_not_clamp() -> None:
    """One hit of eleven that stands out goes above 1: 0.5 + 10/11 / (6 / sqrt(11)) = 0.5 + 10 sqrt(11) / 66."""
    # Mean 1/11; squares 10 * (1/11)^2 + (10/11)^2 = 10/11, by 10: 1/11.
    normalised = of("dbsf", [1.0, *[0.0] * 10])
    assert normalised[0] == pytest.approx(0.5 + 10 * math.sqrt(11) / 66, rel=1e-12)
    assert normalised[0] > 1


# 1, 2, 3: mean 2, deviation sqrt((1 + 0 + 1) / 3) = sqrt(2/3), so 1 becomes sqrt(3/2).
@pytest.mark.parametrize(
    ("raw", "normalised"),
    [
        ([3.0, 2.0, 1.0], [math.sqrt(1.5), 0.0, -math.sqrt(1.5)]),
        ([7.0, 3.0], [1.0, -1.0]),
        ([9.0], [0.0]),
        ([4.0, 4.0], [0.0, 0.0]),
    ],
)
def test_z_score_by_hand(raw: list[float], normalised: list[float]) -> None:
    """Deviations from the mean in standard deviations of the leg's own hits; one hit or no variance is 0."""
    assert of("z_score", raw) == pytest.approx(normalised, rel=1e-12)


@pytest.mark.parametrize(
    ("raw", "normalised"),
    [([4.0, 3.0], [0.8, 0.6]), ([4.0, -3.0], [0.8, -0.6]), ([5.0], [1.0]), ([-5.0], [-1.0]), ([0.0, 0.0], [0.0, 0.0])],
)
def test_l2_by_hand(raw: list[float], normalised: list[float]) -> None:
    """Scores are divided by the leg's Euclidean norm; where that is 0 all are 0."""
    assert of("l2", raw) == pytest.approx(normalised, rel=1e-12)


def test_huge_magnitudes_keep_the_min_max_scale() -> None:
    """The widest spread of 32-bit scores is rescaled like any other."""
    assert of("min_max", [LARGEST, 0.0, -LARGEST]) == [1.0, 0.5, 0.0]
    assert scores(by_score([vector(("a", LARGEST), ("b", -LARGEST))])) == [("a", 0.5), ("b", 0.0)]


@EACH
@pytest.mark.parametrize("raw", [[LARGEST, LARGEST / 2, -LARGEST], [LARGEST, LARGEST], [1e20, -1e20], [SMALLEST, 0]])
def test_no_finite_scores_break_a_normaliser(name: str, raw: list[float]) -> None:
    """The largest 32-bit and the smallest floats give finite values that keep their order."""
    normalised = of(name, raw)
    assert all(map(math.isfinite, normalised))
    assert normalised == sorted(normalised, reverse=True)


@EACH
@given(raw=st.lists(any_finite, min_size=1, max_size=30))
def test_every_normaliser_keeps_the_order(name: str, raw: list[float]) -> None:
    """Whatever 32-bit scores come, values are finite, a higher score never gets less, and equal ones get the same."""
    normalised = dict(zip(raw, of(name, raw), strict=True))
    assert all(map(math.isfinite, normalised.values()))
    assert [normalised[value] for value in sorted(raw)] == sorted(of(name, raw))


@given(st.lists(any_finite, min_size=1, max_size=30))
def test_min_max_ends_at_zero_and_one(raw: list[float]) -> None:
    """The best is 1, the worst 0 unless all are equal, and the rest lies between."""
    normalised = of("min_max", raw)
    assert all(0 <= value <= 1 for value in normalised)
    assert normalised[raw.index(max(raw))] == 1
    assert normalised[raw.index(min(raw))] == (1 if min(raw) == max(raw) else 0)


@EACH
@given(raw=st.lists(finite, min_size=2, max_size=10), scale=st.floats(0.5, 100), offset=st.floats(-1000, 1000))
def test_a_legs_unit_does_not_matter(name: str, raw: list[float], scale: float, offset: float) -> None:
    """Scores of another unit, and but for l2 of another zero, give the same values as far as floats can tell."""
    whole = [float(round(value)) for value in raw]
    moved = [value * scale + (0.0 if name == "l2" else offset) for value in whole]
    assert of(name, moved) == pytest.approx(of(name, whole), abs=1e-6)


@given(st.lists(st.integers(-1000, 1000), min_size=2, max_size=20, unique=True))
def test_the_middle_of_dbsf_is_a_half_and_of_z_score_is_zero(raw: list[int]) -> None:
    """A leg's mean becomes 0.5 in dbsf; z_score has mean 0 and variance 1."""
    values = [float(value) for value in raw]
    assert math.fsum(of("dbsf", values)) / len(raw) == pytest.approx(0.5, abs=1e-9)
    deviations = of("z_score", values)
    assert math.fsum(deviations) / len(raw) == pytest.approx(0.0, abs=1e-9)
    assert math.fsum(value * value for value in deviations) / len(raw) == pytest.approx(1.0, abs=1e-9)


def test_dbsf_sums_the_legs() -> None:
    """A document has the sum of its values; the leg that didn't return it adds 0."""
    found = [vector(("a", 3.0), ("b", 2.0), ("c", 1.0)), keyword(("b", 10.0))]
    # b 3/6 + 0.5, a 4/6, c 2/6
    fused = by_dbsf(found)
    assert ids(fused) == ["b", "a", "c"]
    assert [one.score for one in fused] == pytest.approx([1.0, 4 / 6, 2 / 6], rel=1e-12)


def test_dbsf_weighs_and_cuts() -> None:
    """Its weights go by leg, a missing one being 1 and the structured leg's 0; its limit keeps the first."""
    found = [vector(("a", 1.0)), keyword(("b", 1.0)), structured("s")]
    assert scores(by_dbsf(found)) == [("a", 0.5), ("b", 0.5), ("s", 0.0)]
    assert scores(by_dbsf(found, weights={KEYWORD: 3.0, STRUCTURED: 2.0})) == [("b", 1.5), ("s", 1.0), ("a", 0.5)]
    assert ids(by_dbsf(found, limit=1)) == ["a"]


def test_dbsf_counts_a_repeated_id_once() -> None:
    """The second appearance of an id is neither in the mean nor in the deviation."""
    assert by_dbsf([vector(("a", 3.0), ("b", 2.0), ("a", 1.5), ("c", 1.0))]) == by_dbsf(
        [vector(("a", 3.0), ("b", 2.0), ("c", 1.0))]
    )


@pytest.mark.parametrize(
    ("normaliser", "expected"),
    [
        # Vector 4, 3 and keyword 9: 0.5 * (1 0, 1), 0.5 * (1 -1, 0), 0.5 * (0.8 0.6, 1).
        ("min_max", [("a", 0.5), ("k", 0.5), ("b", 0.0)]),
        ("z_score", [("a", 0.5), ("k", 0.0), ("b", -0.5)]),
        ("l2", [("k", 0.5), ("a", 0.4), ("b", 0.3)]),
    ],
)
def test_score_fusion_takes_a_normaliser(normaliser: str, expected: list[tuple[str, float]]) -> None:
    """The recipe names the scale on which the legs' scores are summed."""
    fused = by_score([vector(("a", 4.0), ("b", 3.0)), keyword(("k", 9.0))], normaliser=normaliser)
    assert ids(fused) == [id_ for id_, _ in expected]
    assert [one.score for one in fused] == pytest.approx([value for _, value in expected], rel=1e-12)


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        # 4.1 is 1, and 4 is 4 / 4.1; half of each is the weight's. Of a cut list 4 is 0.
        (keyword(("a", 4.1), ("b", 4.0)), [0.5, 0.5 * 4 / 4.1]),
        (replace(keyword(("a", 4.1), ("b", 4.0)), more=True), [0.5, 0.0]),
        (keyword(("a", 4.1)), [0.5]),
        (vector(("a", 4.1), ("b", 4.0)), [0.5, 0.0]),
    ],
)
def test_a_leg_by_words_that_gave_all_has_its_theoretical_minimum(found: Leg, expected: list[float]) -> None:
    """A document that the leg did not find has 0 there, and what it found is measured from that."""
    fused = by_score([found], normaliser="theoretical")
    assert [each.score for each in fused] == pytest.approx(expected, rel=1e-12)


@EACH
def test_an_empty_leg_has_nothing_to_normalise(name: str) -> None:
    """A leg that found nothing leaves the other's values as they are."""
    found = vector(("a", 4.0), ("b", 3.0))
    if name == "dbsf":
        assert by_dbsf([found, keyword()]) == by_dbsf([found])
    else:
        assert by_score([found, keyword()], normaliser=name) == by_score([found], normaliser=name)
