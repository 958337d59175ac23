"""Reflections: left out, lifted, or ranked alone."""

import itertools
from collections.abc import Mapping
from typing import Any

import pytest

from operators.ranking import blend
from operators.ranking.candidate import Candidate, Leg
from operators.ranking.pipeline import Ranked
from operators.ranking.run import Facts, ModelScores
from schemas.errors import DeadLetterClass, InputError
from schemas.recipes.stages import Reflections
from tests.operators.ranking.pools import (
    DAY,
    NOW,
    candidate,
    ids,
    keyword,
    near,
    rank,
    recipe,
    run,
    scores,
    structured,
    vector,
)

R: Mapping[str, Any] = {"type": "reflection"}

MIXED: Mapping[str, Mapping[str, Any]] = {"r": R, "a": {"type": "note"}, "b": {}}

LEGS = [
    keyword(("r", 10.0), ("a", 6.0), ("b", 2.0), payloads=MIXED),
    vector(("a", 0.8), ("r", 0.6), ("b", 0.2), payloads=MIXED),
]
"""With the reflection the keyword leg gives r 1, a 0.5, b 0; without it a 1, b 0."""


def ranked(*stages: Any, legs: list[Leg] = LEGS, **facts: Any) -> Ranked:
    """These legs ranked by a recipe of these stages, at NOW or with other facts."""
    return rank(recipe(*(stages or ("weighted", "reflections"))), legs, Facts(**{"now": NOW, **facts}))


def only(legs: list[Leg], of: Mapping[str, Any] | None = None, **parameters: Any) -> list[tuple[str, float]]:
    """Reflections alone, with these facts and parameters of the stage."""
    stages = ("weighted", {"reflections": parameters}) if parameters else ("weighted", "reflections")
    return scores(ranked(*stages, legs=legs, reflections_only=True, **(of or {})).candidates)


def dated(**days: float) -> dict[str, dict[str, Any]]:
    """Reflections created so many days ago."""
    return {id_: {**R, "created_at": NOW - ago * DAY} for id_, ago in days.items()}


@pytest.mark.parametrize("stage", ["weighted", "score", "rrf"])
def test_reflections_left_out_are_gone(stage: str) -> None:
    """None of them is in the list, whatever the fusion; by default they are."""
    assert sorted(ids(ranked(stage, include_reflections=False).candidates)) == ["a", "b"]
    assert sorted(ids(ranked(stage).candidates)) == ["a", "b", "r"]


def test_reflections_left_out_do_not_stretch_a_legs_scale() -> None:
    """They are removed before the legs are normalised: a is best of the keyword leg then, not half of r."""
    alone = {"weighted": {"vector_weight": 0.0, "recency_weight": 0.0, "priority_weight": 0.0}}
    assert dict(scores(ranked(alone).candidates)) == {"r": 1.0, "a": 0.5, "b": 0.0}
    assert dict(scores(ranked(alone, include_reflections=False).candidates)) == {"a": 1.0, "b": 0.0}


def test_reflections_left_out_hold_no_rank() -> None:
    """A document that stands behind one moves up, as if a filter had kept it out of the leg."""
    # Without r: a 1/5 + 1/5, b 1/6 + 1/6.
    fused = ranked("rrf", include_reflections=False).candidates
    assert dict(scores(fused)) == pytest.approx({"a": 2 / 5, "b": 2 / 6}, rel=1e-12)


@pytest.mark.parametrize("kind", [None, "", "Reflection", "reflections", ["reflection"], {"reflection": 1}, True])
def test_only_the_type_reflection_is_one(kind: object) -> None:
    """Any other type, and none, is an ordinary document."""
    legs = [vector(("a", 0.5), payloads={"a": {"type": kind}})]
    assert ids(ranked("weighted", legs=legs, include_reflections=False).candidates) == ["a"]
    assert only(legs) == []


def boosted(*candidates: Candidate, by: float) -> list[tuple[str, float]]:
    """These candidates with the boost."""
    return scores(blend.boost_reflections(candidates, Reflections(reflection_boost=by), run()))


