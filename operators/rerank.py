"""Rerank: query and candidate read together, many queries' candidates in one call where the reranker can."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from time import monotonic
from typing import Final

from bytewax.dataflow import Stream, operator
from opentelemetry.trace import SpanKind

from operators.async_io import async_io
from operators.clients.rerankers import Reads, Reranker, RerankRequest, Scores, Verdict
from operators.dispatcher import Bounds, Finished, Lane
from operators.event_loop import EventLoopThread
from operators.inflight import InFlight
from operators.ranking.candidate import Candidate
from operators.ranking.distance import pick
from operators.ranking.relevance import merge
from operators.result import Answered
from operators.stage import Batch, Stage, stage
from schemas.errors import BackendError, Reason

_LANE: Final = "rerank"
_PICK: Final = "pick"


@dataclass(frozen=True, slots=True)
class Rerankers:
    """Who reranks: the reranker of every query, and the chat model of recipes that have it pick. Either may be none.

    `timeout` is the reranker's, in seconds; the stage's bounds are those of whoever takes longer.
    """

    reranker: Reranker | None
    picker: Reranker | None
    weight: float
    timeout: float = math.inf

    def of(self, query: InFlight) -> Reranker | None:
        """The one that this query's candidates go to, if it wants any."""
        if query.text is None or not query.candidates or not query.plan.reranks(query.event):
            return None
        return self.picker if query.plan.recipe.picking is not None else self.reranker

    @property
    def reads_tokens(self) -> bool:
        """Whether a reranker needs the query's token vectors."""
        return self.reranker is not None and self.reranker.reads == "tokens"

    def depth(self, query: InFlight) -> int:
        """How many candidates must be fetched for it."""
        wanted = self.reranker if query.plan.recipe.picking is None else self.picker
        return query.plan.reranks(query.event) if wanted is not None else 0

    async def aclose(self) -> None:
        """Release connections."""
        for each in (self.reranker, self.picker):
            if each is not None:
                await each.aclose()


def missing(query: InFlight, reads: Reads) -> Reason | None:
    """Why the reranker can't read this query or its candidates, if it can't."""
    lost = dict(query.degraded)
    return lost.get("embed") if reads == "tokens" and query.embedding is None else lost.get("fetch")


def plan(rerankers: Rerankers) -> Callable[[InFlight], Mapping[Lane, RerankRequest]]:
    """Ask for the first candidates of each query that wants it and has what its reranker reads."""

    def asked(query: InFlight) -> Mapping[Lane, RerankRequest]:
        query.started = monotonic()
        reranker = rerankers.of(query)
        if reranker is None or missing(query, reranker.reads):
            return {}
        if reranker.reads == "tokens" and query.embedding is None:
            return {}
        assert query.text is not None
        documents = {
            candidate.id: str(query.payloads.get(candidate.id, {}).get("text") or "")
            for candidate in query.candidates[: query.plan.reranks(query.event)]
        }
        lane = _PICK if reranker is rerankers.picker else _LANE
        return {lane: RerankRequest(query.text, documents, query.collection, query.embedding)}

    return asked


def reranked(finished: Finished[InFlight, Scores], rerankers: Rerankers) -> InFlight:
    """Merge the scores into the order, or note why the fused order stands."""
    query = finished.item
    reranker = rerankers.of(query)
    outcome = next(iter(finished.outcomes.values()), None)
    if reranker is None:
        return query
    if outcome is None:
        if reason := missing(query, reranker.reads):
            query.lose("rerank", reason)
        return query
    error = None
    if isinstance(outcome, BackendError):
        error = outcome.reason
        query.lose("rerank", error)
    else:
        query.verdict = Verdict(reranker.model, outcome)
        query.candidates = judged(query, query.candidates, outcome, query.plan.reranks(query.event), rerankers.weight)
        query.reranked = True
    attributes = {"gen_ai.operation.name": "rerank", "gen_ai.request.model": reranker.model}
    query.trace.child("rerank", query.started, attributes, error=error, kind=SpanKind.CLIENT)
    return query


def judged(
    query: Answered, candidates: Sequence[Candidate], scores: Scores, top: int, weight: float
) -> list[Candidate]:
    """The candidates in the order that the scores of their first `top` give them; a chat model's pick moves one."""
    trail = query.ranked.trail if query.ranked is not None else None
    stage = query.plan.recipe.picking
    if stage is None:
        return merge(candidates, scores, top, weight, trail)
    read = [candidate.id for candidate in candidates[:top] if candidate.id in scores]
    return pick(candidates, max(read, key=scores.__getitem__), stage, trail) if read else list(candidates)


@operator
def rerank(
    step_id: str, up: Stream[Batch], rerankers: Rerankers, calls: EventLoopThread, bounds: Bounds
) -> Stage[InFlight]:
    """Queries in and on, reranked; a lost reranker leaves the fused order and is noted in the query."""
    if rerankers.reranker is None and rerankers.picker is None:
        return stage("rerank", up, lambda query: query.message, lambda query: query)

    async def call(lane: Lane, requests: Sequence[RerankRequest], timeout: float) -> list[Scores | BackendError]:
        if lane == _PICK:
            assert rerankers.picker is not None
            return await rerankers.picker.rerank(requests, timeout=timeout)
        assert rerankers.reranker is not None
        return await rerankers.reranker.rerank(requests, timeout=min(timeout, rerankers.timeout))

    done = async_io("reranker", up, calls, plan(rerankers), call, lambda query: query.deadline, bounds)
    return stage("rerank", done, lambda done: done.item.message, lambda done: reranked(done, rerankers))
