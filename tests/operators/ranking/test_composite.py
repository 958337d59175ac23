"""Composite re-rank: terms by hand, maxima of the whole set, weights, ties, and that equal quality changes nothing."""

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from operators.ranking.candidate import Candidate
from operators.ranking.composite import composite
from schemas.errors import InputError
from schemas.recipes.stages import Composite
from tests.operators.ranking.odd import YEAR_1, ago, payloads
from tests.operators.ranking.pools import any_finite, candidate, ids, run, scores

RELEVANCE = Composite(relevance=1.0, quality=0.0)
RECENCY = Composite(relevance=0.0, recency=1.0, quality=0.0)
IMPORTANCE = Composite(relevance=0.0, importance=1.0, quality=0.0)
QUALITY = Composite(relevance=0.0, quality=1.0)


def near(*pairs: tuple[str, float]) -> list[tuple[str, object]]:
    """Ids and scores, with a tolerance."""
    return [(id_, pytest.approx(value)) for id_, value in pairs]


def test_the_defaults() -> None:
    """A stage that says nothing weighs relevance .80 and quality .20, nothing else."""
    stage = Composite()
    assert (stage.relevance, stage.recency, stage.importance, stage.quality) == (0.80, 0.0, 0.0, 0.20)


def test_the_default_blend_by_hand() -> None:
    """Relevance .9 .6 .3 of .9, quality 0 .4 .2 of .4: .8, .8 * 2/3 + .2, .8 * 1/3 + .1."""
    found = composite(
        [
            candidate("a", 0.9),
            candidate("b", 0.6, memory_tier="semantic", salience=0.4),
            candidate("c", 0.3, memory_tier="semantic", salience=0.2),
        ],
        Composite(),
        run(),
    )
    assert scores(found) == near(("a", 0.8), ("b", 0.7333333333333333), ("c", 0.3666666666666667))


def test_every_term_by_hand() -> None:
    """Four weights that sum to 7: 1 * relevance + 2 * recency + 3 * importance/5 + 1 * quality."""
    found = composite(
        [
            candidate("a", 2.0, memory_tier="working", importance=5, created_at=ago(7)),
            candidate("b", 1.0, memory_tier="procedural", importance=0, created_at=ago(14)),
        ],
        Composite(relevance=1, recency=2, importance=3, quality=1),
        run(),
    )
    # Qualities: a .30 * 1 * exp(-1) = .11036383, b .95 * .5 = .475, the maximum; a's share .23234491.
    # a: 1 + 2 * .36787944 + 3 * 1 + .23234491 = 4.96810379; b: .5 + 2 * .13533528 + 0 + 1 = 1.77067057.
    assert scores(found) == near(("a", 4.968103791), ("b", 1.770670566))


def test_a_confirmed_fact_climbs_past_an_equally_relevant_observation() -> None:
    """Of equal relevance the durable, often used document goes first, with .8 + .2."""
    fact = candidate(
        "fact", 0.5, memory_tier="semantic", importance=4, access_count=20, confidence=1, accessed_at=ago(1)
    )
    found = composite([candidate("seen", 0.5, memory_tier="episodic", created_at=ago(1)), fact], Composite(), run())
    assert ids(found) == ["fact", "seen"]
    assert found[0].score == pytest.approx(1.0)


def test_relevance_is_by_the_maximum_of_the_set() -> None:
    """The maximum counts wherever it stands in the list: 1, 4 and 2 become .25, 1 and .5."""
    found = composite([candidate("a", 1.0), candidate("b", 4.0), candidate("c", 2.0)], RELEVANCE, run())
    assert scores(found) == [("b", 1.0), ("c", 0.5), ("a", 0.25)]


def test_quality_is_by_the_maximum_of_the_set() -> None:
    """Saliences 3, 6 and 0 of durable documents become .5, 1 and 0."""
    pool = [
        candidate(id_, 1.0, memory_tier="semantic", salience=value) for id_, value in (("a", 3), ("b", 6), ("c", 0))
    ]
    assert scores(composite(pool, QUALITY, run())) == [("b", 1.0), ("a", 0.5), ("c", 0.0)]