def test_a_boost_multiplies_the_final_score() -> None:
    """Reflections' scores are multiplied, others' are not, and the list is in order again."""
    found = [candidate("a", 0.8), candidate("r", 0.6, **R), candidate("b", 0.5), candidate("s", 0.2, **R)]
    assert boosted(*found, by=1.5) == [("r", 0.6 * 1.5), ("a", 0.8), ("b", 0.5), ("s", 0.2 * 1.5)]


def test_a_boost_below_one_pushes_back() -> None:
    """A factor below 1 is allowed, 0 too."""
    assert boosted(candidate("r", 0.6, **R), candidate("a", 0.5), by=0.5) == [("a", 0.5), ("r", 0.3)]
    assert boosted(candidate("r", 0.6, **R), candidate("a", 0.5), by=0.0) == [("a", 0.5), ("r", 0.0)]


@pytest.mark.parametrize("order", list(itertools.permutations("abr")))
def test_equal_scores_keep_their_order(order: tuple[str, ...]) -> None:
    """Documents that a boost makes equal stay as they stood."""
    found = [candidate(id_, 0.25, **R) if id_ == "r" else candidate(id_, 0.5) for id_ in order]
    assert [id_ for id_, _ in boosted(*found, by=2.0)] == list(order)


def test_a_boost_never_lowers_what_is_below_zero() -> None:
    """By hand: a reflection in the tail behind a model, at -0.5, is at -0.25 with factor 2 and at -1 with a half."""
    for factor, score in ((2.0, -0.25), (0.5, -1.0), (1e6, -5e-7), (0.0, -5e5)):
        given = [Candidate("sum", -0.5, {"type": "reflection"}), Candidate("other", -0.3, {})]
        boosted = blend.boost_reflections(given, Reflections(reflection_boost=factor), run())
        assert {each.id: each.score for each in boosted} == {"sum": pytest.approx(score), "other": -0.3}
        assert [each.id for each in boosted] == (["sum", "other"] if factor > 1 else ["other", "sum"])


def test_a_boost_of_one_changes_nothing() -> None:
    """The default leaves scores and order to the bit."""
    plain, lifted = ranked("weighted"), ranked("weighted", {"reflections": {"reflection_boost": 1.0}})
    assert scores(lifted.candidates) == scores(plain.candidates)
    assert scores(ranked().candidates) == scores(plain.candidates)


def test_the_boost_follows_the_blend() -> None:
    """The blend's own score is multiplied, not a signal of it."""
    plain = dict(scores(ranked("weighted").candidates))
    lifted = dict(scores(ranked("weighted", {"reflections": {"reflection_boost": 3.0}}).candidates))
    assert lifted == {**plain, "r": 3.0 * plain["r"]}


def test_reflections_only_are_scored_by_cosine() -> None:
    """Nothing but reflections is in the list, each with its cosine as it is, below 0 too."""
    legs = [vector(("a", 0.9), ("r", 0.6), ("s", 0.2), ("t", -0.3), payloads={"r": R, "s": R, "t": R})]
    assert only(legs) == [("r", 0.6), ("s", 0.2), ("t", -0.3)]


def test_reflections_only_forget_the_recipe() -> None:
    """Keyword scores, weights and the recipe's own fusion don't count; nor does its boost."""
    legs = [vector(("r", 0.6), ("s", 0.2), payloads={"r": R, "s": R}), keyword(("s", 99.0), payloads={"s": R})]
    expected = [("r", 0.6), ("s", 0.2)]
    assert only(legs, reflection_boost=7.0) == expected
    for stage in ("weighted", "score", "rrf", "keyword"):
        assert scores(ranked(stage, legs=legs, reflections_only=True).candidates) == expected


