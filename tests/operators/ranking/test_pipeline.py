"""Whole recipes: the same bytes for the same input, finite scores, limits, reflections, languages, clocks."""

import math
import re
from dataclasses import replace
from random import Random
from typing import Any

import pytest

from operators.ranking.candidate import Leg
from operators.ranking.content import fingerprint
from operators.ranking.pipeline import Ranked
from operators.ranking.run import Facts
from operators.text.dates import TemporalExpression
from schemas.document import CONTENT
from schemas.errors import DeadLetterClass, InputError
from schemas.recipes import SHIPPED, Recipe, RecipeError
from schemas.recipes.fusion import FUSION
from schemas.recipes.recipe import STAGES
from schemas.result import LEGS
from tests.operators.ranking.payloads import (
    RECIPES,
    TERMS,
    Score,
    any_single,
    by_model,
    cosine,
    facts,
    judged,
    pool,
    said,
)
from tests.operators.ranking.pools import DAY, NOW, ids, keyword, rank, recipe, scores, vector
from tests.operators.text.times import temporal_expression
from tests.schemas.recipes.bounds import CHOICES, FLAGS, INTEGERS, NUMBERS, WEIGHTS
from tests.tiers import sized

SEEDS = range(sized(15, nightly=40))
ON = {"enabled": True}


@pytest.mark.parametrize("only", [False, True], ids=["all", "reflections only"])
@pytest.mark.parametrize("name", RECIPES)
def test_the_same_input_gives_the_same_bytes(name: str, *, only: bool) -> None:
    """Ranked twice, and with the legs in any order, the result with its explanations is the same to the byte."""
    for seed in SEEDS:
        random = Random(seed)
        legs, asked = pool(random), facts(random, explain=True, reflections_only=only)
        model = judged(random, rank(RECIPES[name], legs, asked).candidates)
        first = said(rank(RECIPES[name], legs, asked, model))
        assert said(rank(RECIPES[name], legs, asked, model)) == first
        assert said(rank(RECIPES[name], legs[::-1], asked, model)) == first
        assert said(rank(RECIPES[name], random.sample(legs, len(legs)), asked, model)) == first


def assert_finite(ranked: Ranked) -> None:
    """Every score is a number, and none has another before it that is less."""
    found = [candidate.score for candidate in ranked.candidates]
    assert all(map(math.isfinite, found))
    assert found == sorted(found, reverse=True)


@pytest.mark.parametrize("score", [cosine, any_single])
@pytest.mark.parametrize("name", RECIPES)
def test_scores_are_finite_and_never_rise(name: str, score: Score) -> None:
    """Whatever scores of 32 bits and odd payloads go in, finite scores come out, the best first."""
    for seed in SEEDS:
        random = Random(seed)
        legs = pool(random, score)
        assert_finite(rank(RECIPES[name], legs, facts(random, explain=seed % 2 == 0)))
        assert_finite(by_model(random, RECIPES[name], legs, facts(random)))
        assert_finite(rank(RECIPES[name], legs, facts(random, reflections_only=True)))


def any_recipe(random: Random) -> Recipe:
    """A recipe of any stages, with parameters at and near their bounds."""
    names = [random.choice(FUSION).name, *(name for name in STAGES if random.random() < 0.5)]
    fusions = {stage.name for stage in FUSION}
    chosen = [name for place, name in enumerate(names) if place == 0 or name not in fusions]
    parameters: dict[str, dict[str, Any]] = {name: dict(ON) if (name, "enabled") in FLAGS else {} for name in chosen}
    for (stage, parameter), (least, most) in [*NUMBERS.items(), *INTEGERS.items()]:
        if stage in parameters and random.random() < 0.5:
            nearest = math.nextafter(least, most) if isinstance(least, float) else least + 1
            parameters[stage][parameter] = random.choice([least, nearest, most])
    for stage, parameter in WEIGHTS:
        if stage in parameters and random.random() < 0.5:
            weights = {leg: random.choice([0.0, 5e-324, 1.0, 1e6]) for leg in random.sample(LEGS, 2)}
            parameters[stage][parameter] = weights
    for (stage, parameter), choices in CHOICES.items():
        if stage in parameters and random.random() < 0.5:
            parameters[stage][parameter] = random.choice(choices)
    try:
        return recipe(*({name: parameters[name]} for name in chosen))
    except RecipeError:
        return any_recipe(random)


@pytest.mark.parametrize("score", [cosine, any_single])
def test_any_parameters_give_finite_scores(score: Score) -> None:
    """A recipe that can be read ranks anything: at its parameters' bounds, too, every score is finite."""
    for seed in range(1000):
        random = Random(seed)
        assert_finite(by_model(random, any_recipe(random), pool(random, score), facts(random, explain=True)))


