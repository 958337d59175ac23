"""Tuning: which values are chosen, on which queries, and what is said of the others."""

import itertools
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

import orjson
import pytest
import typer
from hypothesis import given
from hypothesis import strategies as st

from flows.cli.evaluate import tune as recipe_file
from flows.cli.evaluate.tune import Rules, Tuned, describe_tuned, parse_wanted, recipes_with, tune_recipe
from flows.cli.rank import PoolRanker
from operators.evaluation.comparison import Verdict
from operators.evaluation.search import Wanted
from operators.query.plan import Planner
from schemas.errors import ConfigError
from schemas.recipes import SHIPPED, Recipe
from schemas.settings import Limits, load
from schemas.settings.ranking import PROFILES
from tests.flows.cli.terminal import printed

ALPHA = Wanted("score", "alpha", None, (0.25, 0.75))
HITS = {
    "vector": [{"id": "v", "score": 0.9}, {"id": "k", "score": 0.1}],
    "keyword": [{"id": "k", "score": 9.0}, {"id": "v", "score": 1.0}],
}
RULES = Rules("MRR@10")
ELSEWHERE = {"qdrant": {"url": "http://127.0.0.1:9"}}
"""The settings of a configuration in addition to its recipes, such as from the environment."""

RANKER = PoolRanker(Planner(PROFILES), Limits())


def pool(
    query_id: str,
    rerank: dict[str, float] | None = None,
    namespace: str = "n",
    asked: Mapping[str, Any] = MappingProxyType({}),
    **hits: Any,
) -> bytes:
    """A pool in which the vector leg prefers `v` and the keyword leg `k`, unless it has other hits."""
    legs = [{"name": name, "hits": found} for name, found in {**HITS, **hits}.items()]
    query = {"query_id": query_id, "text": f"text of {query_id}", "namespace": namespace, "record": True, **asked}
    return orjson.dumps(
        {"query": query, "now": 0, "legs": legs, **({"rerank": rerank, "measure": "share"} if rerank else {})}
    )


def tuned(wanting: dict[str, str], *wanted: Wanted, recipe: str = "hybrid", rules: Rules = RULES, **more: Any) -> Tuned:
    """The tuning of queries each of which wants the document behind it."""
    pools = [RANKER.read_pool(pool(query, **more)) for query in wanting]
    judged = {query: {document: 1} for query, document in wanting.items()}
    return tune_recipe(RANKER, SHIPPED[recipe], pools, wanted or (ALPHA,), judged, rules)


