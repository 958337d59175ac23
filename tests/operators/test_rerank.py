"""Rerank: what is asked, and what an answer or its absence does to a query."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from operators.clients.embedders import Embedding
from operators.clients.rerankers import Reads, RerankRequest, Scores
from operators.dispatcher import Finished
from operators.inflight import InFlight
from operators.ranking.candidate import Candidate
from operators.rerank import Rerankers, plan, reranked
from schemas.errors import BackendError, BackendTimeout, Reason
from schemas.settings import Profile
from tests.operators.samples import query

TOKENS = Embedding(np.ones(3, np.float32), np.ones((2, 3), np.float32), (5, 6))


class Scripted:
    """A reranker by name and by what it reads."""

    def __init__(self, reads: Reads) -> None:
        self.model = "scripted"
        self.reads: Reads = reads

    async def rerank(self, requests: Sequence[RerankRequest], *, timeout: float) -> list[Scores | BackendError]:
        """Nobody asks."""
        raise AssertionError

    async def aclose(self) -> None:
        """Nothing to release."""


def fetched(**event: Any) -> InFlight:
    """A query with candidates a, b, c, their texts, and an embedding."""
    asked = query(**event)
    asked.candidates = [Candidate(name, 1 - index / 10) for index, name in enumerate("abc")]
    asked.payloads = {name: {"text": f"text {name}"} for name in "abc"}
    asked.embedding = TOKENS
    return asked


def after(asked: InFlight, outcomes: Mapping[Any, Any], reads: Reads = "text") -> InFlight:
    """The query once the reranker's outcome is there."""
    return reranked(Finished(asked, outcomes), by(reads))


def by(reads: Reads) -> Rerankers:
    """Such a reranker for every query."""
    return Rerankers(Scripted(reads), None, 1.0)


def test_the_first_candidates_are_asked_with_their_texts() -> None:
    """The request holds the profile's first candidates in order, each with its text."""
    asked = fetched()
    asked.plan = replace(asked.plan, profile=Profile(rerank_top=2))
    (request,) = plan(by("text"))(asked).values()
    assert dict(request.documents) == {"a": "text a", "b": "text b"}
    assert request.query == "some text"


@pytest.mark.parametrize("reads", ["text", "tokens"])
def test_nobody_is_asked_without_need(reads: Reads) -> None:
    """`rerank: false`, profile `fast`, reflections alone, no text, or no candidate: no call, nothing is lost by it."""
    textless, empty = fetched(text=None, vector=[1.0, 0.0, 0.0]), fetched()
    empty.candidates = []
    unwanted = [fetched(rerank=False), fetched(profile="fast"), fetched(reflections_only=True)]
    for asked in (*unwanted, textless, empty):
        assert plan(by(reads))(asked) == {}
        assert after(asked, {}, reads).degraded == []
        assert not asked.reranked


@pytest.mark.parametrize(("reads", "stage"), [("tokens", "embed"), ("text", "fetch")])
def test_what_it_reads_is_lost_with_its_reason(reads: Reads, stage: str) -> None:
    """Without the vectors or the texts that it reads it isn't asked, and the answer names the first cause."""
    asked = fetched()
    asked.lose(stage, Reason.TIMEOUT)
    if stage == "embed":
        asked.embedding = None
    assert plan(by(reads))(asked) == {}
    assert after(asked, {}, reads).degraded == [(stage, Reason.TIMEOUT), ("rerank", Reason.TIMEOUT)]


def test_a_lost_embedding_is_nothing_to_who_reads_texts() -> None:
    """A cross-encoder ranks what the keyword leg found."""
    asked = fetched()
    asked.lose("embed", Reason.UNAVAILABLE)
    asked.embedding = None
    assert plan(by("text"))(asked)


def test_a_failure_leaves_the_fused_order() -> None:
    """A failed reranker changes neither order nor scores, and is noted."""
    asked = fetched()
    before = [(candidate.id, candidate.score) for candidate in asked.candidates]
    after(asked, {"rerank": BackendTimeout("late")})
    assert [(candidate.id, candidate.score) for candidate in asked.candidates] == before
    assert asked.degraded == [("rerank", Reason.TIMEOUT)]
    assert not asked.reranked


def test_a_verdict_reorders() -> None:
    """Scores put the best first; who is left out is gone."""
    asked = after(fetched(), {"rerank": {"a": 0.1, "c": 0.9}})
    assert [candidate.id for candidate in asked.candidates] == ["c", "a"]
    assert asked.reranked