def test_next_to_nothing_is_no_maximum_to_divide_by() -> None:
    """A best score that a weight made next to nothing takes no other out of the floats."""
    legs = [vector(("a", 1.0), ("b", -1.0), payloads={"a": {"type": "reflection"}, "b": {}})]
    asked = recipe("vector", {"reflections": {"reflection_boost": 1e-320}}, {"composite": {"quality": 0}})
    assert_finite(rank(asked, legs, Facts()))


@pytest.mark.parametrize("name", [name for name in RECIPES if name not in {"keyword", "vector", "far"}])
def test_nobody_is_lost(name: str) -> None:
    """Without a limit, a duplicate or a bound, whatever a leg returned is ranked, once."""
    stages = [stage for stage in RECIPES[name].definition["stages"] if "dedupe" not in stage]
    unlimited = Recipe.parse(name, {"stages": stages})
    unlimited = unlimited.overridden({unlimited.fusion.name: {"limit": 0}})
    for seed in SEEDS:
        random = Random(seed)
        legs = pool(random)
        ranked = rank(unlimited, legs, facts(random))
        assert sorted(ids(ranked.candidates)) == sorted({id_ for leg in legs for id_ in leg.ids})


@pytest.mark.parametrize("stage", [stage.name for stage in FUSION] + ["dedupe"])
def test_a_limit_keeps_the_first(stage: str) -> None:
    """So many are kept as the stage's limit says, the best of all; 0 or less keeps all."""
    before = ["score"] if stage == "dedupe" else []
    for seed in SEEDS:
        random = Random(seed)
        legs, asked = pool(random), facts(random)
        unlimited = scores(rank(recipe(*before, stage), legs, asked).candidates)
        for limit in (0, -1, -(2**31), 1, 3, 100):
            limited = scores(rank(recipe(*before, {stage: {"limit": limit}}), legs, asked).candidates)
            assert limited == (unlimited[:limit] if limit > 0 else unlimited)


def kinds(ranked: Ranked) -> set[bool]:
    """The kinds that are there: True for reflections, False for anything else."""
    return {candidate.payload.get("type") == "reflection" for candidate in ranked.candidates}


@pytest.mark.parametrize("name", RECIPES)
def test_reflections_are_left_out_before_anything_is_scored(name: str) -> None:
    """Without reflections the result is that of legs which never had any."""
    for seed in SEEDS:
        random = Random(seed)
        legs, asked = pool(random), facts(random, explain=True)
        bare = [leg.at([at for at, of in enumerate(leg.payloads) if of.get("type") != "reflection"]) for leg in legs]
        without = rank(RECIPES[name], legs, replace(asked, include_reflections=False))
        assert True not in kinds(without)
        assert said(without) == said(rank(RECIPES[name], bare, asked))


@pytest.mark.parametrize("name", RECIPES)
def test_reflections_only_are_all_reflections_by_their_cosine(name: str) -> None:
    """Every reflection of the vector leg is there, and nothing else, whatever limits and weights the recipe has."""
    for seed in SEEDS:
        random = Random(seed)
        legs = [leg for leg in pool(random) if leg.name == "vector"]
        ranked = rank(RECIPES[name], legs, facts(random, reflections_only=True, cycle=None))
        there = {
            id_ for leg in legs for id_, of in zip(leg.ids, leg.payloads, strict=True) if of.get("type") == "reflection"
        }
        assert set(ids(ranked.candidates)) == there
        if name != "graph":
            assert all(legs[0].ranks()[id_][1] == score for id_, score in scores(ranked.candidates))


LANGUAGES = {
    "German": (
        "Ist die Straße nach Köln gesperrt?",
        "Die STRASSE nach KÖLN",
        "die straße  nach Ko\u0308ln",
        "Der Zug fährt",
    ),
    "Japanese": ("東京タワーの天気", "東京タワーは晴れ", "東京ﾀﾜｰは晴れ", "大阪で会議をした"),
    "Arabic": ("طقس القاهرة غدا", "طقس القاهرة لا يتغير", "طقس  القاهرة ﻻ يتغير", "وصل القطار"),
}
"""A query, a text that answers it, the same text in other characters, and one of something else."""


def in_language(language: str) -> list[Leg]:
    """Both legs with all three texts at one score, the answer behind the text of something else."""
    _, answer, twin, other = LANGUAGES[language]
    of = {
        id_: {"text": text, "created_at": NOW} for id_, text in (("other", other), ("answer", answer), ("twin", twin))
    }
    hits = [("best", 1.0), ("other", 0.5), ("answer", 0.5), ("twin", 0.5), ("worst", 0.0)]
    return [make(*hits, payloads={"best": {}, "worst": {}, **of}) for make in (vector, keyword)]


@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize("name", ["hybrid", "composite", "rrf", "keyword", "vector"])
def test_one_text_in_other_characters_is_one_result(name: str, language: str) -> None:
    """Case, width, composition and white space make no other text in any language."""
    text = LANGUAGES[language][0]
    ranked = rank(
        SHIPPED[name],
        in_language(language),
        Facts(now=NOW, text=text, temporal_expression=temporal_expression(text, NOW)),
    )
    assert set(ids(ranked.candidates)) == {"best", "other", "answer", "worst"}


