"""Explanations: from what is said of a result its score can be worked out again."""

import math
from random import Random

import pytest

from operators.ranking.candidate import Leg
from operators.ranking.distance import pick
from operators.ranking.pipeline import Ranked
from operators.ranking.run import Facts, ModelScores
from operators.text.phrases import classify_text
from schemas.recipes import SHIPPED
from schemas.recipes.stages import LlmRerank
from schemas.result import Explained
from tests.operators.ranking.payloads import RECIPES, UNDERSTOOD, any_single, by_model, cosine, explained, facts, pool
from tests.operators.ranking.pools import DAY, NOW, ids, keyword, leg, near, rank, recipe, scores, structured, vector
from tests.operators.ranking.recompute import recompute
from tests.tiers import sized

SEEDS = range(sized(15, nightly=40))


def assert_accounted(ranked: Ranked) -> None:
    """Each stage's output follows from what the explanation says, and the last one is the score."""
    for candidate in ranked.candidates:
        steps = list(recompute(explained(ranked, candidate.id)))
        for step in steps:
            assert math.isclose(step.stated, step.recomputed, rel_tol=1e-12, abs_tol=1e-12), (candidate.id, step)
        assert steps[-1].stated == candidate.score


@pytest.mark.parametrize("name", RECIPES)
def test_recomputing_gives_the_score(name: str) -> None:
    """Whatever the legs and payloads, each recipe's explanations give the scores to 1e-12."""
    for seed in SEEDS:
        random = Random(seed)
        assert_accounted(
            rank(RECIPES[name], pool(random, random.choice([cosine, any_single])), facts(random, explain=True))
        )


@pytest.mark.parametrize("name", ["signals", "graph", "hybrid"])
def test_recomputing_gives_the_score_of_reflections_alone(name: str) -> None:
    """The explanations of reflections give the scores if only these are asked for, whatever the recipe."""
    for seed in SEEDS:
        random = Random(seed)
        asked = facts(random, explain=True, reflections_only=True)
        assert_accounted(rank(RECIPES[name], pool(random), asked))


@pytest.mark.parametrize("name", RECIPES)
def test_recomputing_gives_the_score_that_a_model_made(name: str) -> None:
    """A model's word is a step as any other, of what it read and of the tail, and the stages behind take it on."""
    for seed in SEEDS:
        random = Random(seed)
        asked = facts(random, explain=True, understood=random.choice(UNDERSTOOD))
        assert_accounted(by_model(random, RECIPES[name], pool(random), asked))


@pytest.mark.parametrize("fusion", ["score", "linear", "keyword"])
def test_recomputing_gives_the_score_of_the_picked_one(fusion: str) -> None:
    """The chat model's choice is the last step of the candidate that it went to."""
    on = recipe(fusion, {"weibull_decay": {"enabled": fusion != "keyword"}}, {"llm_rerank": {"enabled": True}})
    for seed in SEEDS:
        random = Random(seed)
        ranked = rank(on, pool(random), facts(random, explain=True))
        if ranked.candidates:
            picked = random.choice(ids(ranked.candidates))
            said = ModelScores({picked: 1.0}, len(ranked.candidates), selects=True)
            candidates = pick(ranked.candidates, said, on.picking or LlmRerank(), ranked.run)
            assert_accounted(ranked._replace(candidates=candidates))
            assert list(recompute(explained(ranked, picked)))[-1].stage == "llm_rerank"


@pytest.mark.parametrize("name", RECIPES)
def test_each_step_begins_where_the_last_one_ended(name: str) -> None:
    """The first step has no input, and every other's is the output before it."""
    for seed in SEEDS:
        random = Random(seed)
        ranked = by_model(random, RECIPES[name], pool(random), facts(random, explain=True))
        for candidate in ranked.candidates:
            steps = explained(ranked, candidate.id)["stages"]
            assert [step["input"] for step in steps] == [None, *(step["output"] for step in steps[:-1])]


