"""Decay: cosine and age by hand, in both modes, what has no cosine or date, when it is off, ties, and any payload."""

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from operators.ranking.candidate import Leg
from operators.ranking.fusion import rank_by_decay
from schemas.errors import InputError
from schemas.recipes.fusion import Decay, DecayTier
from schemas.result import KEYWORD, STRUCTURED, VECTOR
from tests.operators.ranking.odd import NO_STAMPS, YEAR_1, ago, named, payloads
from tests.operators.ranking.pools import any_finite, hits, ids, keyword, leg, run, scores, structured, vector

ON = Decay(enabled=True)
STEP = Decay(enabled=True, mode="step", step_threshold_days=30)


def one(cosine: float, stage: Decay = ON, created_at: object = None, **facts: Any) -> float:
    """The score of the only document, which the vector leg returned with this cosine."""
    found = [vector(("a", cosine), payloads={"a": {"created_at": created_at}})]
    return rank_by_decay(found, stage, run(**facts))[0].score


@pytest.mark.parametrize(
    ("days", "score"),
    [
        (0, 0.86),  # .7 * .8 + .3 * 1
        (3.5, 0.7721320343559643),  # .56 + .3 * 2^-.5
        (7, 0.71),  # .56 + .3 * .5
        (14, 0.635),  # .56 + .3 * .25
        (70, 0.56029296875),  # .56 + .3 / 1024
        (100_000, 0.56),
    ],
)
def test_exponential_by_hand(days: float, score: float) -> None:
    """0.7 * cosine + 0.3 * 2^(-age/7): a cosine of .8 at several ages."""
    assert one(0.8, created_at=ago(days)) == pytest.approx(score)


@pytest.mark.parametrize(
    ("days", "score"), [(0, 0.86), (29, 0.86), (30, 0.86), (30.01, 0.59), (31, 0.59), (100_000, 0.59)]
)
def test_step_by_hand(days: float, score: float) -> None:
    """Until the threshold and on it .56 + .3, then .56 + .3 * .1."""
    assert one(0.8, STEP, ago(days)) == pytest.approx(score)


def test_a_step_without_a_threshold_is_at_the_half_life() -> None:
    """The stage's own half-life is the threshold, else the profile's."""
    own = Decay(mode="step", half_life_days=10)
    assert one(0.8, own, ago(10)) == pytest.approx(0.86)
    assert one(0.8, own, ago(10.01)) == pytest.approx(0.59)
    default = Decay(mode="step", enabled=True)
    assert one(0.8, default, ago(30), decay_half_life=30.0) == pytest.approx(0.86)
    assert one(0.8, default, ago(30), decay_half_life=7.0) == pytest.approx(0.59)


@pytest.mark.parametrize(("cosine", "clamped"), [(1.0, 1), (1.0000001, 1), (40.0, 1), (0.0, 0), (-0.4, 0)])
def test_the_cosine_is_clamped(cosine: float, clamped: float) -> None:
    """A cosine above 1 counts 1 and one below 0 counts 0, with decay and without."""
    assert one(cosine, created_at=ago(0)) == pytest.approx(0.7 * clamped + 0.3)
    assert one(cosine, Decay()) == clamped


WEEK_OLD = {"a": {"created_at": ago(7)}}