def test_reflections_only_with_a_recency_weight_by_hand() -> None:
    """Score is (1 - w) * cosine + w * recency, with a half-life of 7 days."""
    legs = [vector(("r", 0.8), ("s", 0.6), ("t", 0.4), payloads={**dated(r=14.0, s=0.0), "t": R})]
    # w .25: r .6 + .25*.25 = .6625, s .45 + .25 = .7, t .3 + 0
    blended = only(legs, recency_weight=0.25)
    assert [id_ for id_, _ in blended] == ["s", "r", "t"]
    assert [score for _, score in blended] == pytest.approx([0.7, 0.6625, 0.3], rel=1e-12)


def test_reflections_only_by_recency_alone() -> None:
    """At weight 1 the cosine doesn't count."""
    legs = [vector(("r", 0.8), ("s", 0.1), payloads=dated(r=7.0, s=0.0))]
    assert dict(only(legs, recency_weight=1.0)) == pytest.approx({"s": 1.0, "r": 0.5}, rel=1e-12)


def test_reflections_only_by_the_callers_cycle() -> None:
    """The ages of a query with a cycle are in cycles, with a half-life of 50 or the stage's own."""
    legs = [vector(("r", 0.5), payloads={"r": {**R, "cycle": 50, "created_at": NOW}})]
    half = only(legs, {"cycle": 100}, recency_weight=1.0)
    quarter = only(legs, {"cycle": 100, "now": None}, recency_weight=1.0, half_life_cycles=25.0)
    assert [half[0][1], quarter[0][1]] == pytest.approx([0.5, 0.25], rel=1e-12)


def test_the_callers_cycle_blends_recency_as_the_blend_does() -> None:
    """Without a weight of its own, and with a cycle, the stage has that of `signals`: r has .9 * .5 + .1 * .5, s
    .9 * .45 + .1; without a cycle the cosine is the score.
    """
    legs = [vector(("r", 0.5), ("s", 0.45), payloads={"r": {**R, "cycle": 50}, "s": {**R, "cycle": 100}})]
    assert only(legs, {"cycle": 100}) == near(s=0.505, r=0.5)
    assert only(legs) == [("r", 0.5), ("s", 0.45)]


@pytest.mark.parametrize("stages", [("score",), ("weighted",), ("rrf", "dedupe", "rerank"), ("linear", "reflections")])
def test_any_recipe_blends_recency_with_a_cycle(stages: tuple[str, ...]) -> None:
    """A recipe without the stage or the blend takes the defaults of both."""
    legs = [vector(("r", 0.5), payloads={"r": {**R, "cycle": 50}})]
    assert scores(ranked(*stages, legs=legs, reflections_only=True, cycle=100).candidates) == near(r=0.5)
    assert scores(ranked(*stages, legs=legs, reflections_only=True, cycle=150).candidates) == near(r=0.475)


def test_the_weight_of_the_recipes_own_blend_counts_with_a_cycle() -> None:
    """A blend of recency .4 gives reflections .6 * .2 + .4 * .5; the stage's own weight goes before it, 0 too."""
    legs = [vector(("r", 0.2), payloads={"r": {**R, "cycle": 50}})]
    blend = {"weighted": {"recency_weight": 0.4}}
    for stages, score in (
        ((blend, "reflections"), 0.32),
        ((blend,), 0.32),
        ((blend, {"reflections": {"recency_weight": 0.5}}), 0.35),
        ((blend, {"reflections": {"recency_weight": 0}}), 0.2),
    ):
        assert scores(ranked(*stages, legs=legs, reflections_only=True, cycle=100).candidates) == near(r=score)


def test_reflections_only_ask_no_model() -> None:
    """A model's word on other candidates leaves them as they are."""
    legs = [vector(("r", 0.5), ("s", 0.4), payloads={"r": R, "s": R})]
    asked = Facts(now=NOW, reflections_only=True)
    said = ModelScores({"s": 1.0}, 2)
    assert scores(rank(recipe("score", "rerank"), legs, asked, said).candidates) == [("r", 0.5), ("s", 0.4)]


