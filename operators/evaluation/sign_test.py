"""The sign test: whether one of two systems is better on more queries than chance explains. Pure."""

from collections.abc import Iterable
from typing import NamedTuple


class SignTest(NamedTuple):
    """On how many queries the second system is better, worse and equal, and how likely chance does that or more."""

    wins: int
    losses: int
    ties: int
    p: float


def sign_test(differences: Iterable[float]) -> SignTest:
    """The exact, two-sided sign test of differences second - first; ties are left out.

    p = min(1, 2 * P(X <= min(wins, losses))) with X binomial of wins + losses trials at 1/2; 1 without any trial.
    Source: Dixon and Mood 1946, as in Conover, Practical Nonparametric Statistics, 3.4.
    """
    wins = losses = ties = 0
    for difference in differences:
        wins += difference > 0
        losses += difference < 0
        ties += difference == 0
    trials = wins + losses
    # Whole numbers: a sum of binomial coefficients is exact at any size.
    coefficient = below = 1
    for successes in range(min(wins, losses)):
        coefficient = coefficient * (trials - successes) // (successes + 1)
        below += coefficient
    return SignTest(wins, losses, ties, min(1.0, 2 * below / 2**trials))