@pytest.mark.parametrize("language", LANGUAGES)
def test_the_querys_words_bring_a_text_nearer(language: str) -> None:
    """In any language a text with words of the query overtakes one without, in either spelling."""
    ranked = rank(SHIPPED["distance"], in_language(language), Facts(now=NOW, text=LANGUAGES[language][0]))
    assert ids(ranked.candidates) == ["best", "answer", "twin", "other", "worst"]
    near = dict(scores(ranked.candidates))
    assert near["answer"] == near["twin"] > near["other"] == 0.5


@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize("name", SHIPPED)
def test_a_recipe_reads_no_more_than_it_says(name: str, language: str) -> None:
    """From payloads cut down to the fields that the recipe asks for it makes the same of them, to the byte."""
    for seed in SEEDS:
        random = Random(seed)
        legs, asked = pool(random), facts(random, explain=True, text=LANGUAGES[language][0])
        whole, cut = [], []
        for leg in legs:
            full = [{**of, CONTENT: fingerprint(language + id_)} for id_, of in zip(leg.ids, leg.payloads, strict=True)]
            whole.append(replace(leg, payloads=full))
            cut.append(
                replace(leg, payloads=[{key: of[key] for key in SHIPPED[name].reads & of.keys()} for of in full])
            )
        assert said(rank(SHIPPED[name], cut, asked)) == said(rank(SHIPPED[name], whole, asked))


ANCHOR = TemporalExpression(7, 3)
DATED = {"a": {"created_at": NOW - DAY, "type": "reflection", "cycle": 3}}
BLEND = {"reflections": {"recency_weight": 0.3}}


@pytest.mark.parametrize(
    ("stages", "asked", "stage"),
    [
        (["score", "composite"], {}, "composite"),
        (["score", {"composite": {"recency": 0.1, "quality": 0}}], {}, "composite"),
        (["score", "temporal"], {"temporal_expression": ANCHOR}, "temporal"),
        ([{"decay": ON}], {}, "decay"),
        (["decay"], {"decay": (RECIPES["steps"].fusion,)}, "decay"),
        (["score", {"weibull_decay": ON}], {}, "weibull_decay"),
        (["score", BLEND], {"reflections_only": True}, "reflections"),
    ],
)
def test_a_missing_clock_is_the_querys_fault(stages: list[Any], asked: dict[str, Any], stage: str) -> None:
    """The error names `now` and the stage if a stage needs a clock and there is none."""
    with pytest.raises(InputError, match=rf"^now: .*\b{stage}\b") as caught:
        rank(recipe(*stages), [vector(("a", 0.5), payloads=DATED)], Facts(**asked))
    assert caught.value.kind is DeadLetterClass.INVALID


@pytest.mark.parametrize(
    ("stages", "asked"),
    [
        *(([fusion, "dedupe"], {}) for fusion in ("score", "rrf", "dbsf", "vector", "keyword", "weighted", "decay")),
        (["weighted", "reflections"], {}),
        (["score", {"composite": {**TERMS, "recency": 0, "quality": 0}}], {}),
        (["score", "temporal"], {}),
        (["score", {"temporal": {"boost": 0}}], {"temporal_expression": ANCHOR}),
        ([{"decay": ON}], {"decay_half_life": None}),
        (["score", "weibull_decay"], {}),
        (["score", {"keyword_boost": ON}, {"importance_boost": ON}], {"text": "weather"}),
        (["score", "reflections"], {"reflections_only": True}),
        (["score", BLEND], {"reflections_only": True, "cycle": 5}),
        (["score", BLEND], {}),
    ],
)
def test_no_clock_is_asked_for_where_none_is_needed(stages: list[Any], asked: dict[str, Any]) -> None:
    """Stages that are off, or that look at no age, rank without a clock."""
    assert_finite(rank(recipe(*stages), [vector(("a", 0.5), payloads=DATED)], Facts(**asked)))


def test_a_stamp_in_the_future_is_a_warning() -> None:
    """Documents dated after the query's now count as new, and the result says how many there are."""
    of = {"a": {"created_at": NOW + DAY}, "b": {"created_at": NOW}, "c": {"created_at": NOW + 9 * DAY}}
    legs = [vector(("a", 0.5), ("b", 0.5), ("c", 0.5), payloads=of)]
    ranked = rank(SHIPPED["decay"], legs, Facts(now=NOW))
    # 0.7 * 0.5 + 0.3 * 1 for all three, so by id.
    assert ids(ranked.candidates) == ["a", "b", "c"]
    assert [candidate.score for candidate in ranked.candidates] == pytest.approx([0.65, 0.65, 0.65])
    assert len(ranked.run.warnings()) == 1
    assert re.search(r"\b2\b", ranked.run.warnings()[0])