def split(count: int, rules: Rules = RULES) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Which of so many queries are tuned on, and which are held out."""
    return tuned({f"q{number}": "v" for number in range(count)}, rules=rules).halves


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("score", Wanted("score")),
        ("fuse", Wanted("fuse")),
        ("rerank.weight", Wanted("rerank", "weight")),
        ("score.weights.keyword", Wanted("score", "weights", "keyword")),
        ("score.weights.my.leg", Wanted("score", "weights", "my.leg")),
        ("score.alpha=0.2,0.5,0.8", Wanted("score", "alpha", None, (0.2, 0.5, 0.8))),
        ("weibull_decay.enabled=true,false", Wanted("weibull_decay", "enabled", None, (True, False))),
        ('score.normaliser="l2", null', Wanted("score", "normaliser", None, ("l2", None))),
        ('score.weights={"vector": 2, "x": 1},{}', Wanted("score", "weights", None, ({"vector": 2, "x": 1}, {}))),
    ],
)
def test_what_is_wanted_is_a_path_and_maybe_values(text: str, wanted: Wanted) -> None:
    """Values are JSON, so that commas and quotes in them are their own."""
    assert parse_wanted(text) == wanted


@pytest.mark.parametrize("text", ["", "score.alpha=", "score.alpha= ", "score=1", ".alpha=1", "score.=1", "score.a."])
def test_what_is_no_path_is_refused(text: str) -> None:
    """Values need a parameter, and no part of a path is empty."""
    with pytest.raises(typer.BadParameter, match=r"is not STAGE, STAGE\.PARAMETER or STAGE\.PARAMETER=VALUE,VALUE"):
        parse_wanted(text)


@pytest.mark.parametrize("values", ["x", "1,", "]", "[1", "NaN", "0.5;0.6", "'l2'"])
def test_values_that_are_no_json_are_refused(values: str) -> None:
    """A list of JSON values or nothing."""
    with pytest.raises(typer.BadParameter, match=r"the values are not JSON: .*line 1 column"):
        parse_wanted(f"score.alpha={values}")


def test_the_better_value_is_chosen_on_one_half_and_judged_on_the_other() -> None:
    """By hand: all that is tuned on want what the keyword leg prefers, all that is held out what the vector leg does.
    At the recipe's own alpha both score the same, and the vector leg's comes first.
    """
    first, second = split(12)
    found = tuned({**dict.fromkeys(first, "k"), **dict.fromkeys(second, "v")})
    assert found.found.setting == {"score.alpha": 0.25}
    assert (found.own, found.found.figure, found.found.tried) == (0.5, 1.0, 2)
    report = found.report()
    assert (report["chosen_on"], report["judged_on"]) == (6, 6)
    assert (report["before"]["MRR@10"], report["after"]["MRR@10"]) == (1.0, 0.5)
    assert report["sign_test"] == {"wins": 0, "losses": 6, "ties": 0, "p": 2 / 64}
    assert report["verdict"] is Verdict.WORSE
    assert "NOT better" in found.verdict()


@given(st.text("vk", min_size=8, max_size=8))
def test_the_choice_is_the_majoritys_of_its_half(wanted: str) -> None:
    """By counting: more queries of the tuning half that want what a leg prefers choose that leg, equally many the first
    value; the other half's figures are those that the choice gives there, and it has no say.
    """
    first, second = split(8)
    wanting = dict(zip((f"q{number}" for number in range(8)), wanted, strict=True))
    found = tuned(wanting)
    vectors = sum(wanting[query] == "v" for query in first)
    assert found.found.setting == {"score.alpha": 0.75 if 2 * vectors > len(first) else 0.25}
    chosen = "v" if found.found.setting["score.alpha"] == 0.75 else "k"
    share = sum(wanting[query] == chosen for query in second) / len(second)
    assert found.report()["after"]["MRR@10"] == pytest.approx((1 + share) / 2)


@pytest.mark.parametrize("best", list(itertools.product((0.1, 0.9), (1, 0))))
def test_the_best_of_listed_values_is_found(best: tuple[float, int]) -> None:
    """Of two lists the values that find what is wanted are chosen, wherever they stand."""
    alpha, limit = best
    # A third document that no leg prefers is found only without a limit.
    document = ("v" if alpha > 0.5 else "k") if limit else "x"
    hits: Any = {name: [*found, {"id": "x", "score": 0.05}] for name, found in HITS.items()}
    wanted = (Wanted("score", "alpha", None, (0.1, 0.9)), Wanted("dedupe", "limit", None, (1, 0)))
    found = tuned({"q0": document, "q1": document}, *wanted, **hits)
    # Without a limit either alpha finds x, at one rank: the first.
    assert found.found.setting == {"score.alpha": alpha if limit else 0.1, "dedupe.limit": limit}


@pytest.mark.parametrize(("recipe", "path"), [("hybrid", "score.alpha"), ("rrf", "rrf.weights.vector")])
def test_the_fusion_is_searched_without_a_list(recipe: str, path: str) -> None:
    """The fusion's weights move to the keyword leg if all want its hits, and the held-out half agrees."""
    found = tuned({f"q{number}": "k" for number in range(12)}, Wanted("fuse"), recipe=recipe)
    assert found.found.setting.keys() == {path}
    assert found.report()["verdict"] is Verdict.BETTER
    assert found.report()["after"]["MRR@10"] == 1.0
    assert "is better on the held-out queries (MRR@10 +0.500" in found.verdict()


def test_the_models_weight_is_searched_by_recorded_scores() -> None:
    """The model prefers the wrong document: its weight falls below a half, and no model is asked."""
    said = {"v": 1.0, "k": 5.0}
    vector: Any = {"vector": [{"id": "v", "score": 0.9}, {"id": "k", "score": 0.8}], "keyword": []}
    found = tuned({f"q{number}": "v" for number in range(4)}, Wanted("rerank", "weight"), rerank=said, **vector)
    assert (found.own, found.found.figure) == (0.5, 1.0)
    assert found.found.setting["rerank.weight"] <= 0.5


def test_pools_without_rerank_scores_are_counted() -> None:
    """A reranker that was late for some queries is said; a recipe without a model needs no scores."""
    assert any(
        "0 of 4 pools hold rerank scores" in str(part) for part in describe_tuned(tuned(dict.fromkeys("abcd", "v")))
    )
    found = tuned(dict.fromkeys("abcd", "v"), Wanted("fuse"), recipe="signals")
    assert not any("rerank scores" in str(part) for part in describe_tuned(found))


