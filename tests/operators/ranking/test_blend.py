"""The five-signal blend, row by row: each signal alone, the defaults together, and how weights are shared."""

import itertools
import math
from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from operators.ranking.blend import rank_by_blend
from operators.ranking.candidate import Candidate, Leg, in_tie_order
from operators.ranking.run import Run
from schemas.recipes.fusion import Weighted
from tests.operators.ranking.pools import DAY, NOW, explanation, ids, keyword, run, scores, structured, vector
from tests.operators.ranking.random_pools import SIGNALS

PAYLOADS: Mapping[str, Mapping[str, Any]] = {
    "a": {"created_at": NOW - 7 * DAY, "cycle": 50, "priority": "P1"},
    "b": {"created_at": NOW - 99 * DAY, "updated_at": NOW, "cycle": 100, "priority": "P2"},
    "c": {"updated_at": NOW - 14 * DAY, "cycle": 0, "priority": "P3"},
    "d": {"priority": "P4"},
}
"""In days a, b, c have the recency 1/2, 1, 1/4; in cycles from 100 the same; d has none."""

LEGS = [
    vector(("a", 0.9), ("b", 0.4), ("c", -0.2), payloads=PAYLOADS),
    keyword(("b", 12.0), ("c", 6.0), ("d", 2.0), payloads=PAYLOADS),
]
"""By min-max the keyword leg gives b 1, c 0.4, d 0."""

DEFAULTS = {"keyword": 0.30, "vector": 0.55, "recency": 0.10, "priority": 0.05}


def blend(found: Sequence[Leg], **more: Any) -> list[Candidate]:
    """The blend at NOW, or with other facts, and these parameters."""
    facts = {name: more.pop(name) for name in ("now", "cycle") if name in more}
    return rank_by_blend(in_tie_order(found), Weighted(**more), run(**facts))


def alone(signal: str, **more: Any) -> dict[str, Any]:
    """Parameters that leave one signal a weight."""
    return {**{f"{name}_weight": 0.0 for name in SIGNALS}, f"{signal}_weight": 0.3, **more}


def test_the_defaults_by_hand() -> None:
    """All four default signals together give the sum of weight * value."""
    blended = blend(LEGS)
    # a .55*.9 + .10*.5 + .05*1 = .595           b .30*1 + .55*.4 + .10*1 + .05*.6 = .65
    # c .30*.4 + .55*0 + .10*.25 + .05*.3 = .16  d .30*0 + .05*0 = 0
    assert ids(blended) == ["b", "a", "c", "d"]
    assert [one.score for one in blended] == pytest.approx([0.65, 0.595, 0.16, 0.0], rel=1e-12)


@pytest.mark.parametrize(
    ("signal", "expected"),
    [
        ("keyword", {"a": 0.0, "b": 1.0, "c": 0.4, "d": 0.0}),
        ("vector", {"a": 0.9, "b": 0.4, "c": 0.0, "d": 0.0}),
        ("recency", {"a": 0.5, "b": 1.0, "c": 0.25, "d": 0.0}),
        ("priority", {"a": 1.0, "b": 0.6, "c": 0.3, "d": 0.0}),
        ("graph", {"a": 0.0, "b": 0.0, "c": 0.0, "d": 0.0}),
    ],
)
def test_each_signal_alone(signal: str, expected: dict[str, float]) -> None:
    """With one weight left the score is that signal's value, whatever the weight."""
    assert dict(scores(blend(LEGS, **alone(signal)))) == pytest.approx(expected, rel=1e-12)


def test_the_default_weights_are_the_published_ones() -> None:
    """Keyword .30, vector .55, recency .10, priority .05, graph none; half-lives 7 days and 50 cycles."""
    of = run(explain=True)
    rank_by_blend(LEGS, Weighted(), of)
    shares = explanation(of, "a").stages[0]["values"]["weights"]
    assert shares == pytest.approx(DEFAULTS, rel=1e-12)
    assert math.fsum(shares.values()) == pytest.approx(1.0, rel=1e-15)
    stage = Weighted()
    assert (stage.half_life_days, stage.half_life_cycles) == (7.0, 50.0)
    assert (stage.graph_weight, stage.graph_edge_decay, stage.max_neighbors_per_candidate) == (0.0, 0.5, 5)


PERFECT: Mapping[str, Any] = {
    "id": "a",
    "created_at": NOW,
    "cycle": 100,
    "priority": "P1",
    # 2 * max(keyword 1, vector 1) of b * 0.5 = 1
    "edges": [{"to": "b", "weight": 2.0}],
}

WEIGHTS = {"keyword": 0.5, "vector": 0.7, "recency": 0.2, "priority": 0.1, "graph": 0.4}

SUBSETS = [set(chosen) for size in range(6) for chosen in itertools.combinations(SIGNALS, size)]

LOSSES = [off for off in SUBSETS if "graph" in off or not {"keyword", "vector"} <= off]
"""Without either leg there is nothing that could travel along an edge."""


def perfect(*, unweighed: set[str], lost: set[str]) -> tuple[list[Leg], Weighted, Run]:
    """A document with the value 1 in each signal, and a neighbour b that matches as well as it does; some weights are
    0, and some signals can't be computed.
    """
    payloads = {"a": PERFECT, "b": {"id": "b"}}
    legs = [
        vector(("a", 1.0), ("b", 1.0), payloads=payloads),
        keyword(("a", 3.0), ("b", 3.0), payloads=payloads),
        structured("a", "b", payloads=payloads),
    ]
    weights: dict[str, Any] = {
        f"{name}_weight": 0.0 if name in unweighed else weight for name, weight in WEIGHTS.items()
    }
    of = run(now=None if "recency" in lost else NOW, explain=True)
    return [leg for leg in legs if leg.name not in lost], Weighted(**weights), of


