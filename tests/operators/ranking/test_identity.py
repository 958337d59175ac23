"""The stages that leave a ranking as it was: those that are off, have nothing to go by, or weigh everyone the same."""

from collections.abc import Mapping
from random import Random
from typing import Any

import pytest

from operators.ranking.run import Facts, ModelScores
from operators.text.dates import TemporalExpression
from schemas.recipes import SHIPPED, Recipe
from tests.operators.ranking.payloads import BOOSTS, DOCUMENTS, RECIPES, any_single, by_model, cosine, facts, pool, said
from tests.operators.ranking.pools import DAY, NOW, ids, keyword, rank, recipe, scores, vector
from tests.tiers import sized

SEEDS = range(sized(15, nightly=40))
OFF = ("weibull_decay", "keyword_boost", "importance_boost", "llm_rerank")
FUSIONS: list[Any] = ["score", "linear", "rrf", "dbsf", "weighted", "vector", {"decay": {"enabled": True}}]


def same(one: Recipe, other: Recipe, *, explain: bool, **fixed: Any) -> None:
    """Both say the same of random pools, to the byte."""
    for seed in SEEDS:
        random = Random(seed)
        legs = pool(random, random.choice([cosine, any_single]))
        asked = facts(random, explain=explain, **fixed)
        assert said(rank(one, legs, asked)) == said(rank(other, legs, asked))


@pytest.mark.parametrize("fusion", FUSIONS, ids=str)
def test_distance_stages_that_are_off_are_not_there(fusion: Any) -> None:
    """With every distance stage off the result is that of the recipe without them, explanations and all."""
    same(recipe(fusion), recipe(fusion, *OFF), explain=True)


@pytest.mark.parametrize("fusion", FUSIONS, ids=str)
def test_max_distance_moves_nobody(fusion: Any) -> None:
    """A chain without stages only drops: who stays has the place and the score of before, to the bit."""
    for seed in SEEDS:
        random = Random(seed)
        legs, asked = pool(random, random.choice([cosine, any_single])), facts(random)
        everyone = scores(rank(recipe(fusion), legs, asked).candidates)
        bounded = rank(recipe(fusion, *random.choice([(), OFF]), max_distance=0.4), legs, asked)
        assert scores(bounded.candidates) == [(id_, score) for id_, score in everyone if 1.0 - score <= 0.4]
        assert not bounded.run.reranked


@pytest.mark.parametrize("name", RECIPES)
def test_without_a_model_rerank_is_not_there(name: str) -> None:
    """A recipe whose model said nothing ranks as one that does not list the stage, and the stages behind it run."""
    stages = [stage for stage in RECIPES[name].definition["stages"] if "rerank" not in stage]
    same(recipe(*stages, max_distance=RECIPES[name].max_distance), RECIPES[name], explain=True)


@pytest.mark.parametrize("weight", [0.0, 0.5, 1.0])
def test_a_recipe_without_the_stage_asks_no_model(weight: float) -> None:
    """Whatever a model said, a recipe that doesn't list `rerank` is ranked as if it had not; one that does isn't."""
    legs, asked = [vector(("a", 0.9), ("b", 0.5), ("c", 0.1))], Facts(now=NOW)
    said = ModelScores({"a": 0.0, "b": 1.0}, 3)
    for name, of in RECIPES.items():
        if of.reranking is None:
            assert scores(rank(of, legs, asked, said).candidates) == scores(rank(of, legs, asked).candidates), name
        else:
            by_model = rank(of.overridden({"rerank": {"weight": weight}}), legs, asked, said)
            assert set(ids(by_model.candidates)) == {"a", "b"}, name


def test_a_model_or_a_distance_stage_reranks() -> None:
    """`reranked` is false while nothing but legs and payloads gave the scores, and true with one of these, also where
    that moved nothing.
    """
    legs = [
        vector(
            ("a", 0.9), ("b", 0.5), payloads={"a": {"created_at": NOW - DAY, "text": "fox", "importance": 3}, "b": {}}
        )
    ]
    asked = Facts(now=NOW, text="fox")
    for each in ("hybrid", "composite", "signals", "decay", "rrf", "keyword", "vector"):
        assert not rank(SHIPPED[each], legs, asked).run.reranked
    assert not rank(recipe("score", *OFF), legs, asked).run.reranked
    for stage in BOOSTS:
        assert rank(recipe("linear", stage), legs, asked).run.reranked
        assert rank(recipe("linear", stage), [vector(("b", 0.5), payloads={"b": {}})], asked).run.reranked
    for each in ("hybrid", "composite", "rrf"):
        assert rank(SHIPPED[each], legs, asked, ModelScores({"a": 1.0, "b": 2.0}, 2)).run.reranked


@pytest.mark.parametrize("before", [["score"], ["score", "composite"], ["weighted", "dedupe"]], ids=str)
def test_without_an_anchor_temporal_is_not_there(before: list[Any]) -> None:
    """A query that names no time is ranked as without the stage, to the byte."""
    same(recipe(*before), recipe(*before, "temporal"), explain=True, temporal_expression=None)


@pytest.mark.parametrize("boost", [0, -0.4, -1e6])
def test_without_a_boost_temporal_is_not_there(boost: float) -> None:
    """A boost of 0 or less gives exactly what the stages before it gave, whatever time the query names."""
    before = ["score", "composite"]
    same(
        recipe(*before),
        recipe(*before, {"temporal": {"boost": boost}}),
        explain=True,
        temporal_expression=TemporalExpression(21, 5),
    )


