"""Rerank scores: what a chat model's selection and a reranker's scores make of the order."""

from typing import Any

import pytest

from operators.query.backend_answers import Scores
from operators.query.in_flight import InFlight
from operators.ranking.candidate import Candidate
from operators.ranking.run import ModelScores
from tests.operators.ranking.pools import scores
from tests.operators.stages.test_rerank_pick import FUSED, query


def by_scores(asked: InFlight, rerank_scores: Scores) -> list[Candidate]:
    """The query's candidates in the order that the scores give those that its plan has reranked."""
    plan, outcome = asked.asked.plan, asked.outcome
    read = asked.asked.reranks or asked.asked.picks
    outcome.rerank_scores = ModelScores(rerank_scores, read, model="m")
    outcome.finish(plan, None)
    if plan.picking is not None:
        outcome.pick(plan.picking)
    return [*outcome.candidates]


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
            {"recipe": "reranked", "profile": "two"},
            {"a": 1.0, "b": 3.0},
            [("b", 1.0), ("a", 0.0), ("c", 0.0), ("d", -1.0)],
        ),
        ({"recipe": "reranked", "profile": "two"}, {"b": 3.0}, [("b", 1.0)]),
        ({"recipe": "reranked"}, {"d": 1.0}, [("d", 1.0)]),
    ],
)
def test_a_pick_moves_one_and_a_reranker_all(
    event: dict[str, Any], rerank_scores: Scores, expected: list[tuple[str, float]]
) -> None:
    """By hand: of a selection only the selected one moves, if it was among those that were read. What a reranker did
    not read follows, but what it left out is gone, and with it what it did not read.
    """
    assert scores(by_scores(query(**event), rerank_scores)) == expected


def test_the_weight_is_the_rerankers_say() -> None:
    """By hand, at 0.25: three quarters of the fused score, which min-max makes 1 and 0; a selection knows no weight."""
    merged = scores(by_scores(query(recipe="quarter", profile="two"), {"a": 0.0, "b": 1.0}))
    assert merged[:2] == [("a", 0.75), ("b", 0.25)]


@pytest.mark.parametrize(("event", "step"), [({}, "llm_rerank"), ({"recipe": "reranked"}, "rerank")])
def test_rerank_scores_are_explained(event: dict[str, Any], step: str) -> None:
    """The last step of a candidate that moved names the stage, and ends in the score."""
    asked = query(explain=True, **event)
    first = by_scores(asked, {"b": 1.0, "a": 0.0})[0]
    assert asked.outcome.run.explanations is not None
    told = asked.outcome.run.explanations.by_id["b"].stages[-1]
    assert (first.id, told["stage"], told["output"]) == ("b", step, first.score)


def test_a_group_is_explained_by_its_score_before_the_pick() -> None:
    """Its step is the one before the chat model's, whose input is the group's score."""
    asked = query(explain=True, group_by="parent")
    by_scores(asked, {"b": 1.0})
    assert asked.outcome.run.explanations is not None
    steps = asked.outcome.results.explain("b", asked.outcome.run.explanations.by_id["b"].stages)
    told = [(step["stage"], step["input"], step["output"]) for step in steps[-2:]]
    assert told == [("group", 0.75, 0.75), ("llm_rerank", 0.75, 0.9375)]
