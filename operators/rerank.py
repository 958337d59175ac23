"""Rerank: query and candidate read together, many queries' candidates in one call where the reranker can."""

from collections.abc import Callable, Mapping, Sequence
from time import monotonic
from typing import Final

from bytewax.dataflow import Stream, operator
from opentelemetry.trace import SpanKind

from operators.async_io import async_io
from operators.clients.rerankers import Reads, Reranker, RerankRequest, Scores
from operators.dispatcher import Bounds, Finished, Lane
from operators.event_loop import EventLoopThread
from operators.inflight import InFlight
from operators.ranking.relevance import merge
from operators.stage import Batch, Stage, stage
from schemas.errors import BackendError, Reason

_LANE: Final = "rerank"


def wanted(query: InFlight) -> bool:
    """Whether there is something to rerank, and the query wants it."""
    return query.event.rerank and query.text is not None and bool(query.candidates)


def missing(query: InFlight, reads: Reads) -> Reason | None:
    """Why the reranker can't read this query or its candidates, if it can't."""
    lost = dict(query.degraded)
    return lost.get("embed") if reads == "tokens" and query.embedding is None else lost.get("fetch")


def plan(top: int, reads: Reads) -> Callable[[InFlight], Mapping[Lane, RerankRequest]]:
    """Ask for the first `top` candidates of each query that wants it and has what the reranker reads."""

    def asked(query: InFlight) -> Mapping[Lane, RerankRequest]:
        query.started = monotonic()
        if not wanted(query) or missing(query, reads) or (reads == "tokens" and query.embedding is None):
            return {}
        assert query.text is not None
        documents = {
            candidate.id: str(query.payloads.get(candidate.id, {}).get("text") or "")
            for candidate in query.candidates[:top]
        }
        return {_LANE: RerankRequest(query.text, documents, query.collection, query.embedding)}

    return asked


def reranked(finished: Finished[InFlight, Scores], top: int, weight: float, reranker: Reranker) -> InFlight:
    """Merge the scores into the order, or note why the fused order stands."""
    query, outcome = finished.item, finished.outcomes.get(_LANE)
    if outcome is None:
        if wanted(query) and (reason := missing(query, reranker.reads)):
            query.lose("rerank", reason)
        return query
    error = None
    if isinstance(outcome, BackendError):
        error = outcome.reason
        query.lose("rerank", error)
    else:
        query.candidates = merge(query.candidates, outcome, top, weight)
        query.reranked = True
    attributes = {"gen_ai.operation.name": "rerank", "gen_ai.request.model": reranker.model}
    query.trace.child("rerank", query.started, attributes, error=error, kind=SpanKind.CLIENT)
    return query


@operator
def rerank(
    step_id: str,
    up: Stream[Batch],
    reranker: Reranker | None,
    top: int,
    weight: float,
    calls: EventLoopThread,
    bounds: Bounds,
) -> Stage[InFlight]:
    """Queries in and on, reranked; a lost reranker leaves the fused order and is noted in the query."""
    if reranker is None:
        return stage("rerank", up, lambda query: query.message, lambda query: query)

    async def call(_: Lane, requests: Sequence[RerankRequest], timeout: float) -> list[Scores | BackendError]:
        return await reranker.rerank(requests, timeout=timeout)

    done = async_io("reranker", up, calls, plan(top, reranker.reads), call, lambda query: query.deadline, bounds)
    return stage(
        "rerank",
        done,
        lambda done: done.item.message,
        lambda done: reranked(done, top, weight, reranker),
    )
