"""The sign test, by hand and beside a binomial that is counted out."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from operators.evaluation.comparison import sign_test


@pytest.mark.parametrize(
    ("differences", "counted", "p"),
    [
        ([1.0] * 5, (5, 0, 0), 2 / 32),
        ([1.0] * 8 + [-1.0] * 2 + [0.0] * 3, (8, 2, 3), 2 * (1 + 10 + 45) / 1024),
        ([0.5, -0.5], (1, 1, 0), 1.0),
        ([0.0, 0.0], (0, 0, 2), 1.0),
        ([], (0, 0, 0), 1.0),
        ([-1e-300], (0, 1, 0), 1.0),
    ],
)
def test_by_hand(differences: list[float], counted: tuple[int, int, int], p: float) -> None:
    """Ties count for nothing; with as many wins as losses, or none, p is 1."""
    found = sign_test(differences)
    assert found[:3] == counted
    assert found.p == pytest.approx(p, abs=0)


@given(st.integers(0, 6), st.integers(0, 6))
def test_p_is_that_of_a_counted_binomial(wins: int, losses: int) -> None:
    """Brute force: of all outcomes of so many fair coins, the share that is as far from the middle, or farther."""
    trials = wins + losses
    outcomes = [sum(coins) for coins in itertools.product((0, 1), repeat=trials)]
    far = abs(wins - trials / 2)
    as_far = sum(abs(heads - trials / 2) >= far for heads in outcomes)
    assert sign_test([1.0] * wins + [-1.0] * losses).p == pytest.approx(as_far / len(outcomes))


@given(st.lists(st.sampled_from([-1.0, -0.25, 0.0, 0.25, 1.0])))
def test_sides_and_order_do_not_matter(differences: list[float]) -> None:
    """Swapped systems swap wins and losses; p is the same."""
    found, swapped = sign_test(sorted(differences)), sign_test(-each for each in differences)
    assert (swapped.wins, swapped.losses, swapped.ties, swapped.p) == (found.losses, found.wins, found.ties, found.p)


def test_many_queries_are_exact() -> None:
    """Binomials beyond any float are no overflow: one more win than loss is nothing, wins alone are no chance."""
    assert sign_test([1.0] * 5001 + [-1.0] * 5000).p == 1.0
    assert sign_test([1.0] * 1000).p == 2.0**-999