def test_a_boost_changes_something() -> None:
    """With an anchor and a boost the stage is there: a document of the named day overtakes one of today."""
    of = {"a": {"created_at": NOW}, "b": {"created_at": NOW - 21 * DAY}}
    legs = [vector(("a", 0.9), ("b", 0.8), ("c", 0.7), payloads={**of, "c": {}})]
    asked = Facts(now=NOW, temporal_expression=TemporalExpression(21, 5))
    assert ids(rank(recipe("score"), legs, asked).candidates) == ["a", "b", "c"]
    assert ids(rank(recipe("score", "temporal"), legs, asked).candidates) == ["b", "a", "c"]


def distinct(random: Random) -> Mapping[str, Any]:
    """Texts of which no two are the same, some of them empty."""
    return {
        id_: random.choice([{"text": f"text {id_}"}, {"title": id_, "text": "same"}, {"text": " "}, {}])
        for id_ in DOCUMENTS
    }


@pytest.mark.parametrize("fusion", FUSIONS, ids=str)
def test_dedupe_of_distinct_texts_changes_nothing(fusion: Any) -> None:
    """All candidates stay where they are if every text is another, or none."""
    for seed in SEEDS:
        random = Random(seed)
        of = distinct(random)
        legs = [
            make(*((id_, cosine(random)) for id_ in random.sample(DOCUMENTS, 6)), payloads=of)
            for make in (vector, keyword)
        ]
        asked = facts(random)
        assert said(rank(recipe(fusion), legs, asked)) == said(rank(recipe(fusion, "dedupe"), legs, asked))


@pytest.mark.parametrize("fusion", FUSIONS, ids=str)
def test_a_reflection_boost_of_one_changes_nothing(fusion: Any) -> None:
    """Reflections that count as any other document stay where they are, to the bit."""
    same(recipe(fusion), recipe(fusion, "reflections"), explain=False)


def test_a_reflection_boost_is_for_reflections_alone() -> None:
    """With a boost of 2 a reflection's score doubles, and no other's."""
    legs = [vector(("a", 0.9), ("b", 0.5), payloads={"a": {"type": "note"}, "b": {"type": "reflection"}})]
    boosted = rank(recipe("vector", {"reflections": {"reflection_boost": 2}}), legs, Facts())
    assert scores(boosted.candidates) == [("b", 1.0), ("a", 0.9)]


@pytest.mark.parametrize("fusion", ["score", "rrf", "vector", {"score": {"normaliser": "l2"}}], ids=str)
def test_equal_quality_leaves_the_order_of_relevance(fusion: Any) -> None:
    """The composite's order is the fused one if every document is worth the same."""
    worth = {"salience": 0.7, "created_at": NOW - 3 * DAY, "importance": 2}
    for seed in SEEDS:
        random = Random(seed)
        of = dict.fromkeys(DOCUMENTS, worth)
        hits = [
            sorted(((id_, abs(cosine(random))) for id_ in random.sample(DOCUMENTS, 8)), key=lambda hit: -hit[1])
            for _ in "vk"
        ]
        legs = [vector(*hits[0], payloads=of), keyword(*hits[1], payloads=of)]
        fused = rank(recipe(fusion), legs, Facts(now=NOW))
        assert ids(rank(recipe(fusion, "composite"), legs, Facts(now=NOW)).candidates) == ids(fused.candidates)


def test_relevance_alone_leaves_the_order() -> None:
    """A composite of relevance alone needs no payload and no clock, and moves nobody."""
    alone = {"composite": {"relevance": 0.8, "quality": 0}}
    for seed in SEEDS:
        legs = pool(Random(seed))
        fused = ids(rank(recipe("score"), legs, Facts()).candidates)
        assert ids(rank(recipe("score", alone), legs, Facts()).candidates) == fused


@pytest.mark.parametrize("name", RECIPES)
def test_to_explain_changes_nothing(name: str) -> None:
    """Candidates, scores to the bit, warnings and backends are the same with and without explanations."""
    for seed in SEEDS:
        random = Random(seed)
        legs, luck = pool(random, random.choice([cosine, any_single])), random.getstate()
        silent = by_model(random, RECIPES[name], legs, facts(random))
        random.setstate(luck)
        explaining = by_model(random, RECIPES[name], legs, facts(random, explain=True))
        assert silent.run.explanations is None
        assert explaining.run.explanations is not None
        explaining.run.explanations = None
        assert said(explaining) == said(silent)


@pytest.mark.parametrize("name", RECIPES)
def test_nothing_found_is_nothing_ranked(name: str) -> None:
    """No legs and legs without hits give no candidates, no error and no warning."""
    for legs in ([], [vector()], [vector(), keyword()]):
        for only in (False, True):
            asked = Facts(now=NOW, explain=True, reflections_only=only)
            ranked = rank(RECIPES[name], legs, asked)
            assert ranked.candidates == rank(RECIPES[name], legs, asked, ModelScores({"a": 1.0}, 9)).candidates == []
            assert (ranked.run.backends, ranked.run.reranked, ranked.run.warnings()) == ([], False, [])
