"""The sequential test: by hand, beside numerical integrals and exact binomials, and over many looks."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.experiments import ends
from operators.experiments.sequential import SequentialTest, Standing, Votes
from tests.tiers import sized

UNIFORM = SequentialTest(effect=math.sqrt(1 / 12))
"""With this effect the mixture is Beta(1, 1), all preferences alike."""

counts = st.integers(0, 300)
preferences = st.floats(0.01, 0.99)
tests = st.builds(SequentialTest, alpha=st.floats(0.001, 0.3), effect=st.floats(0.01, 0.4))


@pytest.mark.parametrize(
    ("wins", "losses", "e_value"),
    [(0, 0, 1.0), (1, 0, 1.0), (2, 0, 4 / 3), (1, 1, 2 / 3), (7, 0, 128 / 8), (8, 0, 256 / 9), (3, 2, 32 * 12 / 720)],
)
def test_the_e_value_by_hand(wins: int, losses: int, e_value: float) -> None:
    """2^n wins! losses! / (n + 1)! with all preferences alike; eight wins of eight are the first that decide."""
    assert math.exp(UNIFORM.log_e_value(Votes(wins, losses))) == pytest.approx(e_value)
    assert UNIFORM.is_won(Votes(wins, losses)) is (e_value >= 20)


@given(st.floats(0.01, 0.28), counts, counts, preferences)
def test_the_e_value_is_the_integral(effect: float, wins: int, losses: int, p: float) -> None:
    """The likelihood ratio to p, integrated over the Beta density by the midpoints of 20,000 preferences."""
    test = SequentialTest(effect=effect)
    grid = (np.arange(20_000) + 0.5) / 20_000
    shape = (1 / (4 * test.effect**2) - 1) / 2
    logs = (wins + shape - 1) * np.log(grid) + (losses + shape - 1) * np.log1p(-grid)
    prior = (shape - 1) * (np.log(grid) + np.log1p(-grid))
    top = logs.max()
    ratio = top + math.log(np.exp(logs - top).sum()) - prior.max() - math.log(np.exp(prior - prior.max()).sum())
    expected = ratio - wins * math.log(p) - losses * math.log1p(-p)
    assert test.log_e_value(Votes(wins, losses), p) == pytest.approx(expected, abs=1e-3)


@given(tests, counts, counts, preferences)
def test_the_e_value_is_a_martingale(test: SequentialTest, wins: int, losses: int, p: float) -> None:
    """If p is true, the e-value after the next decision is in the mean that of now."""
    now, won, lost = (
        test.log_e_value(votes, p) for votes in (Votes(wins, losses), Votes(wins + 1, losses), Votes(wins, losses + 1))
    )
    assert p * math.exp(won - now) + (1 - p) * math.exp(lost - now) == pytest.approx(1)


@given(tests, counts, counts)
def test_the_interval_has_the_preferences_that_are_not_ruled_out(test: SequentialTest, wins: int, losses: int) -> None:
    """An e-value is below 1 / alpha within its ends, and not beyond; .5 is outside exactly if there is a winner."""
    votes = Votes(wins, losses)
    low, high = test.interval(votes)
    bound = -math.log(test.alpha)
    assert 0 <= low <= high <= 1
    for p in np.linspace(0, 1, 101):
        if abs(p - low) > 1e-6 and abs(p - high) > 1e-6:
            assert (test.log_e_value(votes, float(p)) < bound) == (low <= p <= high)
    assert test.is_won(votes) is not (low < 0.5 < high)


@given(tests, counts, counts)
def test_sides_are_alike_and_more_wins_move_the_interval_up(test: SequentialTest, wins: int, losses: int) -> None:
    """Swapped sides mirror it; a win more lowers no end; a smaller alpha widens it."""
    low, high = test.interval(Votes(wins, losses))
    assert test.interval(Votes(losses, wins)) == pytest.approx((1 - high, 1 - low), abs=1e-8)
    more = test.interval(Votes(wins + 1, losses))
    assert more[0] >= low - 1e-8
    assert more[1] >= high - 1e-8
    wider = SequentialTest(test.alpha / 2, effect=test.effect).interval(Votes(wins, losses))
    assert wider[0] <= low + 1e-8
    assert wider[1] >= high - 1e-8


@given(tests, st.integers(1, 150), preferences)
def test_the_interval_covers_at_each_horizon(test: SequentialTest, decisions: int, p: float) -> None:
    """By the exact binomial: the number of wins has an interval with p in it with probability 1 - alpha at least."""
    covered = 0.0
    for wins in range(decisions + 1):
        if test.log_e_value(Votes(wins, decisions - wins), p) < -math.log(test.alpha):
            covered += math.comb(decisions, wins) * p**wins * (1 - p) ** (decisions - wins)
    assert covered >= 1 - test.alpha - 1e-9


def test_alarms_over_all_looks_are_at_most_alpha() -> None:
    """Without a difference, a look after every one of the decisions: the share of winners is alpha at most, with three
    standard errors; and it is not far below, so that looks are what costs.
    """
    runs, alpha = sized(400, nightly=2000), 0.1
    alarms = np.isfinite(ends(SequentialTest(alpha), 0.5, runs, 5000, seed=1)).mean()
    assert 0.03 < alarms <= alpha + 3 * math.sqrt(alpha * (1 - alpha) / runs)


@pytest.mark.parametrize(("effect", "power"), [(0.05, 0.8), (0.05, 0.5), (0.1, 0.9)])
def test_the_planned_decisions_have_their_power(effect: float, power: float) -> None:
    """Of simulated experiments with this effect, the share that has won by then is the power, with three errors."""
    test, runs = SequentialTest(power=power, effect=effect), 1000
    planned = test.count_decisions()
    won = (ends(test, 0.5 + effect, runs, planned, seed=2) <= planned).mean()
    assert won == pytest.approx(power, abs=3 * math.sqrt(power * (1 - power) / runs))


def test_the_plan_by_hand() -> None:
    """All preferences alike, where b wins .7887: eight wins of eight are .15 of all runs, the first that win."""
    found = SequentialTest(effect=UNIFORM.effect, power=0.1)
    assert found.count_decisions() == 8
    assert SequentialTest(effect=UNIFORM.effect, power=0.16).count_decisions() > 8


@pytest.mark.parametrize(
    ("votes", "at_most", "standing"),
    [
        (Votes(), None, Standing.RUNNING),
        (Votes(600, 400), None, Standing.WON_BY_B),
        (Votes(400, 600), 100, Standing.WON_BY_A),
        (Votes(510, 490), None, Standing.RUNNING),
        (Votes(510, 490), 1000, Standing.UNDECIDED),
        (Votes(510, 490, 3, 6), 1010, Standing.RUNNING),
        (Votes(2510, 2490), 1000, Standing.NO_DIFFERENCE),
    ],
)
def test_an_experiment_ends(votes: Votes, at_most: int | None, standing: Standing) -> None:
    """By its winner first, then by an interval within the effect, then by the number of its queries, ties included."""
    assert SequentialTest().judge(votes, at_most) is standing


def test_queries_still_needed() -> None:
    """As many as the missing decisions take at the rate of before: with as many ties as decisions, twice as many."""
    test = SequentialTest()
    planned = test.count_decisions()
    assert test.count_needed(Votes()) is None
    assert test.count_needed(Votes(ties=5, silent=3)) is None
    assert test.count_needed(Votes(60, 40)) == planned - 100
    assert test.count_needed(Votes(60, 40, 50, 50)) == 2 * (planned - 100)
    assert test.count_needed(Votes(planned, planned)) == 0