@pytest.mark.parametrize("name", RECIPES)
def test_an_explanation_is_json(name: str) -> None:
    """Written and read again it is the same, to the bit, and is what the result's schema says."""
    for seed in SEEDS:
        random = Random(seed)
        ranked = by_model(random, RECIPES[name], pool(random), facts(random, explain=True))
        assert ranked.run.explanations is not None
        for candidate in ranked.candidates:
            of = ranked.run.explanations.by_id[candidate.id]
            assert explained(ranked, candidate.id) == {"legs": of.legs, "stages": of.stages}
            Explained.model_validate(explained(ranked, candidate.id), strict=True)


@pytest.mark.parametrize("name", RECIPES)
def test_an_explanation_names_the_stages_that_ran(name: str) -> None:
    """Each step has its stage's own parameters, defaults too, and the steps are the recipe's stages in order; `rerank`
    is among them where a model scored the candidates, and what compares them where two have a vector. Coverage is told
    ahead of the model and behind it, where candidates have words of the query.
    """
    on = {stage.name for stage in RECIPES[name].stages if getattr(stage, "enabled", True) or stage.name == "decay"}
    for seed in SEEDS:
        random = Random(seed)
        asked = facts(random, explain=True, understood=random.choice(UNDERSTOOD))
        ranked = by_model(random, RECIPES[name], pool(random), asked)
        model = ranked.run.model
        skipped = set() if model is not None and not model.selects else {"rerank"}
        skipped |= set() if asked.temporal_expression else {"temporal"}
        skipped |= set() if classify_text(asked.text or "") == "question" else {"answers"}
        skipped |= set() if any(unit.fields for unit in ranked.run.words.units) else {"coverage"}
        skipped |= set() if asked.understood else {"wishes"}
        known = [candidate for candidate in ranked.candidates if candidate.id in ranked.run.vectors]
        skipped |= set() if len(known) > 1 else {"feedback", "smoothing"}
        # What has no marks has no versions, and nobody is named.
        skipped |= {"versions", "speakers"}
        ran = [stage for stage in RECIPES[name].parameters if stage in on - skipped]
        if "rerank" in ran and "coverage" in ran[: ran.index("rerank")]:
            ran.insert(ran.index("rerank") + 1, "coverage")
        for candidate in ranked.candidates:
            steps = explained(ranked, candidate.id)["stages"]
            assert [step["stage"] for step in steps if step["stage"] not in skipped] == ran
            assert all(step["parameters"] == RECIPES[name].parameters[step["stage"]] for step in steps)


def places(legs: list[Leg], id_: str) -> dict[str, tuple[int, float]]:
    """A document's first place and its score in each leg that has it."""
    return {leg.name: (leg.ids.index(id_), leg.scores[leg.ids.index(id_)]) for leg in legs if id_ in leg.ids}


@pytest.mark.parametrize("name", RECIPES)
def test_an_explanation_tells_the_place_in_each_leg(name: str) -> None:
    """Rank and raw score are the leg's own, also behind an id that the leg returned twice."""
    alone = RECIPES[name].fusion.legs if name in {"keyword", "vector", "far"} else None
    for seed in SEEDS:
        random = Random(seed)
        legs = pool(random)
        asked = [leg for leg in legs if alone is None or leg.name in alone]
        ranked = rank(RECIPES[name], legs, facts(random, explain=True))
        for candidate in ranked.candidates:
            told = explained(ranked, candidate.id)["legs"]
            assert {leg: (of["rank"], of["score"]) for leg, of in told.items()} == places(asked, candidate.id)


@pytest.mark.parametrize("name", RECIPES)
def test_an_explanation_tells_what_each_leg_contributed(name: str) -> None:
    """Every leg that has the document tells its normalised score and its contribution."""
    for seed in SEEDS:
        random = Random(seed)
        ranked = rank(RECIPES[name], pool(random), facts(random, explain=True))
        for candidate in ranked.candidates:
            for of in explained(ranked, candidate.id)["legs"].values():
                assert {"rank", "score", "normalised", "contribution"} <= of.keys()


