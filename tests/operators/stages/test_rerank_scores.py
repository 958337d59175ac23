"""Verdicts: what a pick and a reranker's scores make of the order."""

from typing import Any

import pytest
from operators.query.judging import Judging, judged

from operators.query.in_flight import InFlight
from operators.query.rerank_scores import Scores
from operators.ranking.candidate import Candidate
from tests.operators.ranking.pools import scores
from tests.operators.stages.test_rerank_pick import FUSED, query


def by_scores(asked: InFlight, rerank_scores: Scores, weight: float) -> list[Candidate]:
    """The query's candidates in the order that the scores give those whom its plan has reranked."""
    plan, outcome = asked.asked.plan, asked.outcome
    top = plan.reranks(asked.asked.canonical)
    return judged(plan.recipe, outcome, outcome.candidates, rerank_scores, top, Judging(weight))


@pytest.mark.parametrize(
    ("event", "rerank_scores", "expected"),
    [
        # The smallest distance is 0.125.
        ({}, {"a": 1.0}, [("a", 0.9375), *FUSED[1:]]),
        ({}, {"c": 1.0}, [("c", 0.9375), FUSED[0], FUSED[1], FUSED[3]]),
        ({}, {"b": 0.5, "c": 1.0}, [("c", 0.9375), FUSED[0], FUSED[1], FUSED[3]]),
        ({}, {"d": 1.0}, FUSED),
        ({}, {"elsewhere": 1.0}, FUSED),
        ({}, {}, FUSED),
        (
            {"recipe": "vector", "profile": "two"},
            {"a": 1.0, "b": 3.0},
            [("b", 1.0), ("a", 0.0), ("c", 0.0), ("d", -1.0)],
        ),
        ({"recipe": "vector", "profile": "two"}, {"b": 3.0}, [("b", 1.0), ("c", 0.0), ("d", -1.0)]),
        ({"recipe": "vector"}, {"d": 1.0}, [("d", 1.0)]),
    ],
)
def test_a_pick_moves_one_and_a_reranker_all(
    event: dict[str, Any], rerank_scores: Scores, expected: list[tuple[str, float]]
) -> None:
    """By hand: of a pick only the picked one moves, if it was among those that were read; what a reranker leaves out is
    gone, and what it didn't read follows.
    """
    assert scores(by_scores(query(**event), rerank_scores, 1.0)) == expected


def test_the_weight_is_the_rerankers_say() -> None:
    """By hand, at 0.25: three quarters of the fused score, which min-max makes 1 and 0; a pick knows no weight."""
    two: dict[str, Any] = {"recipe": "vector", "profile": "two"}
    merged = scores(by_scores(query(**two), {"a": 0.0, "b": 1.0}, 0.25))
    assert merged[:2] == [("a", 0.75), ("b", 0.25)]
    assert scores(by_scores(query(), {"b": 1.0}, 0.25))[0] == ("b", 0.9375)


@pytest.mark.parametrize(("event", "step"), [({}, "llm_rerank"), ({"recipe": "vector"}, "rerank")])
def test_a_verdict_is_explained(event: dict[str, Any], step: str) -> None:
    """The last step of who moved tells whose word it was, and ends in the score."""
    asked = query(explain=True, **event)
    first = by_scores(asked, {"b": 1.0, "a": 0.0}, 1.0)[0]
    assert asked.outcome.ranked is not None
    assert asked.outcome.ranked.explanations is not None
    told = asked.outcome.ranked.explanations.by_id["b"].stages[-1]
    assert (first.id, told["stage"], told["output"]) == ("b", step, first.score)
