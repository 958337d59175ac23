"""Tuning: which values are chosen, on which queries, and what is said of the others."""

import io
import itertools
from pathlib import Path
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from flows.cli.pool_ranking import PoolRanker
from flows.cli.tuning import Hyperparameter, Tuned, table, tune, tuned
from operators.query.plan import Planner
from schemas.errors import ConfigError
from schemas.recipes import SHIPPED, Recipe
from schemas.settings import Limits
from schemas.settings.ranking import PROFILES

PLANNER = Planner(PROFILES)
ALPHA = Hyperparameter("score", "alpha", (0.25, 0.75))
HITS = {
    "vector": [{"id": "v", "score": 0.9}, {"id": "k", "score": 0.1}],
    "keyword": [{"id": "k", "score": 9.0}, {"id": "v", "score": 1.0}],
}


def pool(query_id: str, **hits: Any) -> bytes:
    """A pool in which the vector leg prefers `v` and the keyword leg `k`, unless it has other hits."""
    legs = [{"name": name, "hits": found} for name, found in {**HITS, **hits}.items()]
    query = {"query_id": query_id, "text": "x", "rerank": False, "record": True}
    return orjson.dumps({"query": query, "now": 0, "legs": legs})


def pools(count: int) -> list[bytes]:
    """So many of them, q0 and on."""
    return [pool(f"q{number}") for number in range(count)]


def wanting(documents: str) -> dict[str, dict[str, int]]:
    """Judgements: each query wants the document of its place."""
    return {f"q{number}": {document: 1} for number, document in enumerate(documents)}


def ranker(recipe: Recipe = SHIPPED["hybrid"]) -> PoolRanker:
    """The ranker by this recipe."""
    return PoolRanker(PLANNER, Limits(), recipe=recipe)


def chosen(documents: str, *hyperparameters: Hyperparameter) -> Tuned:
    """What is tuned, for MRR, where the queries want these documents."""
    return tune(ranker(), pools(len(documents)), hyperparameters or (ALPHA,), wanting(documents), "MRR@10")


@pytest.mark.parametrize(
    ("text", "hyperparameter"),
    [
        ("score.alpha=0.2,0.5,0.8", Hyperparameter("score", "alpha", (0.2, 0.5, 0.8))),
        ("rrf.k=60", Hyperparameter("rrf", "k", (60,))),
        ("weibull_decay.enabled=true,false", Hyperparameter("weibull_decay", "enabled", (True, False))),
        ('score.normaliser="l2", null', Hyperparameter("score", "normaliser", ("l2", None))),
        (
            'score.weights={"vector": 2, "keyword": 1},{}',
            Hyperparameter("score", "weights", ({"vector": 2, "keyword": 1}, {})),
        ),
    ],
)
def test_a_knob_is_a_parameter_and_values(text: str, hyperparameter: Hyperparameter) -> None:
    """Values are JSON, so that commas and quotes in them are their own."""
    assert Hyperparameter.parse(text) == hyperparameter


@pytest.mark.parametrize(
    "text", ["", "score", "score.alpha", "score.alpha=", "score.alpha= ", "score=1", ".alpha=1", "score.=1"]
)
def test_what_is_no_knob_is_a_value_error(text: str) -> None:
    """Without a stage, a parameter or a single value there is nothing to try."""
    with pytest.raises(ValueError, match=r"is not STAGE\.PARAMETER=VALUE,VALUE"):
        Hyperparameter.parse(text)


@pytest.mark.parametrize("values", ["x", "1,", "]", "[1", "NaN", "0.5;0.6", "'l2'"])
def test_values_that_are_no_json_are_a_value_error(values: str) -> None:
    """A list of JSON values or nothing."""
    with pytest.raises(ValueError, match=r"line 1 column \d+"):
        Hyperparameter.parse(f"score.alpha={values}")


def test_the_better_value_is_chosen_on_one_half_and_judged_on_the_other() -> None:
    """By hand: the queries at 0, 2 and 4 want what one leg prefers, those at 1 and 3 what the other does."""
    found = chosen("vkvkv")
    assert found.values == {"score.alpha": 0.75}
    assert (found.recipe, found.tried, found.chosen_on, found.judged_on) == ("hybrid", 2, 3, 2)
    # At the recipe's own 0.5 both score the same, and the vector leg's comes first.
    assert (found.before["MRR@10"], found.after["MRR@10"]) == (0.5, 0.5)
    found = chosen("kvkvk")
    assert found.values == {"score.alpha": 0.25}
    assert (found.before["MRR@10"], found.after["MRR@10"]) == (1.0, 0.5)
    assert (found.before["any@5"], found.after["any@5"]) == (1.0, 1.0)


@given(st.lists(st.tuples(st.sampled_from("vk"), st.sampled_from("vk")), min_size=1, max_size=6))
def test_the_choice_is_the_majoritys_of_its_half(pairs: list[tuple[str, str]]) -> None:
    """By counting: more queries of the first half that want what a leg prefers choose that leg, equally many the first
    value; the second half's figures are those that the choice gives there.
    """
    found = chosen("".join(first + second for first, second in pairs))
    vectors = sum(first == "v" for first, _ in pairs)
    assert found.values == {"score.alpha": 0.75 if 2 * vectors > len(pairs) else 0.25}
    wanted = "v" if found.values["score.alpha"] == 0.75 else "k"
    share = sum(second == wanted for _, second in pairs) / len(pairs)
    assert found.after["MRR@10"] == pytest.approx((1 + share) / 2)