def test_a_boost_works_in_any_recipe() -> None:
    """`boosting` adds the stage where a recipe has none, behind the model's, too."""
    legs = [vector(("a", 0.8), ("r", 0.6), ("b", 0.2), payloads=MIXED)]
    for of in (recipe("vector"), recipe("vector", "rerank"), recipe("vector", "reflections")):
        found = rank(of.boosting(2.0), legs, Facts(now=NOW)).candidates
        assert scores(found) == near(r=1.2, a=0.8, b=0.2)
    by_model = rank(recipe("vector", "rerank").boosting(3.0), legs, Facts(), ModelScores({"a": 3, "r": 2, "b": 1}, 3))
    assert scores(by_model.candidates) == near(r=1.5, a=1.0, b=0.0)


def test_the_half_life_of_reflections_is_a_parameter() -> None:
    """The stage has its own half-life in days."""
    legs = [vector(("r", 0.5), payloads=dated(r=2.0))]
    assert dict(only(legs, recency_weight=1.0, half_life_days=1.0)) == pytest.approx({"r": 0.25}, rel=1e-12)


def test_a_recency_weight_needs_a_clock() -> None:
    """Without time and cycle it is the message's fault, and the error names `now`; without the weight it isn't."""
    legs = [vector(("r", 0.5), payloads=dated(r=2.0))]
    with pytest.raises(InputError, match=r"now: .*reflections") as raised:
        only(legs, {"now": None}, recency_weight=0.1)
    assert raised.value.kind is DeadLetterClass.INVALID
    assert only(legs, {"now": None}) == [("r", 0.5)]


def test_a_future_reflection_is_warned_of() -> None:
    """One that is dated after the query's now has age 0, and the answer says so."""
    legs = [vector(("r", 0.5), payloads=dated(r=-3.0))]
    stage = {"reflections": {"recency_weight": 1.0}}
    answer = ranked("weighted", stage, legs=legs, reflections_only=True)
    assert scores(answer.candidates) == [("r", 1.0)]
    assert len(answer.run.warnings()) == 1


def test_without_a_vector_the_newest_reflections_go_first_at_zero() -> None:
    """Undated ones come last, equal times go by the document's id, and a recency weight changes no score."""
    payloads = {**dated(p1=3.0, p2=1.0, p3=3.0), "p4": dict(R), "a": {"created_at": NOW}}
    payloads["p1"]["id"], payloads["p3"]["id"] = "z", "y"
    legs = [structured("p4", "p1", "p2", "a", "p3", payloads=payloads)]
    expected = [("p2", 0.0), ("p3", 0.0), ("p1", 0.0), ("p4", 0.0)]
    assert only(legs) == only(legs, recency_weight=0.5) == expected


def test_equal_reflections_go_by_the_documents_own_id() -> None:
    """Equal scores stand by the id that the payload names."""
    payloads = {"p1": {**R, "id": "z"}, "p2": {**R, "id": "a"}}
    assert only([vector(("p1", 0.5), ("p2", 0.5), payloads=payloads)]) == [("p2", 0.5), ("p1", 0.5)]


def test_a_repeated_reflection_counts_at_its_first_rank() -> None:
    """The second appearance of an id is no second result."""
    legs = [vector(("r", 0.8), ("s", 0.5), ("r", 0.1), payloads={"r": R, "s": R})]
    assert only(legs) == [("r", 0.8), ("s", 0.5)]


def test_no_reflections_are_an_empty_list() -> None:
    """Nothing is answered if nothing is a reflection, with or without a vector."""
    assert only([vector(("a", 0.9))]) == only([structured("a")]) == only([vector()]) == only([]) == []


def test_the_order_of_the_legs_does_not_matter_without_a_vector() -> None:
    """Whichever leg comes first, a reflection has the payload of the leg that is first in the order of ties."""
    old, new = dated(r=9.0, s=5.0), dated(r=1.0, s=5.0)
    legs = [keyword(("r", 1.0), ("s", 0.5), payloads=old), structured("r", "s", payloads=new)]
    assert only(legs) == only(legs[::-1]) == [("s", 0.0), ("r", 0.0)]