@pytest.mark.parametrize(
    ("found", "cosine"),
    [
        ([vector(("z", 0.9), ("y", 0.4)), keyword(("a", 17.0), payloads=WEEK_OLD)], 0.4),
        ([vector(("z", 0.9)), structured("a", payloads=WEEK_OLD)], 0.9),
        # It cannot have more than that, and below 0 counts 0.
        ([vector(("z", 0.9), ("y", -0.2)), keyword(("a", 17.0), payloads=WEEK_OLD)], 0.0),
        ([vector(), keyword(("a", 17.0), payloads=WEEK_OLD)], 0.0),
        ([vector(("z", 1.5)), keyword(("a", 17.0), payloads=WEEK_OLD)], 1.0),
        # Nothing is known of any cosine.
        ([keyword(("a", 17.0), payloads=WEEK_OLD)], 0.5),
        ([structured("a", payloads=WEEK_OLD)], 0.5),
    ],
)
def test_without_a_cosine_the_bound_counts(found: list[Leg], cosine: float) -> None:
    """A candidate that the vector leg didn't return has that leg's smallest cosine, and .5 where it was not asked:
    .7 of it + .3 * .5 at one half-life, and the cosine alone where decay is off.
    """
    assert dict(scores(rank_by_decay(found, ON, run())))["a"] == pytest.approx(0.7 * cosine + 0.15)
    assert dict(scores(rank_by_decay(found, Decay(), run())))["a"] == cosine
    assert dict(scores(rank_by_decay(found, STEP, run())))["a"] == pytest.approx(0.7 * cosine + 0.3)


@pytest.mark.parametrize(
    "found",
    [
        [vector(("z", 0.9), ("y", 0.4)), keyword(("a", 17.0), payloads=WEEK_OLD)],
        [vector(), structured("a", payloads=WEEK_OLD)],
        [keyword(("a", 17.0), payloads=WEEK_OLD)],
    ],
)
@pytest.mark.parametrize("neutral", [0.0, 0.5, 1.0])
def test_a_number_counts_in_place_of_the_bound(found: list[Leg], neutral: float) -> None:
    """With the source's .5, or another number, no candidate's cosine depends on the leg."""
    stage = Decay(enabled=True, neutral=neutral)
    assert dict(scores(rank_by_decay(found, stage, run())))["a"] == pytest.approx(0.7 * neutral + 0.15)


def test_the_newest_do_not_bury_the_answer() -> None:
    """The best match, 90 days old, has .63 and next to nothing, and goes before twenty of today that only share a word:
    at the bound .1 these have .07 + .3. At the source's neutral .5 they have .65, and it comes 21st.
    """
    newest = [(f"new-{number}", 0.5) for number in range(20)]
    dated = {"answer": {"created_at": ago(90)}, "last": {}, **{id_: {"created_at": ago(0)} for id_, _ in newest}}
    found = [vector(("answer", 0.9), ("last", 0.1), payloads=dated), keyword(("answer", 7.0), *newest, payloads=dated)]
    ranked = scores(rank_by_decay(found, ON, run()))
    assert ranked[0][0] == "answer"
    assert [score for _, score in ranked[:2]] == pytest.approx([0.63 + 0.3 * 2 ** (-90 / 7), 0.37])
    assert ids(rank_by_decay(found, Decay(enabled=True, neutral=0.5), run())).index("answer") == 20


def test_the_vector_legs_cosine_goes_before_the_neutral_one() -> None:
    """A document of all legs is there once, with its cosine; what other legs scored counts for nothing."""
    found = [structured("b", "a"), keyword(("a", 30.0), ("b", 20.0)), vector(("a", 0.2))]
    assert scores(rank_by_decay(found, Decay(neutral=0.5), run())) == [("b", 0.5), ("a", 0.2)]


def test_an_id_that_the_vector_leg_repeats_counts_at_its_first_rank() -> None:
    """The cosine of a repeated id is its first."""
    assert scores(rank_by_decay([vector(("a", 0.9), ("b", 0.5), ("a", 0.1))], Decay(), run())) == [
        ("a", 0.9),
        ("b", 0.5),
    ]


@pytest.mark.parametrize("stamp", NO_STAMPS, ids=named)
def test_an_undated_document_weighs_nothing_or_a_step(stamp: object) -> None:
    """Without a date, and with one that isn't a time, the weight is 0: .56; in step mode .1: .59."""
    assert one(0.8, created_at=stamp) == pytest.approx(0.56)
    assert one(0.8, STEP, stamp) == pytest.approx(0.59)


def test_only_the_creation_counts() -> None:
    """A change or an access of today is no date of the document."""
    found = [vector(("a", 0.8), payloads={"a": {"updated_at": ago(0), "accessed_at": ago(0)}})]
    assert rank_by_decay(found, ON, run())[0].score == pytest.approx(0.56)