@pytest.mark.parametrize("values", [[0.0, 0.0, 0.0], [0.0, -1.0, -2.0], [-0.5, -1.0, -7.0], [-5e-324, -1.0, -1e30]])
def test_a_maximum_of_zero_or_less_makes_relevance_zero(values: list[float]) -> None:
    """Without a positive score nobody is relevant, and quality alone is left."""
    pool = [
        candidate("a", values[0]),
        candidate("b", values[1]),
        candidate("c", values[2], salience=1, memory_tier="semantic"),
    ]
    assert scores(composite(pool, Composite(), run())) == [("c", 0.2), ("a", 0.0), ("b", 0.0)]


def test_a_maximum_quality_of_zero_makes_quality_zero() -> None:
    """Relevance alone is left if no document is worth anything."""
    pool = [candidate("a", 2.0), candidate("b", 1.0, memory_tier="working")]
    assert scores(composite(pool, Composite(), run())) == near(("a", 0.8), ("b", 0.4))


def test_scores_below_zero_stay_below() -> None:
    """A negative score beside a positive maximum is divided by it, not clamped."""
    found = composite([candidate("a", 2.0), candidate("b", -1.0)], RELEVANCE, run())
    assert scores(found) == [("a", 1.0), ("b", -0.5)]


def test_a_maximum_of_next_to_nothing_leaves_scores_finite() -> None:
    """Divided by the smallest float there is, -1e30 is still a number, and the last."""
    found = composite([candidate("a", -1e30), candidate("b", 0.0), candidate("c", 5e-324)], Composite(), run())
    assert ids(found) == ["c", "b", "a"]
    assert all(math.isfinite(each.score) for each in found)


def test_weights_need_not_sum_to_one() -> None:
    """A weight is used as it is: 3 * 1 and 3 * .5."""
    found = composite([candidate("a", 2.0), candidate("b", 1.0)], Composite(relevance=3, quality=0), run())
    assert scores(found) == [("a", 3.0), ("b", 1.5)]


@pytest.mark.parametrize("tier", ["semantic", "procedural", "episodic", None])
def test_the_recency_term_fades_in_every_tier(tier: str | None) -> None:
    """Durable tiers are spared by quality alone: the recency term is exp(-1) after a week in each."""
    found = composite([candidate("a", 1.0, memory_tier=tier, updated_at=ago(7), created_at=ago(1))], RECENCY, run())
    assert found[0].score == pytest.approx(0.36787944117144233)


@pytest.mark.parametrize("stamp", [None, "soon", "2023-11-14T22:13:20"])
def test_the_recency_of_an_undated_document_is_zero(stamp: object) -> None:
    """Without a stamp, and with one that isn't a time, nothing is recent."""
    assert composite([candidate("a", 1.0, created_at=stamp)], RECENCY, run())[0].score == 0


def test_the_recency_of_the_year_1_is_zero() -> None:
    """The oldest stamp that there is has no recency."""
    assert composite([candidate("a", 1.0, created_at=YEAR_1)], RECENCY, run())[0].score == 0


def test_the_importance_term_has_the_stages_scale() -> None:
    """Importance 2 is .4 of 5 and, on the scale to 1, 1; missing it is 0."""
    to_1 = IMPORTANCE.model_copy(update={"importance_scale": 1})
    assert composite([candidate("a", 1.0, importance=2)], IMPORTANCE, run())[0].score == pytest.approx(0.4)
    assert composite([candidate("a", 1.0, importance=2)], to_1, run())[0].score == 1
    assert composite([candidate("a", 1.0)], IMPORTANCE, run())[0].score == 0


def test_the_future_is_warned_of_once_a_document() -> None:
    """Two documents of the future are two, however many of their stamps and terms are."""
    noting = run()
    pool = [candidate(id_, 1.0, accessed_at=ago(-1), updated_at=ago(-2)) for id_ in "ab"]
    composite(pool, Composite(recency=1), noting)
    assert len(noting.warnings()) == 1
    assert noting.warnings()[0].startswith("2 candidates ")