def test_contributions_add_up() -> None:
    """In a fusion by a sum the legs' contributions are the fused score."""
    for seed in SEEDS:
        random = Random(seed)
        for name in ("hybrid", "rrf", "dbsf", "z_score", "l2"):
            ranked = rank(RECIPES[name], pool(random), facts(random, explain=True))
            for candidate in ranked.candidates:
                of = explained(ranked, candidate.id)
                total = math.fsum(leg["contribution"] for leg in of["legs"].values())
                assert math.isclose(total, of["stages"][0]["output"], rel_tol=1e-12, abs_tol=1e-12)


def test_an_explanation_by_hand() -> None:
    """`hybrid`: vector .9 .5 .1 become 1 .5 0, keyword 8 2 become 1 .25; b has half of .5 and half of 1, .75."""
    legs = [vector(("a", 0.9), ("b", 0.5), ("c", 0.1)), keyword(("b", 8.0), ("d", 2.0)), structured("b")]
    assert explained(rank(SHIPPED["hybrid"], legs, Facts(explain=True)), "b") == {
        "legs": {
            "vector": {"rank": 1, "score": 0.5, "normalised": 0.5, "weight": 0.5, "contribution": 0.25},
            "keyword": {"rank": 0, "score": 8.0, "normalised": 1.0, "weight": 0.5, "contribution": 0.5},
            "structured": {"rank": 0, "score": 0.0, "normalised": 1.0, "weight": 0.0, "contribution": 0.0},
        },
        "stages": [
            {
                "stage": "score",
                "input": None,
                "output": 0.75,
                "parameters": {
                    "limit": 0,
                    "alpha": None,
                    "weights": None,
                    "fuzzy": 1.5,
                    "normaliser": "theoretical",
                    "combination": "sum",
                },
                "values": {
                    "weights": {"vector": 0.5, "keyword": 0.5, "structured": 0.0},
                    "scales": {
                        "vector": {"offset": 0.1, "divisor": 0.8, "constant": 1.0},
                        "keyword": {"offset": 0.0, "divisor": 8.0, "constant": 1.0},
                        "structured": {"offset": 0.0, "divisor": 0.0, "constant": 1.0},
                    },
                },
            },
            {"stage": "dedupe", "input": 0.75, "output": 0.75, "parameters": {"limit": 0}, "values": {}},
        ],
    }


def test_a_distance_by_hand() -> None:
    """.6 * .75 + .4 * 1 is .85, a distance of .15; at 90 days S = 1/e, so it is divided by .3 + .7/e and multiplied by
    1 - .15 * 4/5.
    """
    of = {"b": {"created_at": NOW - 90 * DAY, "importance": 4}}
    legs = [
        vector(("a", 1.0), ("b", 0.75), ("c", 0.0), payloads={"a": {}, "c": {}, **of}),
        keyword(("b", 5.0), payloads=of),
    ]
    on = {"enabled": True}
    asked = recipe("linear", {"weibull_decay": on}, {"importance_boost": on})
    fused, decayed, boosted = explained(rank(asked, legs, Facts(now=NOW, explain=True)), "b")["stages"]
    moved = 0.15 / (0.3 + 0.7 / math.e)
    assert fused["output"] == pytest.approx(0.85, rel=1e-12)
    assert decayed["values"]["distance"] == pytest.approx(0.15, rel=1e-12)
    assert decayed["values"]["age_days"] == 90.0
    assert decayed["values"]["survival"] == pytest.approx(1 / math.e, rel=1e-12)
    assert decayed["output"] == pytest.approx(1 - moved, rel=1e-12)
    assert boosted["values"]["importance"] == 0.8
    assert boosted["output"] == pytest.approx(1 - moved * 0.88, rel=1e-12)


