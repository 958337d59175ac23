"""The search: what it finds, in which order it tries, and that it ends."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from operators.evaluation.search import Dimension, Setting, coordinate_search

X = Dimension("s.x", 0.5, [number / 20 for number in range(21)])
Y = Dimension("s.y", 1.0, [0.0, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 20.0, 50.0])
CHOICE = Dimension("s.choice", "a", ("a", "b", "c"))


def reached(setting: Setting) -> float:
    """A hill whose top is at x .35, y 20 and choice b."""
    x, y, choice = float(setting.get("s.x", 0.5)), float(setting.get("s.y", 1.0)), setting.get("s.choice", "a")
    return -((x - 0.35) ** 2) - 0.001 * abs(y - 20) + (0.01 if choice == "b" else 0.0)


def test_the_top_of_a_hill_is_found() -> None:
    """Every coordinate moves to it."""
    found = coordinate_search([X, Y, CHOICE], reached, 1000)
    assert found is not None
    assert found.setting == {"s.x": 0.35, "s.y": 20.0, "s.choice": "b"}
    assert found.figure == pytest.approx(0.01)
    assert found.tried < 150


def test_what_brings_nothing_stays() -> None:
    """On a plain nothing moves, wherever the search begins."""
    found = coordinate_search([X, Y], lambda _: 0.5, 1000)
    assert found is not None
    assert (found.setting, found.figure, found.complete) == ({}, 0.5, True)


def test_of_equals_the_nearest_is_chosen() -> None:
    """A plateau is entered at its edge: the recipe changes as little as may be."""
    found = coordinate_search([X], lambda setting: float(setting.get("s.x", 0.5) <= 0.3), 1000)
    assert found is not None
    assert found.setting == {"s.x": 0.3}


def test_what_is_not_possible_is_passed_over() -> None:
    """A setting without a figure is no trial, and never the best; if none is possible, nothing is found."""
    found = coordinate_search([X], lambda setting: None if setting else 0.0, 5)
    assert found is not None
    assert (found.setting, found.figure, found.tried) == ({}, 0.0, 1)
    assert coordinate_search([X], lambda _: None, 5) is None


@given(st.integers(1, 60))
def test_no_more_settings_are_tried_than_allowed(most: int) -> None:
    """Each is tried once, and what is best so far is the answer."""
    tried: list[dict[str, Any]] = []

    def counted(setting: Setting) -> float:
        tried.append(dict(setting))
        return reached(setting)

    found = coordinate_search([X, Y, CHOICE], counted, most)
    assert found is not None
    assert len(tried) == found.tried <= most
    assert all(tried.count(each) == 1 for each in tried)
    assert found.figure == max(map(reached, tried))
    if not found.complete:
        assert found.tried == most


@given(st.lists(st.floats(0, 1), min_size=31, max_size=31), st.integers(0, 4))
def test_the_search_never_ends_worse_than_it_began(figures: list[float], seed: int) -> None:
    """Whatever the figures are: at least the recipe's own, that of its setting, and the same each time."""

    def any_figure(setting: Setting) -> float:
        return figures[hash((setting.get("s.x", 0.5), setting.get("s.choice", "a") == "b", seed)) % len(figures)]

    found = coordinate_search([X, CHOICE], any_figure, 500)
    assert found is not None
    assert found.figure >= any_figure({})
    assert found.figure == any_figure(found.setting)
    assert coordinate_search([X, CHOICE], any_figure, 500) == found


def test_listed_values_beside_a_search() -> None:
    """Only those are tried, from the first on; a listed value is in the setting though it is the recipe's own."""
    listed = Dimension("s.choice", "a", ("c", "a"), listed=True)
    found = coordinate_search([listed, X], reached, 1000)
    assert found is not None
    assert found.setting == {"s.choice": "c", "s.x": 0.35}