def test_the_future_counts_as_now_with_a_warning() -> None:
    """A stamp after now has age 0, and the answer says that there was one."""
    noting = run()
    found = [vector(("a", 0.8), payloads={"a": {"created_at": ago(-30)}})]
    assert rank_by_decay(found, ON, noting)[0].score == pytest.approx(0.86)
    assert len(noting.warnings()) == 1


@pytest.mark.parametrize("half_life", [5e-324, 1e-300, 0.001, 7.0])
def test_the_year_1_weighs_nothing(half_life: float) -> None:
    """The oldest stamp that there is leaves the cosine's share, and raises with no half-life, however short."""
    assert one(0.8, Decay(half_life_days=half_life), YEAR_1) == pytest.approx(0.56)
    assert one(0.8, STEP, YEAR_1) == pytest.approx(0.59)


@pytest.mark.parametrize(
    ("stage", "facts"),
    [
        (Decay(), {}),
        (Decay(mode="step", step_threshold_days=3), {}),
        (ON, {"decay_half_life": None}),
        (Decay(half_life_days=3), {"decay_half_life": None}),
        (ON, {"decay_half_life": None, "decay": (DecayTier(enabled=True, half_life_days=1),)}),
    ],
)
def test_off_is_the_cosine_alone(stage: Decay, facts: dict[str, Any]) -> None:
    """Without a tier that turns it on, and in a profile that has none, age counts for nothing and needs no clock."""
    found = [vector(("a", 0.8), ("b", 0.7), payloads={"a": {"created_at": YEAR_1}, "b": {"created_at": ago(0)}})]
    assert scores(rank_by_decay(found, stage, run(now=None, **facts))) == [("a", 0.8), ("b", 0.7)]


def test_decay_needs_a_clock() -> None:
    """Decay that is on without a now is an error that names both `now` and the stage."""
    with pytest.raises(InputError, match=r"^now: .*stage decay "):
        rank_by_decay([vector(("a", 0.8))], ON, run(now=None))


def test_a_more_specific_tier_decides() -> None:
    """The tiers of the query go before the recipe's: half-life 14 and not 7, so 2^-.5 after a week."""
    tiers = (DecayTier(), DecayTier(half_life_days=14), DecayTier(half_life_days=0))
    assert one(0.8, Decay(half_life_days=7), ago(7), decay=tiers) == pytest.approx(0.56 + 0.3 * 0.7071067811865476)


def test_a_tier_of_the_query_turns_it_on() -> None:
    """A recipe whose stage is off decays where a destination, a collection or a source policy says so."""
    assert one(0.8, Decay(), ago(7), decay=(DecayTier(enabled=True),)) == pytest.approx(0.71)
    assert one(0.8, Decay(), ago(7), decay=(DecayTier(half_life_days=7),)) == pytest.approx(0.71)


def test_the_profiles_half_life_is_in_place_of_none() -> None:
    """On without a half-life: half of the weight is left after the profile's 7 or 30 days."""
    assert one(0.8, created_at=ago(7)) == one(0.8, created_at=ago(30), decay_half_life=30.0) == pytest.approx(0.71)


@pytest.mark.parametrize("order", [(0, 1, 2), (2, 1, 0), (1, 2, 0)])
def test_ties_go_by_the_words_then_by_id(order: tuple[int, ...]) -> None:
    """Of equal scores the better BM25 goes first, then the id, whatever legs they came from and in whatever order."""
    found = [vector(("m", 0.5)), keyword(("z", 3.0), ("n", 1.0), ("b", 1.0)), structured("k", "a")]
    ranked = rank_by_decay([found[place] for place in order], Decay(), run())
    assert scores(ranked) == [(id_, 0.5) for id_ in ["z", "b", "n", "a", "k", "m"]]


