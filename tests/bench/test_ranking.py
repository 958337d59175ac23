"""Ranking's reference does the same as ranking, and every recipe is measured."""

import ast
import dataclasses
import random
from pathlib import Path
from typing import Any

import pytest

import operators.ranking
from bench import arrays, ranking, report, unexplained
from operators.ranking.blend import rank_by_blend
from operators.ranking.pipeline import Ranked
from operators.ranking.run import ModelScores, Run
from schemas.recipes.fusion import Weighted
from schemas.result import KEYWORD, VECTOR
from tests.operators.ranking.pools import ids, keyword, rank, vector

pytestmark = pytest.mark.slow

MODULES = sorted(Path(operators.ranking.__path__[0]).glob("*.py"))


@pytest.mark.parametrize("size", ranking.SIZES)
def test_the_pools_are_of_their_size(size: int) -> None:
    """Both legs together have so many hits, best first, most documents in both; a seed names a pool."""
    found = ranking.legs(size)
    assert [leg.name for leg in found] == [VECTOR, KEYWORD]
    for leg in found:
        assert len(leg.ids) == len(set(leg.ids)) == size // 2
        assert list(leg.scores) == sorted(leg.scores, reverse=True)
    both = set(found[0].ids) & set(found[1].ids)
    documents = set(found[0].ids) | set(found[1].ids)
    assert len(both) > len(documents) / 2
    assert ranking.legs(size) == found
    assert ranking.legs(size, seed=2) != found


def test_the_blend_over_arrays_is_the_same() -> None:
    """On 200 pools of every size both give the same documents in the same order, and scores that only rounding tells
    apart.
    """
    chance = random.Random(1)
    for seed in range(200):
        found = ranking.legs(chance.choice(ranking.SIZES), seed)
        weights: dict[str, Any] = {
            f"{name}_weight": chance.choice([0.1, 0.3, 1.0]) for name in ("keyword", "vector", "recency", "priority")
        }
        stage = Weighted(**weights)
        blend = rank_by_blend(found, stage, Run(ranking.FACTS))
        over_arrays = arrays.weighted(found, stage, ranking.FACTS)
        assert ids(over_arrays) == ids(blend)
        assert [each.score for each in over_arrays] == pytest.approx([each.score for each in blend], rel=1e-12)
        assert all(one.payload is other.payload for one, other in zip(over_arrays, blend, strict=True))


def test_ties_over_arrays_stand_as_ours() -> None:
    """Documents of the same score go by their ids, in whatever order the legs had them."""
    hits = [(name, 0.5) for name in "dbca"]
    found = [vector(*hits), keyword(*hits[::-1])]
    assert ids(arrays.weighted(found, Weighted(), ranking.FACTS)) == list("abcd")
    assert ids(rank_by_blend(found, Weighted(), Run(ranking.FACTS))) == list("abcd")


def all_said(ranked: Ranked | Any) -> tuple[Any, ...]:
    """The output of a ranking, scores to the bit."""
    candidates = [(each.id, each.score.hex(), each.payload) for each in ranked.candidates]
    return candidates, list(ranked.run.backends), ranked.run.reranked, ranked.run.warnings()


@pytest.mark.parametrize("name", ranking.RECIPES)
@pytest.mark.parametrize("size", [20, 100])
def test_what_is_cut_gives_the_same(name: str, size: int) -> None:
    """Without the code that explains each recipe ranks to the same candidates and scores, to the bit, with what a model
    says of them and without.
    """
    found, recipe, cut = ranking.legs(size), ranking.RECIPES[name], unexplained.pipeline()
    read = ranking.vectors(recipe, found)
    for said in (None, ranking.model(recipe, found)):
        first = cut.first_phase(recipe, found, ranking.FACTS)
        ours = rank(recipe, found, ranking.FACTS, said, read)
        assert all_said(cut.second_phase(recipe, first, said, read)) == all_said(ours)


@pytest.mark.parametrize("size", ranking.SIZES)
def test_a_model_has_its_say_where_a_recipe_asks_one(size: int) -> None:
    """It reads the first candidates, scores each of them, and changes the order; other recipes ask none."""
    found = ranking.legs(size)
    for name, recipe in ranking.RECIPES.items():
        said = ranking.model(recipe, found)
        assert (said is None) == (name not in {"hybrid", "composite", "rrf", "documents", "conversation"})
        if isinstance(said, ModelScores):
            before, after = (rank(recipe, found, ranking.FACTS, model).candidates for model in (None, said))
            assert len(said.scores) == len(set(said.scores.values())) == min(said.top, len(before))
            assert ids(before) != ids(after)


@pytest.mark.parametrize("module", MODULES, ids=[module.stem for module in MODULES])
def test_nothing_that_explains_is_left(module: Path) -> None:
    """In the cut copy nothing asks whether there are explanations, or calls a function that takes them for granted, and
    nothing is imported of the original.
    """
    cut = unexplained.without_explanations(module.read_text(encoding="utf-8"))
    granted = {
        function.name
        for function in ast.walk(cut)
        if isinstance(function, ast.FunctionDef) and any(_asserts_explanations(node) for node in ast.walk(function))
    }
    text = ast.unparse(cut)
    assert text.count("explanations is not None") == text.count("assert run.explanations is not None")
    for node in ast.walk(cut):
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "run.rescore":
            assert len(node.args) == 3
            assert not node.keywords
        assert not (isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in granted)
        assert not (isinstance(node, ast.ImportFrom) and (node.module or "").startswith(unexplained.ORIGINAL))


def test_no_other_branch_is_cut() -> None:
    """A check for explanations stands alone: no `else` goes with it."""
    for module in MODULES:
        for node in ast.walk(ast.parse(module.read_text(encoding="utf-8"))):
            if isinstance(node, ast.If) and "explanations is not None" in ast.unparse(node.test):
                assert node.orelse == []
                assert ast.unparse(node.test) in unexplained.EXPLAINS


def test_the_cut_copy_is_a_package_of_its_own() -> None:
    """The copy's modules aren't ours, which still explain."""
    copy = unexplained.pipeline()
    assert copy.__name__ == f"{unexplained.PACKAGE}.pipeline"
    assert unexplained.pipeline() is copy
    explained = dataclasses.replace(ranking.FACTS, explain=True)
    recipe, found = ranking.RECIPES["hybrid"], ranking.legs(20)
    first = rank(recipe, found, explained)
    assert first.run.explanations is not None
    assert first.run.explanations.by_id[first.candidates[0].id].stages
    assert copy.first_phase(recipe, found, explained).run.explanations.by_id == {}


def _asserts_explanations(node: ast.AST) -> bool:
    return isinstance(node, ast.Assert) and "explanations is not None" in ast.unparse(node)


def test_every_recipe_is_measured_at_every_size() -> None:
    """A row for each recipe and size, each with positive figures; the comparison with arrays for the blend alone."""
    measured = ranking.figures(1)
    assert measured["rounds"] == 1
    rows = {(row["recipe"], row["candidates"]): row for row in measured["rows"]}
    assert len(rows) == len(measured["rows"]) == report.ranking_table(measured).row_count
    assert rows.keys() == {(name, size) for name in ranking.RECIPES for size in ranking.SIZES}
    for (name, _), row in rows.items():
        ratios = {"explained", "unasked"} | ({"arrays"} if name == "weighted" else set())
        assert row.keys() == {"recipe", "candidates", "cpu_us"} | ratios
        assert all(row[figure] > 0 for figure in {"cpu_us", *ratios})