def test_without_a_better_value_the_recipe_stays() -> None:
    """Nothing is changed for nothing, and the verdict says so."""
    found = tuned({f"q{number}": "v" for number in range(4)}, Wanted("all"))
    assert found.found.setting == {}
    assert found.recipe == SHIPPED["hybrid"]
    assert found.verdict() == "hybrid: no value that was tried is better than the recipe's own."


@pytest.mark.parametrize(
    ("recipe", "wanted", "asked"),
    [
        ("hybrid", ALPHA, {"overrides": {"score": {"alpha": 0.9}}}),
        ("hybrid", ALPHA, {"overrides": {"score": {"alpha": 0.9, "fuzzy": 0.0}, "dedupe": {"limit": 9}}}),
        ("hybrid", Wanted("fuse"), {"overrides": {"score": {"alpha": 0.9}}}),
        (
            "rrf",
            Wanted("rrf", "weights", "vector"),
            {"overrides": {"rrf": {"weights": {"vector": 5, "keyword": 1}}}},
        ),
        ("rrf", Wanted("rrf", "weights"), {"overrides": {"rrf": {"weights": {"vector": 5}}}}),
    ],
)
def test_what_queries_say_of_a_tuned_parameter_does_not_count(
    recipe: str, wanted: Wanted, asked: dict[str, Any]
) -> None:
    """The values are chosen as for queries without overrides, which would make all trials equal."""
    wanting = {f"q{number}": "k" for number in range(12)}
    plain, own = (tuned(wanting, wanted, recipe=recipe, asked=each) for each in ({}, asked))
    assert own.found == plain.found
    assert own.found.setting
    assert own.report() == plain.report()


def test_what_queries_say_of_other_parameters_counts() -> None:
    """An override of a parameter that is not tuned holds in every trial: here no trial can find what is cut off."""
    hits: Any = {name: [*found, {"id": "x", "score": 0.05}] for name, found in HITS.items()}
    found = tuned({f"q{number}": "x" for number in range(4)}, asked={"overrides": {"dedupe": {"limit": 1}}}, **hits)
    assert (found.own, found.found.figure) == (0, 0)


def test_a_querys_factor_of_reflections_does_not_count_where_it_is_tuned() -> None:
    """It is a field of the query, not an override, and would go before each trial's value, too."""
    recipe = Recipe.parse("mine", {"stages": ["keyword", {"reflections": {"reflection_boost": 1.0}}]})
    hits: Any = {"keyword": [{"id": "k", "score": 3.0}, {"id": "v", "score": 2.0, "payload": {"type": "reflection"}}]}
    reads = [RANKER.read_pool(pool(f"q{number}", asked={"reflection_boost": 1.0}, **hits)) for number in range(4)]
    judged = {read.pool.query.query_id: {"v": 1} for read in reads}
    wanted = [Wanted("reflections", "reflection_boost", None, (2.0,))]
    found = tune_recipe(RANKER, recipe, reads, wanted, judged, RULES)
    assert (found.own, found.found.figure) == (0.5, 1.0)


def test_few_held_out_queries_show_nothing() -> None:
    """Five that are better are too few, and the verdict says so; six are enough."""
    few = tuned({f"q{number}": "k" for number in range(10)})
    assert few.report()["verdict"] is Verdict.UNDECIDED
    assert "is not shown to be better on the held-out queries" in few.verdict()
    assert few.verdict().endswith("; 5 queries differ, 6 are needed).")
    assert "is better on the held-out queries" in tuned({f"q{number}": "k" for number in range(12)}).verdict()


def test_a_search_ends_at_its_trials() -> None:
    """The report says that it was not over."""
    found = tuned({f"q{number}": "k" for number in range(4)}, Wanted("all"), rules=replace(RULES, trials=3))
    assert (found.found.tried, found.report()["complete"]) == (3, False)
    assert any("raise --trials" in str(part) for part in describe_tuned(found))


def test_one_query_is_not_enough() -> None:
    """There must be one in each half."""
    with pytest.raises(ConfigError, match="tuning needs queries for two halves: 1 judged ones are not enough"):
        split(1)


def test_queries_without_a_relevant_document_have_no_say() -> None:
    """They are neither tuned on nor held out: their figures are 0 whatever is chosen."""
    pools = [RANKER.read_pool(pool(f"q{number}")) for number in range(6)]
    judged = {f"q{number}": {"v": int(number < 4)} for number in range(5)}
    found = tune_recipe(RANKER, SHIPPED["hybrid"], pools, [ALPHA], judged, RULES)
    assert sorted(found.halves.tuning + found.halves.held_out) == ["q0", "q1", "q2", "q3"]