other_halves = st.lists(
    st.tuples(
        st.lists(st.tuples(st.sampled_from("vkx"), st.floats(0, 1)), max_size=3, unique_by=lambda hit: hit[0]),
        st.dictionaries(st.sampled_from("vkx"), st.integers(0, 3), max_size=3),
    ),
    min_size=4,
    max_size=4,
)


@given(st.text("vk", min_size=4, max_size=4), other_halves)
def test_the_other_half_has_no_say(wanted: str, others: list[tuple[list[tuple[str, float]], dict[str, int]]]) -> None:
    """Whatever the queries that are judged on hold and want, and whether they are there, the choice is the same."""
    judged = {f"q{2 * number}": {document: 1} for number, document in enumerate(wanted)}
    first = [pool(f"q{2 * number}") for number in range(4)]
    second = [
        pool(f"q{2 * number + 1}", vector=[{"id": id_, "score": score} for id_, score in hits])
        for number, (hits, _) in enumerate(others)
    ]
    judged_too = {**judged, **{f"q{2 * number + 1}": grades for number, (_, grades) in enumerate(others)}}
    plain = tune(ranker(), [line for line in first for _ in range(2)], (ALPHA,), judged, "MRR@10")
    mixed = [line for pair in zip(first, second, strict=True) for line in pair]
    assert tune(ranker(), mixed, (ALPHA,), judged_too, "MRR@10").values == plain.values


def test_of_equals_the_first_is_chosen() -> None:
    """In the order in which knobs and their values were given; every combination is tried."""
    hyperparameters = (Hyperparameter("score", "alpha", (0.9, 0.6, 0.8)), Hyperparameter("dedupe", "limit", (7, 5)))
    found = chosen("vv", *hyperparameters)
    assert found.values == {"score.alpha": 0.9, "dedupe.limit": 7}
    assert found.tried == 6
    assert chosen("vv", *hyperparameters[::-1]).values == {"dedupe.limit": 7, "score.alpha": 0.9}


@pytest.mark.parametrize("best", list(itertools.product((0.1, 0.9), (1, 0))))
def test_the_best_of_all_combinations_is_found(best: tuple[float, int]) -> None:
    """Two knobs are tried together: the one combination that finds what is wanted is chosen, wherever it stands."""
    alpha, limit = best
    # A third document that no leg prefers is found only without a limit.
    wanted = ("v" if alpha > 0.5 else "k") if limit else "x"
    hits = {name: [*found, {"id": "x", "score": 0.05}] for name, found in HITS.items()}
    lines = [pool(f"q{number}", **hits) for number in range(2)]
    hyperparameters = (Hyperparameter("score", "alpha", (0.1, 0.9)), Hyperparameter("dedupe", "limit", (1, 0)))
    found = tune(ranker(), lines, hyperparameters, wanting(wanted * 2), "MRR@10")
    # Without a limit either alpha finds x, at one rank: the first.
    assert found.values == {"score.alpha": alpha if limit else 0.1, "dedupe.limit": limit}


@pytest.mark.parametrize(
    ("hyperparameter", "said"),
    [
        (Hyperparameter("score", "beta", (1,)), "score.beta: Extra inputs are not permitted"),
        (Hyperparameter("temporal", "boost", (1.0,)), "recipe hybrid has no such stage"),
        (Hyperparameter("score", "alpha", (0.5, 2)), "score.alpha: Input should be less than or equal to 1"),
        (Hyperparameter("score", "alpha", ("0.5",)), "score.alpha: Input should be a valid number"),
    ],
)
def test_a_parameter_that_the_recipe_lacks_is_an_error(hyperparameter: Hyperparameter, said: str) -> None:
    """What can't be set is said by stage and parameter, as in a recipe of one's own."""
    with pytest.raises(ConfigError, match=said):
        chosen("vk", hyperparameter)


def test_what_can_be_tuned_is_checked_before_anything_runs() -> None:
    """An unknown metric, and stages that no recipe has together, are errors before a query is asked."""
    nothing: Any = None
    recipes = [SHIPPED["hybrid"], SHIPPED["rrf"]]
    with pytest.raises(ConfigError, match=r"metric nDCG@5: not one of any@5, .*nDCG@10"):
        next(tuned(nothing, Path("queries"), recipes, [ALPHA], {}, "nDCG@5"))
    with pytest.raises(ConfigError, match="no recipe has the stages rrf, score"):
        next(tuned(nothing, Path("queries"), recipes, [ALPHA, Hyperparameter("rrf", "k", (1,))], {}, "nDCG@10"))


def test_a_pool_is_ranked_anew_each_time() -> None:
    """Pools that were read once and ranked by many settings leave nothing behind in one another."""
    again = ranker(SHIPPED["composite"])
    read = again.read(pool("q"))
    first = orjson.dumps(again.rank(read))
    for alpha in (0.0, 1.0):
        again.overridden({"score.alpha": alpha}).rank(read)
    assert orjson.dumps(again.rank(read)) == first


def test_what_was_tuned_can_be_printed() -> None:
    """As JSON all of it, as a table the recipe, its values and both rows of figures."""
    found = chosen("kv")
    assert orjson.loads(orjson.dumps(found.report()))["values"] == {"score.alpha": 0.25}
    console = Console(file=io.StringIO(), width=200, record=True)
    console.print(table(found))
    shown = console.export_text()
    assert all(
        part in shown for part in ("hybrid, 1 queries", "as it is", "score.alpha 0.25", "MRR@10", "0.500", "1.000")
    )
