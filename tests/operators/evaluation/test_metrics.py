"""The metrics, worked by hand."""

import math
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from operators.evaluation.metrics import TABLE, any_at, evaluate_run, ndcg_at, recall_at, reciprocal_rank_at, separate

JUDGED = {"a": 3, "b": 2, "c": 1, "d": 0, "e": -1}
RANKING = ["d", "b", "x", "a", "e", "c"]


@pytest.mark.parametrize(
    ("depth", "any_", "recall", "reciprocal"),
    [(1, 0, 0, 0), (2, 1, 1 / 3, 1 / 2), (3, 1, 1 / 3, 1 / 2), (4, 1, 2 / 3, 1 / 2), (6, 1, 1, 1 / 2), (0, 0, 0, 0)],
)
def test_by_hand(depth: int, any_: float, recall: float, reciprocal: float) -> None:
    """Of three relevant documents b is second, a fourth and c sixth; grades of 0 and below aren't relevant."""
    assert any_at(RANKING, JUDGED, depth) == any_
    assert recall_at(RANKING, JUDGED, depth) == pytest.approx(recall)
    assert reciprocal_rank_at(RANKING, JUDGED, depth) == reciprocal


def test_ndcg_by_hand() -> None:
    """Gains are the grades: 2/log2(3) + 3/log2(5) + 1/log2(7) over the ideal 3 + 2/log2(3) + 1/2."""
    gained = 2 / math.log2(3) + 3 / math.log2(5) + 1 / math.log2(7)
    assert ndcg_at(RANKING, JUDGED, 10) == pytest.approx(gained / (3 + 2 / math.log2(3) + 1 / 2))
    assert ndcg_at(RANKING, JUDGED, 10) == pytest.approx(0.61113, abs=1e-5)


def test_ndcgs_ideal_is_cut_at_the_depth() -> None:
    """At depth 2 the ideal has two documents: b second of d b gives 2/log2(3) over 3 + 2/log2(3)."""
    assert ndcg_at(RANKING, JUDGED, 2) == pytest.approx((2 / math.log2(3)) / (3 + 2 / math.log2(3)))


def test_the_best_order_is_one() -> None:
    """The ideal ranking has nDCG 1, whatever follows it."""
    assert ndcg_at(["a", "b", "c", "x", "e"], JUDGED, 10) == pytest.approx(1)


@pytest.mark.parametrize("metric", [any_at, recall_at, reciprocal_rank_at, ndcg_at])
@pytest.mark.parametrize(("ranking", "judged"), [([], JUDGED), (["a"], {}), (["a"], {"a": 0}), (["a"], {"a": -1})])
def test_nothing_found_or_nothing_relevant_is_zero(
    metric: Callable[..., float], ranking: list[str], judged: dict[str, int]
) -> None:
    """Without a relevant document, or without a ranking, each metric is 0 and none divides by it."""
    assert metric(ranking, judged, 10) == 0


@given(st.permutations("abcdexyz"), st.integers(0, 9))
def test_every_metric_is_between_zero_and_one(ranking: list[str], depth: int) -> None:
    """Any order, any depth; looking deeper never finds less."""
    for metric in (any_at, recall_at, reciprocal_rank_at, ndcg_at):
        assert 0 <= metric(ranking, JUDGED, depth) <= 1 + 1e-12
    for metric in (any_at, recall_at, reciprocal_rank_at):
        assert metric(ranking, JUDGED, depth) <= metric(ranking, JUDGED, depth + 1)


def test_the_figures_are_means_over_the_judged_queries() -> None:
    """By hand: q1 first at rank 1, q2 at rank 2, q3 missing from the run; q4 has nothing relevant and doesn't count."""
    run = {"q1": ["a", "b"], "q2": ["x", "a"], "q4": ["a"], "unjudged": ["a"]}
    qrels = {"q1": {"a": 1, "b": 1}, "q2": {"a": 1}, "q3": {"a": 1}, "q4": {"a": 0}}
    figures = evaluate_run(run, qrels)
    assert figures == pytest.approx(
        {
            "any@1": 1 / 3,
            "any@5": 2 / 3,
            "any@10": 2 / 3,
            "recall@10": 2 / 3,
            "MRR@10": (1 + 1 / 2) / 3,
            "nDCG@10": (1 + 1 / math.log2(3)) / 3,
        }
    )
    assert list(figures) == list(TABLE)


def test_without_judgements_every_figure_is_zero() -> None:
    """Nothing judged is no division by zero."""
    assert evaluate_run({"q": ["a"]}, {}) == evaluate_run({}, {"q": {"a": 0}}) == dict.fromkeys(TABLE, 0.0)


def test_the_table_cuts_where_its_names_say() -> None:
    """A relevant document at rank 6 counts for the figures at 10 only, one at rank 11 for none."""
    judged = {"q": {"a": 1}}
    at_6 = evaluate_run({"q": [*"vwxyz", "a"]}, judged)
    assert at_6 == pytest.approx(
        {"any@1": 0, "any@5": 0, "any@10": 1, "recall@10": 1, "MRR@10": 1 / 6, "nDCG@10": 1 / math.log2(7)}
    )
    assert set(evaluate_run({"q": [*"0123456789", "a"]}, judged).values()) == {0}


def test_a_separation_by_hand() -> None:
    """Of 3 * 2 pairs four are in order and one is equal: 4.5 / 6; .6 keeps two of three and leaves out both others."""
    assert separate([0.9, 0.6, 0.3], [0.3, 0.5]) == (4.5 / 6, 0.6, 2 / 3, 1.0)
    assert separate([], [0.3]) is None
    assert separate([0.9], []) is None


@given(st.lists(st.integers(0, 9), min_size=1), st.lists(st.integers(0, 9), min_size=1))
def test_a_separation_is_of_the_order_alone(answerable: list[int], others: list[int]) -> None:
    """The area of both ways round adds up to 1, a larger scale changes nothing, and no other threshold tells more."""
    found, turned = separate(answerable, others), separate(others, answerable)
    scaled = separate([each * 7.0 + 1 for each in answerable], [each * 7.0 + 1 for each in others])
    assert found is not None
    assert turned is not None
    assert scaled is not None
    assert math.isclose(found.auc + turned.auc, 1.0)
    assert (scaled.auc, scaled.answered, scaled.left_out) == (found.auc, found.answered, found.left_out)
    for threshold in range(11):
        kept = sum(each >= threshold for each in answerable) / len(answerable)
        assert kept + sum(each < threshold for each in others) / len(others) <= found.answered + found.left_out + 1e-12