@pytest.mark.parametrize(
    ("wanted", "said"),
    [
        (Wanted("score", "beta", None, (1,)), "score.beta: the stage has no such parameter"),
        (Wanted("score", "alpha", None, (0.5, 2)), "score.alpha: Input should be less than or equal to 1"),
        (Wanted("score", "alpha", None, ("0.5",)), "score.alpha: Input should be a valid number"),
        (Wanted("dedupe"), "dedupe: no parameter of it is a number"),
        (Wanted("temporal", "boost", None, (1.0,)), "no recipe has the stages temporal"),
    ],
)
def test_what_no_recipe_can_have_is_an_error(wanted: Wanted, said: str) -> None:
    """Before anything runs, by stage and parameter, as in a recipe of one's own."""
    with pytest.raises(ConfigError, match=said):
        recipes_with([SHIPPED["hybrid"], SHIPPED["rrf"]], [wanted])


def test_recipes_that_have_what_is_wanted_are_tuned() -> None:
    """Of several recipes those that have all stages; `fuse` is in each that has numbers to fuse by."""
    recipes = [SHIPPED[name] for name in ("hybrid", "rrf", "vector", "composite")]
    assert [each.name for each in recipes_with(recipes, [ALPHA])] == ["hybrid", "composite"]
    assert [each.name for each in recipes_with(recipes, [Wanted("fuse")])] == ["hybrid", "rrf", "composite"]
    with pytest.raises(ConfigError, match="no recipe has the stages rrf, score"):
        recipes_with(recipes, [ALPHA, Wanted("rrf", "k", None, (1,))])


def test_a_pool_is_ranked_anew_each_time() -> None:
    """Pools that were read once and ranked by many settings leave nothing behind in one another."""
    ranker = replace(RANKER, recipe=SHIPPED["composite"])
    read = ranker.read_pool(pool("q"))
    first = orjson.dumps(ranker.rank(read))
    for alpha in (0.0, 1.0):
        replace(ranker, recipe=SHIPPED["composite"].overridden({"score": {"alpha": alpha}})).rank_all(read)
    assert orjson.dumps(ranker.rank(read)) == first


def test_what_was_tuned_can_be_printed() -> None:
    """As JSON all of it; on a terminal of 80 columns the values, both rows of figures, and the verdict."""
    found = tuned({f"q{number}": "k" for number in range(20)})
    report = orjson.loads(orjson.dumps(found.report()))
    assert report["values"] == {"score.alpha": 0.25}
    assert [move["query_id"] for move in report["held_out"]] == list(found.halves.held_out)
    text = printed(describe_tuned(found))
    for part in ("hybrid: score.alpha 0.25", "of 2 settings on 10 queries", "10 held-out queries", "+0.500 to +0.500"):
        assert part in text
    assert all(len(line) <= 80 for line in text.splitlines())


def test_what_is_written_is_a_configuration(tmp_path: Path) -> None:
    """The file loads as it is, and its recipe ranks as the tuned one; a file that is there already stays."""
    wanting = {f"q{number}": "k" for number in range(12)}
    found = tuned(wanting, Wanted("score"), ALPHA, Wanted("rerank"))
    path = tmp_path / "tuned.yaml"
    recipe_file.write_recipes(path, {"hybrid": found.recipe, "signals": SHIPPED["signals"]}, [found.verdict()])
    settings = load(path, ELSEWHERE)
    assert settings.recipes["hybrid"].hash == found.recipe.hash != SHIPPED["hybrid"].hash
    assert settings.recipes["signals"].hash == SHIPPED["signals"].hash
    by_file = PoolRanker.of(settings, "hybrid", explain=False)
    assert [hit["id"] for hit in by_file(pool("q"))["results"]] == ["k", "v"]
    assert path.read_text().startswith("# hybrid: the tuned recipe is better")
    with pytest.raises(FileExistsError):
        recipe_file.write_recipes(path, {}, [])


def test_a_bound_on_distance_is_written(tmp_path: Path) -> None:
    """A recipe's fields other than stages, and parameters of any kind, come back."""
    stages = ["linear", {"keyword_boost": {"enabled": True, "stop_words": ["ü", "no"]}}]
    recipe = Recipe.parse("mine", {"stages": stages, "max_distance": 0.5})
    recipe_file.write_recipes(tmp_path / "r.yaml", {"mine": recipe}, [])
    assert load(tmp_path / "r.yaml", ELSEWHERE).recipes["mine"] == recipe