def by_names(names: set[str]) -> str:
    """The name of a test."""
    return "-".join(sorted(names)) or "none"


@pytest.mark.parametrize("off", SUBSETS, ids=by_names)
def test_weights_of_zero_leave_a_sum_of_one(off: set[str]) -> None:
    """Whichever weights are 0, what is best in all the other signals has 1; with none left, 0."""
    legs, stage, of = perfect(unweighed=off, lost=set())
    found = dict(scores(rank_by_blend(legs, stage, of)))
    assert found["a"] == pytest.approx(0.0 if off == set(SIGNALS) else 1.0, rel=1e-12)


@pytest.mark.parametrize("off", LOSSES, ids=by_names)
def test_losses_leave_a_sum_of_one(off: set[str]) -> None:
    """Whichever of legs and clock are lost, and of priority and graph unweighed, the rest sums to 1."""
    legs, stage, of = perfect(unweighed=off & {"priority", "graph"}, lost=off - {"priority", "graph"})
    found = dict(scores(rank_by_blend(legs, stage, of)))
    assert found["a"] == pytest.approx(0.0 if off == set(SIGNALS) else 1.0, rel=1e-12)


@pytest.mark.parametrize("off", LOSSES[:-1], ids=by_names)
def test_each_weight_is_divided_by_the_sum_of_the_active(off: set[str]) -> None:
    """The explanation's weights are those of the active signals, each over their sum, the graph's included."""
    legs, stage, of = perfect(unweighed=off & {"priority", "graph"}, lost=off - {"priority", "graph"})
    rank_by_blend(legs, stage, of)
    active = {name: weight for name, weight in WEIGHTS.items() if name not in off}
    expected = {name: weight / sum(active.values()) for name, weight in active.items()}
    assert explanation(of, "a").stages[0]["values"]["weights"] == pytest.approx(expected, rel=1e-12)


def test_a_leg_that_found_nothing_keeps_its_weight() -> None:
    """A signal is inactive when it could not be computed, not when it found nothing."""
    found = LEGS[0]
    # With the leg empty a has .55*.9 + .10*.5 + .05*1; with it lost that is divided by .70.
    assert dict(scores(blend([found, keyword()])))["a"] == pytest.approx(0.595, rel=1e-12)
    assert dict(scores(blend([found])))["a"] == pytest.approx(0.595 / 0.70, rel=1e-12)


def test_keyword_scores_that_are_all_equal_become_one() -> None:
    """A keyword leg that can't tell its hits apart gives each the full signal."""
    assert scores(blend([keyword(("a", 2.5), ("b", 2.5))], **alone("keyword"))) == [("a", 1.0), ("b", 1.0)]


def test_a_cosine_is_taken_as_it_is() -> None:
    """The best cosine isn't stretched to 1, nor the worst to 0; below 0 it counts 0."""
    found = vector(("a", 0.4), ("b", 0.2), ("c", 0.0), ("d", -1.0))
    assert scores(blend([found], **alone("vector"))) == [("a", 0.4), ("b", 0.2), ("c", 0.0), ("d", 0.0)]


def test_a_repeated_id_counts_at_its_first_rank() -> None:
    """The second appearance of an id changes neither its own values nor the keyword leg's scale."""
    once = [vector(("a", 0.9), ("b", 0.5)), keyword(("a", 9.0), ("b", 6.0), ("c", 5.0))]
    twice = [vector(("a", 0.9), ("b", 0.5), ("a", 0.1)), keyword(("a", 9.0), ("b", 6.0), ("c", 5.0), ("b", 1.0))]
    assert scores(blend(twice)) == scores(blend(once))


NO_PRIORITIES: list[object] = ["P5", "p1", "P1 ", "", None, 1, True, ["P1"], {"P1": 1}, math.nan]


@pytest.mark.parametrize(
    ("priority", "value"),
    [("P1", 1.0), ("P2", 0.6), ("P3", 0.3), ("P4", 0.0), *((odd, 0.0) for odd in NO_PRIORITIES)],
    ids=repr,
)
def test_priorities(priority: object, value: float) -> None:
    """P1 to P4 have the table's values, and whatever else stands there counts 0 and raises nothing."""
    found = vector(("a", 1.0), payloads={"a": {"priority": priority}})
    assert scores(blend([found], **alone("priority"))) == [("a", value)]


def test_a_document_of_the_structured_leg_takes_part() -> None:
    """It has 0 in the signals of the legs that didn't return it, and the rest as any other."""
    found = [vector(("a", 0.2)), structured("s", payloads={"s": {"created_at": NOW, "priority": "P1"}})]
    # Without a keyword leg the weights are .55, .10, .05 over .70: s (.10 + .05) / .70, a .55 * .2 / .70.
    blended = blend(found)
    assert ids(blended) == ["s", "a"]
    assert [one.score for one in blended] == pytest.approx([0.15 / 0.70, 0.11 / 0.70], rel=1e-12)


@pytest.mark.parametrize(("limit", "kept"), [(0, 4), (-3, 4), (1, 1), (2, 2), (9, 4)])
def test_a_limit_keeps_the_first(limit: int, kept: int) -> None:
    """At most `limit` candidates stay, the best; 0 or less keeps all."""
    assert ids(blend(LEGS, limit=limit)) == ["b", "a", "c", "d"][:kept]


def test_nothing_found_is_an_empty_list() -> None:
    """No legs, and empty legs, give no candidates."""
    assert blend([]) == blend([vector(), keyword()]) == []