def test_a_better_score_goes_before_better_words() -> None:
    """BM25 only tells equal scores apart, and an id that the keyword leg repeats counts at its first rank."""
    found = [vector(("a", 0.5), ("b", 0.4), ("c", 0.4)), keyword(("b", 9.0), ("c", 7.0), ("b", 1.0))]
    assert ids(rank_by_decay(found, Decay(), run())) == ["a", "b", "c"]


def test_ties_go_by_the_documents_own_id() -> None:
    """The payload's id of a document decides, not the point's, if there is one."""
    named = {"x": {"id": "2"}, "y": {"id": "10"}, "z": {"id": "1"}}
    assert ids(rank_by_decay([vector(("x", 0.5), ("y", 0.5), ("z", 0.5), payloads=named)], Decay(), run())) == [
        "z",
        "y",
        "x",
    ]


@pytest.mark.parametrize(("limit", "kept"), [(2, "ab"), (1, "a"), (9, "abc"), (0, "abc"), (-3, "abc")])
def test_the_limit(limit: int, kept: str) -> None:
    """At most `limit` are left, the best; 0 or less is all."""
    assert ids(rank_by_decay([vector(("a", 0.9), ("b", 0.8), ("c", 0.7))], Decay(limit=limit), run())) == list(kept)


def test_the_legs_are_meaning_and_words() -> None:
    """The stage asks the structured leg only where there is nothing to ask the others by, and ranks any leg's offer."""
    assert ON.legs == (VECTOR, KEYWORD)
    assert ON.unasked == (STRUCTURED,)
    assert ids(rank_by_decay([structured("b"), leg("other", ("a", 1.0))], Decay(), run())) == ["a", "b"]


def test_nothing_is_ranked_as_nothing() -> None:
    """No legs and empty legs give an empty list."""
    assert rank_by_decay([], ON, run()) == rank_by_decay([vector(), keyword(), structured()], ON, run()) == []


@given(
    st.lists(st.tuples(any_finite, payloads), max_size=8),
    st.sampled_from(["exponential", "step", None]),
    st.floats(0, 1e6),
    st.floats(0, 1e6),
)
def test_any_payload_has_a_score_within_zero_and_one(
    pool: list[tuple[float, dict[str, Any]]], mode: Any, half_life: float, threshold: float
) -> None:
    """Whatever scores and fields hold and whatever the tier says: none is lost, all are in [0, 1], best first."""
    names = [str(place) for place in range(len(pool))]
    values = [score for score, _ in pool]
    found = [vector(*zip(names, values, strict=True), payloads={name: pool[int(name)][1] for name in names})]
    stage = Decay(enabled=True, mode=mode, half_life_days=half_life, step_threshold_days=threshold)
    ranked = rank_by_decay(found, stage, run())
    assert sorted(ids(ranked)) == sorted(names)
    assert all(math.isfinite(each.score) and 0 <= each.score <= 1 for each in ranked)
    assert [each.score for each in ranked] == sorted((each.score for each in ranked), reverse=True)


@given(hits(st.floats(-1, 1)), hits(st.floats(0, 50)))
def test_the_bound_puts_nobody_before_a_cosine_that_is_as_new(
    cosines: list[tuple[str, float]], words: list[tuple[str, float]]
) -> None:
    """Of documents of one age none that the vector leg left out scores more than one that it returned."""
    found = scores(rank_by_decay([vector(*cosines), keyword(*words)], ON, run()))
    with_cosine = {id_ for id_, _ in cosines}
    least = min((score for id_, score in found if id_ in with_cosine), default=math.inf)
    assert all(score <= least for id_, score in found if id_ not in with_cosine)


@given(st.floats(-1, 1), st.floats(0, 1e5), st.floats(0, 1e5), st.sampled_from([ON, STEP, Decay(half_life_days=0.5)]))
def test_age_never_raises_a_score(cosine: float, first: float, second: float, stage: Decay) -> None:
    """Of two documents that differ in age alone, the older has the same score or less, an undated one none more."""
    young, old = sorted((first, second))
    older = one(cosine, stage, ago(old))
    assert one(cosine, stage) <= older <= one(cosine, stage, ago(young))
