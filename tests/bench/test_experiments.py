"""The simulated crowd, and the tables that are made by it."""

import random

import pytest

from bench import experiments, report
from bench.crowd import Asked, ask
from operators.experiments.crowd import Crowd


def test_the_records_are_those_of_a_page() -> None:
    """Each click names a result of the page with its side and rank; the preferred side has more of them."""
    chance = random.Random(1)
    asked = Asked("n", "text", ["x", "good", "y"], ["good", "fair", "x"], {"good": 2, "fair": 1})
    preferred = set()
    for number in range(200):
        comparison, preference = ask(Crowd(), "e", str(number), asked, chance)
        if preference is not None:
            for click in preference.clicks:
                assert (comparison.page[click.rank].id, comparison.page[click.rank].side) == (click.id, click.side)
            by_side = {"a": preference.a, "b": preference.b}
            assert sum(by_side.values()) == len(preference.clicks)
            if preference.preferred != "tie":
                assert by_side[preference.preferred] == max(by_side.values())
            preferred.add(preference.preferred)
    assert preferred == {"a", "b", "tie"}


@pytest.mark.slow
def test_the_tables_have_a_row_for_each_case() -> None:
    """More queries for smaller preferences and for more of the experiments; an A/B test needs several times as many;
    the model by position is never worse than plain shares.
    """
    found = experiments.figures(queries=4000, runs=200)
    assert found["alarms"] <= 0.05 + 3 * (0.05 * 0.95 / 200) ** 0.5
    rows = found["preferences"]
    assert [row["preference"] for row in rows] == list(experiments.PREFERENCES)
    for row in rows:
        assert row["sequential"][0] < row["sequential"][1] < row["ab"][1]
        assert row["ab"][0] > 1.5 * row["sequential"][0]
    assert [row["sequential"] for row in rows] == sorted((row["sequential"] for row in rows), reverse=True)
    assert all(row["error"]["by position"] < row["error"]["plain share"] for row in found["models"])
    needed, errors = report.experiments_tables(found)
    assert (needed.row_count, errors.row_count) == (len(rows), len(experiments.USERS))


def test_a_mixture_has_the_preference_that_is_asked_for() -> None:
    """By hand: with a share s of better questions, (.3 s + .2 (1 - s)) of (.4 s + .4 (1 - s)) are wins."""
    better, equal = experiments.Rates(0.3, 0.1, 0.5, 0.6), experiments.Rates(0.2, 0.2, 0.5, 0.5)
    mixed = experiments.mix(better, equal, 0.6)
    assert mixed == pytest.approx((0.24, 0.16, 0.5, 0.54))


def test_the_formula_of_an_ab_test_by_hand() -> None:
    """10 % against 12 %, 5 % and 80 %: 3,842 a group, as tables of two proportions have it."""
    assert experiments.ab_queries(experiments.Rates(0, 0, 0.10, 0.12), 0.8) / 2 == pytest.approx(3842, abs=5)