@pytest.mark.parametrize("stage", [RECENCY, QUALITY, Composite()])
def test_time_needs_a_clock(stage: Composite) -> None:
    """Recency and quality without a now are an error that names both `now` and the stage."""
    with pytest.raises(InputError, match=r"^now: .*stage composite "):
        composite([candidate("a", 1.0)], stage, run(now=None))


@pytest.mark.parametrize("stage", [RELEVANCE, IMPORTANCE])
def test_what_has_no_time_needs_no_clock(stage: Composite) -> None:
    """Relevance and importance are the same without a now."""
    pool = [candidate("a", 1.0, importance=5), candidate("b", 0.5, importance=2.5)]
    assert scores(composite(pool, stage, run(now=None))) == [("a", 1.0), ("b", 0.5)]


def test_ties_keep_their_order() -> None:
    """Equal scores stay in the order in which they came, whatever their ids."""
    pool = [candidate("z", 1.0), candidate("m", 1.0), candidate("a", 1.0), candidate("y", 2.0)]
    assert ids(composite(pool, Composite(), run())) == ["y", "z", "m", "a"]


def test_nothing_is_ranked_as_nothing() -> None:
    """An empty list stays one."""
    assert composite([], Composite(recency=1, importance=1), run()) == []


values = st.lists(any_finite | st.sampled_from([0.0, -0.0, 0.5, 1.0, 1e-45]), max_size=12)


@given(values, payloads, st.floats(0, 100), st.floats(0, 100))
def test_equal_quality_leaves_the_order_of_relevance(
    found: list[float], payload: dict[str, Any], relevance: float, weight: float
) -> None:
    """Documents worth the same stay in fused order, whatever they are worth and whatever the weights."""
    pool = [Candidate(str(place), score, payload) for place, score in enumerate(sorted(found, reverse=True))]
    ranked = composite(pool, Composite(relevance=relevance, quality=weight), run())
    assert ids(ranked) == [str(place) for place in range(len(found))]


@given(st.lists(st.tuples(any_finite, payloads), max_size=8), st.tuples(*[st.floats(0, 1e6)] * 4))
def test_any_payload_has_a_finite_score(pool: list[tuple[float, dict[str, Any]]], weights: tuple[float, ...]) -> None:
    """Whatever fields and scores hold, no candidate is lost, no score is NaN or infinite, and the best is first."""
    relevance, recency, importance, quality = weights
    stage = Composite(relevance=relevance, recency=recency, importance=importance, quality=quality)
    ranked = composite([Candidate(str(place), *each) for place, each in enumerate(pool)], stage, run())
    found = [each.score for each in ranked]
    assert all(map(math.isfinite, found))
    assert found == sorted(found, reverse=True)
    assert sorted(ids(ranked)) == sorted(map(str, range(len(pool))))


@given(st.lists(st.tuples(st.floats(0, 1), st.floats(0, 1)), min_size=2, max_size=8), st.integers(0, 7))
def test_more_salience_never_hurts(pool: list[tuple[float, float]], at: int) -> None:
    """Raising one document's salience to the highest of all puts nobody ahead of it who wasn't."""
    at %= len(pool)

    def ahead(saliences: list[float]) -> set[str]:
        documents = [
            candidate(str(place), score, memory_tier="semantic", salience=salience)
            for place, ((score, _), salience) in enumerate(zip(pool, saliences, strict=True))
        ]
        ranked = composite(documents, Composite(), run())
        own = next(each.score for each in ranked if each.id == str(at))
        # As far as floats can tell scores apart.
        return {each.id for each in ranked if each.score > own + 1e-9}

    saliences = [salience for _, salience in pool]
    raised = [max(saliences) if place == at else salience for place, salience in enumerate(saliences)]
    assert ahead(raised) <= ahead(saliences)
