"""Two systems compared: by hand, and what must hold for any."""

from random import Random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from operators.evaluation.comparison import Move, Verdict, compare_systems, jaccard, rank_biased_overlap
from operators.evaluation.metrics import by_query, evaluate_run

QRELS = {"q1": {"a": 1}, "q2": {"b": 1}, "q3": {"c": 2}, "q4": {"d": 1}, "q5": {"e": 0}}
FIRST = {"q1": ["x", "a"], "q2": ["b"], "q3": ["x", "y", "c"], "q4": []}
SECOND = {"q1": ["a"], "q2": ["x", "b"], "q3": ["c"]}


def test_by_hand() -> None:
    """MRR: q1 1/2 -> 1, q2 1 -> 1/2, q3 1/3 -> 1, q4 0 in both; q5 has nothing relevant and isn't counted."""
    found = compare_systems(by_query(FIRST, QRELS), by_query(SECOND, QRELS), "MRR@10", 0)
    assert found.means["MRR@10"][:3] == pytest.approx((11 / 24, 15 / 24, 1 / 6))
    assert found.signs == (2, 1, 1, 1.0)
    assert [move.query_id for move in found.moves] == ["q3", "q1", "q2", "q4"]
    assert found.moves[1] == Move("q1", 0.5, 1.0)
    assert found.verdict is Verdict.UNDECIDED


def test_what_is_better_on_every_query_is_better() -> None:
    """The interval of a difference that each query shows is above 0, and below it the other way round."""
    first = {"MRR@10": {f"q{number}": 0.5 for number in range(10)}}
    second = {"MRR@10": {f"q{number}": 1.0 for number in range(10)}}
    found, swapped = compare_systems(first, second, "MRR@10", 0), compare_systems(second, first, "MRR@10", 0)
    assert found.verdict is Verdict.BETTER
    assert found.means["MRR@10"][3:] == (0.5, 0.5)
    assert found.signs.p == 2 / 1024
    assert swapped.verdict is Verdict.WORSE


@pytest.mark.parametrize("ties", [0, 3, 40])
@pytest.mark.parametrize("changed", range(9))
def test_few_queries_are_no_evidence(changed: int, ties: int) -> None:
    """Six queries that differ can be significant by the sign test, five cannot, whatever their bootstrap says."""
    if not changed + ties:
        return
    first = {"MRR@10": {f"q{number:02}": 0.0 for number in range(changed + ties)}}
    second = {"MRR@10": {f"q{number:02}": float(number < changed) for number in range(changed + ties)}}
    found, swapped = compare_systems(first, second, "MRR@10", 0), compare_systems(second, first, "MRR@10", 0)
    assert (found.changed, found.signs.p <= 0.05) == (changed, changed >= 6)
    expected = (Verdict.BETTER, Verdict.WORSE) if changed >= 6 else (Verdict.UNDECIDED,) * 2
    assert (found.verdict, swapped.verdict) == expected


@pytest.mark.parametrize("queries", [1, 2, 3, 5, 6, 8])
def test_equal_systems_are_seldom_told_apart(queries: int) -> None:
    """Of 300 pairs whose ranks are drawn alike, one in six or fewer has a verdict, with few queries, too."""
    draw = np.random.default_rng(queries)
    told = 0
    for _ in range(300):
        first, second = (1 / draw.integers(1, 7, queries) for _ in range(2))
        values = [
            {"MRR@10": dict(zip(map(str, range(queries)), each.tolist(), strict=True))} for each in (first, second)
        ]
        told += compare_systems(values[0], values[1], "MRR@10", 0).verdict is not Verdict.UNDECIDED
    assert told <= 50


rankings = st.fixed_dictionaries({query: st.permutations("abcdexy") for query in QRELS})


@settings(max_examples=20)
@given(rankings)
def test_a_run_beside_itself_has_no_difference(run: dict[str, list[str]]) -> None:
    """Every difference and interval is 0, exactly, and nobody wins."""
    found = compare_systems(by_query(run, QRELS), by_query(run, QRELS), "nDCG@10", 3)
    assert all(each[2:] == (0.0, 0.0, 0.0) for each in found.means.values())
    assert found.signs == (0, 0, 4, 1.0)
    assert found.verdict is Verdict.UNDECIDED


@settings(max_examples=20)
@given(rankings, rankings, st.randoms())
def test_the_order_of_the_input_does_not_matter(
    first: dict[str, list[str]], second: dict[str, list[str]], random: Random
) -> None:
    """Queries and judgements in any order give the same figures, intervals and order of queries, to the bit."""
    queries = list(QRELS)
    random.shuffle(queries)
    qrels = {query: dict(reversed(QRELS[query].items())) for query in queries}
    before, after = ({query: run[query] for query in queries} for run in (first, second))
    assert evaluate_run(before, qrels) == evaluate_run(first, QRELS)
    shuffled = compare_systems(by_query(before, qrels), by_query(after, qrels), "nDCG@10", 0)
    assert shuffled == compare_systems(by_query(first, QRELS), by_query(second, QRELS), "nDCG@10", 0)


@given(st.permutations("abcdefgh"), st.permutations("abcdefgh"))
def test_equal_rankings_overlap_wholly(first: list[str], second: list[str]) -> None:
    """1 of equal lists only, 0 of lists without a common document, the same in both directions, first ranks first."""
    there = rank_biased_overlap(first, second)
    assert there == pytest.approx(rank_biased_overlap(second, first))
    assert (there == pytest.approx(1)) == (first == second)
    assert rank_biased_overlap(first, [each.upper() for each in second]) == 0
    top, bottom = ["b", "a", *"cdefgh"], [*"abcdef", "h", "g"]
    assert rank_biased_overlap("abcdefgh", bottom) > rank_biased_overlap("abcdefgh", top)
    assert jaccard(first[:4], second[:4]) == len({*first[:4]} & {*second[:4]}) / len({*first[:4]} | {*second[:4]})
    assert (rank_biased_overlap([], []), jaccard([], []), rank_biased_overlap([], ["a"])) == (1, 1, 0)
