"""Reranking in part: what becomes of a query of which the reranker has read the first candidates alone."""

import pytest

from operators.clients.model_caches import ScoreCache, VerdictCache
from operators.query.backend_answers import PartialScores, Scores
from operators.query.result import result, status_of
from schemas.errors import BackendTimeout, DeadlinePassed, Reason
from schemas.result import Status
from tests.operators.stages.test_rerank import after, by, fetched, requested


def partly(scores: Scores, unread: str) -> PartialScores:
    """Scores of the candidates before `unread`, for time was short."""
    return PartialScores(scores, unread, DeadlinePassed("late"))


def test_a_part_is_used() -> None:
    """The candidates that the model has read go first, in its order; the others follow, and the answer says so."""
    asked = after(fetched(explain=True), {"rerank": partly({"a": 0.1, "b": 0.9}, "c")})
    assert [candidate.id for candidate in asked.outcome.candidates] == ["b", "a", "c"]
    assert asked.outcome.degraded == [("rerank", Reason.DEADLINE)]
    assert status_of(asked.asked, asked.outcome) is Status.PARTIAL
    event = result(asked.asked, asked.outcome, "id", [], {})
    assert (event["reranked_candidates"], event["reranked"]) == (2, True)


def test_an_answer_says_how_many_candidates_were_read() -> None:
    """Those that have a score; none if the reranker was lost or not asked."""
    for outcomes, read in (
        ({"rerank": {"a": 0.1, "b": 0.9, "c": 0.2}}, 3),
        ({"rerank": {"a": 0.1, "b": 0.9}}, 2),
        ({"rerank": BackendTimeout("late")}, None),
        ({}, None),
    ):
        asked = after(fetched(), outcomes)
        assert result(asked.asked, asked.outcome, "id", [], {}).get("reranked_candidates") == read


@pytest.mark.parametrize("part", [partly({"a": 0.1}, "b"), partly({"c": 0.5}, "a"), partly({}, "c")])
def test_too_little_is_as_good_as_nothing(part: PartialScores) -> None:
    """One candidate, one behind another that was not read, or no score at all: the query is unranked."""
    asked = after(fetched(), {"rerank": part})
    assert [candidate.id for candidate in asked.outcome.candidates] == ["a", "b", "c"]
    assert (asked.outcome.rerank_scores, asked.outcome.run.reranked) == (None, False)
    assert status_of(asked.asked, asked.outcome) is Status.UNRANKED


def test_a_known_score_behind_a_gap_is_not_used() -> None:
    """The candidates that count are the first ones without a gap, whatever a cache knows of later ones."""
    asked = after(fetched(), {"rerank": partly({"a": 0.1, "b": 0.2, "d": 9.0}, "c")})
    assert asked.outcome.rerank_scores is not None
    assert dict(asked.outcome.rerank_scores.scores) == {"a": 0.1, "b": 0.2}


def test_a_part_is_not_kept_as_a_verdict() -> None:
    """A candidate that was not read is asked for again: it was not left out."""
    reranking = by(cache=ScoreCache(100), verdicts=VerdictCache(100))
    reranking.on_result(fetched(), partly({"a": 0.5, "b": 0.25}, "c"))
    assert len(requested(reranking, fetched()).documents) == 3
