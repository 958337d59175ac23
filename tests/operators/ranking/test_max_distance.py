"""`max_distance`: what is too far is out, before the stages on distance and behind them, and without any."""

from operators.ranking.distance import rank_by_distance
from operators.ranking.run import Facts
from schemas.recipes.stages import ImportanceBoost, WeibullDecay
from tests.operators.ranking.odd import YEAR_1
from tests.operators.ranking.pools import candidate, ids, near, rank, recipe, run, scores, vector

IMPORTANCE = ImportanceBoost(enabled=True)


def test_max_distance_holds_on_the_fused_distance() -> None:
    """A document that was too far when the stages began stays out, even if brought near; at the limit it stays."""
    pool = [candidate(id_, score, importance=5) for id_, score in (("a", 0.75), ("b", 0.5), ("c", 0.4375))]
    assert ids(rank_by_distance(pool, [ImportanceBoost(enabled=True, weight=1.0)], 0.5, run())) == ["a", "b"]


def test_max_distance_holds_on_the_final_distance() -> None:
    """A document that the stages move too far goes; at the limit it stays in: .25 / .5 = .5 is, .3125 / .5 isn't."""
    pool = [candidate(id_, score, created_at=YEAR_1) for id_, score in (("a", 0.75), ("b", 0.6875))]
    stage = WeibullDecay(enabled=True, floor=0.5)
    assert scores(rank_by_distance([*pool, candidate("c", 0.625)], [stage], 0.5, run())) == [("c", 0.625), ("a", 0.5)]


def test_max_distance_between_stages_is_not_asked_for() -> None:
    """Only the first and the last distance count: .5 / .5 = 1 is too far, and * .15 isn't any more."""
    stages = (WeibullDecay(enabled=True, floor=0.5), ImportanceBoost(enabled=True, weight=0.85))
    pool = [candidate("a", 0.5, created_at=YEAR_1, importance=5)]
    assert scores(rank_by_distance(pool, stages, 0.5, run())) == near(a=0.85)


def test_a_max_distance_of_zero_is_off() -> None:
    """0 keeps everything, at any distance."""
    assert scores(rank_by_distance([candidate("a", 0.6), candidate("b", -40.0)], [IMPORTANCE], 0, run())) == near(
        a=0.6, b=-40.0
    )


def test_max_distance_holds_without_a_stage() -> None:
    """A document that is too far is out without stages, too, and nothing else changes: neither an order nor a score."""
    pool = [candidate("a", 0.75), candidate("b", 0.25), candidate("c", 0.5), candidate("d", 7.0)]
    of = run(explain=True)
    assert scores(rank_by_distance(pool, (), 0.5, of)) == [("a", 0.75), ("c", 0.5), ("d", 7.0)]
    assert not of.reranked
    assert of.explanations is not None
    assert of.explanations.by_id == {}


def test_max_distance_drops_a_score_below_zero() -> None:
    """A distance may be above 1: -.5 is 1.5, farther than 1 and nearer than 2."""
    assert ids(rank_by_distance([candidate("a", 0.0), candidate("b", -0.5)], (), 1.0, run())) == ["a"]
    assert ids(rank_by_distance([candidate("a", 0.0), candidate("b", -0.5)], (), 2.0, run())) == ["a", "b"]


def test_max_distance_is_measured_where_the_stages_stand() -> None:
    """Cosines .6 .3 are .8 .4 after a composite of relevance alone. Where a distance stage stands behind it, though
    off, .4 is within .65; without one the fusion's .3 is measured, which is not.
    """
    found = [vector(("a", 0.6), ("b", 0.3))]
    before = ["vector", {"composite": {"quality": 0}}]
    placed = rank(recipe(*before, "weibull_decay", max_distance=0.65), found, Facts()).candidates
    assert scores(placed) == near(a=0.8, b=0.4)
    assert scores(rank(recipe(*before, max_distance=0.65), found, Facts()).candidates) == near(a=0.8)
