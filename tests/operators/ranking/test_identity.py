"""What leaves a ranking as it was: stages that are off, that have nothing to go by, or that weigh everyone the same."""

from collections.abc import Mapping
from random import Random
from typing import Any

import pytest

from operators.ranking.run import Facts
from operators.ranking.temporal_expressions import TemporalExpression
from schemas.recipes import SHIPPED, Recipe
from tests.operators.ranking.payloads import BOOSTS, DOCUMENTS, RECIPES, any_single, cosine, facts, pool, said
from tests.operators.ranking.pools import DAY, NOW, ids, keyword, rank, recipe, scores, vector

SEEDS = range(40)
OFF = ("weibull_decay", "keyword_boost", "importance_boost", "llm_rerank")
FUSIONS: list[Any] = ["score", "rrf", "dbsf", "weighted", "vector", {"decay": {"enabled": True}}]


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
def test_max_distance_without_a_distance_stage_bounds_nothing(fusion: Any) -> None:
    """Where no stage works on distances none is too far."""
    same(recipe(fusion), recipe(fusion, *OFF, max_distance=0.01), explain=True)


def test_without_rerank_the_distance_stages_are_off() -> None:
    """A query that wants no reranking gets what a recipe gives whose distance stages are off."""
    same(recipe("score"), recipe("score", *BOOSTS, max_distance=0.5), explain=True, distance=False)


def test_without_rerank_the_other_stages_stay() -> None:
    """Composite, temporal and decay run whether the query wants reranking or not."""
    for name in ("composite", "all terms", "decay", "steps"):
        for seed in SEEDS:
            random = Random(seed)
            legs, luck = pool(random), random.getstate()
            wanted = said(rank(RECIPES[name], legs, facts(random, explain=True)))
            random.setstate(luck)
            assert said(rank(RECIPES[name], legs, facts(random, explain=True, distance=False))) == wanted


def test_only_a_distance_stage_reranks() -> None:
    """`reranked` is false while every distance stage is off, and true with one that is on."""
    legs = [vector(("a", 0.9), ("b", 0.5))]
    for each in ("hybrid", "composite", "signals", "decay", "rrf", "keyword", "vector"):
        assert not rank(SHIPPED[each], legs, Facts(now=NOW)).reranked
    assert not rank(recipe("score", *OFF), legs, Facts(now=NOW)).reranked
    assert not rank(SHIPPED["distance"], legs, Facts(now=NOW, distance=False)).reranked
    for stage in BOOSTS:
        assert rank(recipe("score", stage), legs, Facts(now=NOW)).reranked


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
    """Where every text is another, or none, all candidates stay where they are."""
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
    """Where every document is worth the same, the composite's order is the fused one."""
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
        silent = rank(RECIPES[name], legs, facts(random))
        random.setstate(luck)
        explaining = rank(RECIPES[name], legs, facts(random, explain=True))
        assert silent.run.explanations is None
        assert explaining.run.explanations is not None
        assert said(explaining._replace(explanations=None)) == said(silent)


@pytest.mark.parametrize("name", RECIPES)
def test_nothing_found_is_nothing_ranked(name: str) -> None:
    """No legs and legs without hits give no candidates, no error and no warning."""
    for legs in ([], [vector()], [vector(), keyword()]):
        for only in (False, True):
            ranked = rank(RECIPES[name], legs, Facts(now=NOW, explain=True, reflections_only=only))
            assert ranked.candidates == []
            assert (ranked.run.backends, ranked.run.reranked, ranked.run.warnings()) == ([], False, [])