def test_a_model_by_hand() -> None:
    """`composite` with a model: fused .5 .25 become 1 0, its 3 7 become 0 1, and .8 of these and .2 of those are .2 .8.
    The composite adds to .8 of their share of the maximum .2 of quality, of which `b` has half as much as `a`.
    """
    worth = {"memory_tier": "semantic", "created_at": NOW}
    of = {"a": {**worth, "salience": 1.0}, "b": {**worth, "salience": 0.5}}
    legs = [vector(("a", 0.9), ("b", 0.5), ("c", 0.1), payloads={**of, "c": {}})]
    said = ModelScores({"a": 3.0, "b": 7.0}, 2)
    ranked = rank(SHIPPED["composite"], legs, Facts(now=NOW, explain=True), said)
    assert ids(ranked.candidates) == ["b", "a", "c"]
    steps = explained(ranked, "b")["stages"]
    assert [step["stage"] for step in steps] == ["score", "rerank", "composite", "dedupe"]
    assert [step["output"] for step in steps] == [pytest.approx(value) for value in (0.25, 0.8, 0.9, 0.9)]
    assert steps[1]["parameters"] == {"weight": 0.8, "context": 0.0, "words": 7}
    assert steps[1]["values"] == {
        "score": 7.0,
        "relevance": 1.0,
        "order": 0.0,
        "top": 2,
        "weight": 0.8,
        "relevance_scale": {"offset": 3.0, "divisor": 4.0, "constant": 1.0},
        "order_scale": {"offset": 0.25, "divisor": 0.25, "constant": 1.0},
    }
    outputs = [step["output"] for step in explained(ranked, "a")["stages"]][1:]
    assert outputs == [pytest.approx(value) for value in (0.2, 0.4, 0.4)]
    # The tail's only one is 1 - 1.
    assert explained(ranked, "c")["stages"][1]["output"] == 0.0


def test_without_explain_there_is_no_trail() -> None:
    """A query that doesn't ask gets no explanations."""
    assert rank(SHIPPED["hybrid"], [leg("vector", ("a", 1.0))], Facts()).run.explanations is None


@pytest.mark.parametrize("fusion", ["rrf", "score", "dbsf"])
def test_recomputing_gives_the_score_with_a_learned_leg(fusion: str) -> None:
    """Its share is one as any other's, by the weight that the recipe gives it."""
    weighed = recipe({fusion: {"weights": {"vector": 0.2, "keyword": 0.3, "learned": 0.5}}})
    for seed in SEEDS:
        random = Random(seed)
        legs = pool(random)
        found = random.sample(sorted({id_ for each in legs for id_ in each.ids}) or ["d"], 1)
        learned = leg("learned", *((id_, random.uniform(0, 30)) for id_ in [*found, "e-of-its-own"]))
        assert_accounted(rank(weighed, [*legs, learned], facts(random, explain=True)))


def test_a_learned_leg_by_hand() -> None:
    """Scores are 1 for the best of a leg and 0 for the worst, times the leg's weight, whatever the encoder's scale."""
    legs = [
        vector(("a", 0.9), ("b", 0.5)),
        keyword(("b", 12.0), ("c", 3.0)),
        leg("learned", ("c", 30.0), ("a", 20.0), ("b", 10.0)),
    ]
    weighed = recipe({"score": {"weights": {"vector": 0.2, "keyword": 0.3, "learned": 0.5}}})
    ranked = rank(weighed, legs, Facts(now=NOW, explain=True))
    # c .5, a .2 + .25, b .3
    assert scores(ranked.candidates) == near(c=0.5, a=0.45, b=0.3)
    said = explained(ranked, "a")["legs"]["learned"]
    assert said == {"rank": 1, "score": 20.0, "normalised": 0.5, "weight": 0.5, "contribution": 0.25}


def test_a_learned_leg_without_a_weight_adds_nothing() -> None:
    """As of a pool that was recorded for another recipe: its scores are on no scale that the others share."""
    legs = [vector(("a", 0.9), ("b", 0.5)), leg("learned", ("b", 30.0), ("c", 1.0))]
    for fusion in ("rrf", "score", "dbsf"):
        ranked = rank(recipe(fusion), legs, Facts(now=NOW))
        assert {each.id: each.score for each in ranked.candidates}["c"] == 0
        assert ranked.candidates[0].id == "a"
