"""Embed: the texts of many queries become vectors in one request."""

from collections.abc import Callable, Mapping, Sequence
from time import monotonic

from bytewax.dataflow import Stream, operator
from opentelemetry.trace import SpanKind

from operators.async_io import async_io
from operators.clients.embedders import Embedder, Embedding
from operators.dispatcher import Bounds, Finished, Lane
from operators.event_loop import EventLoopThread
from operators.inflight import InFlight
from operators.stage import Batch, Stage, stage
from schemas.errors import BackendBadResponse, BackendError, Reason
from schemas.leg import VECTOR

_LANE = "embed"


def wanted(query: InFlight, tokens: bool) -> bool:
    """Whether the query has a text and no vector, and its plan, or a reranker that reads `tokens`, a use for one."""
    if query.event.vector is not None or query.text is None or not query.plan.profile.semantic:
        return False
    searched = query.event.reflections_only or VECTOR in query.plan.recipe.fusion.legs
    read = query.plan.recipe.picking is None and query.plan.reranks(query.event) > 0
    return searched or (tokens and read)


def plan(tokens: bool) -> Callable[[InFlight], Mapping[Lane, str]]:
    """Ask for each query's embedding that is wanted."""

    def asked(query: InFlight) -> Mapping[Lane, str]:
        query.started = monotonic()
        return {_LANE: query.text} if query.text is not None and wanted(query, tokens) else {}

    return asked


def embedded(finished: Finished[InFlight, Embedding], dimension: int, model: str) -> InFlight:
    """Take over the vector, or note that and why there is none."""
    query, outcome = finished.item, finished.outcomes.get(_LANE)
    if outcome is None:
        return query
    if isinstance(outcome, Embedding) and len(outcome.vector) != dimension:
        outcome = BackendBadResponse(f"embedder: {len(outcome.vector)} dimensions, expected {dimension}")
    error = None
    if isinstance(outcome, BackendError):
        error = outcome.reason
        query.lose("embed", outcome.reason)
    else:
        query.embedding = outcome
    attributes = {"gen_ai.operation.name": "embeddings", "gen_ai.request.model": model}
    query.trace.child("embed", query.started, attributes, error=error, kind=SpanKind.CLIENT)
    return query


def unembedded(query: InFlight, tokens: bool) -> InFlight:
    """Note that nobody embeds here, if the query needs it."""
    if wanted(query, tokens):
        query.lose("embed", Reason.NO_EMBEDDER)
    return query


@operator
def embed(
    step_id: str,
    up: Stream[Batch],
    embedder: Embedder | None,
    dimension: int,
    tokens: bool,
    calls: EventLoopThread,
    bounds: Bounds,
) -> Stage[InFlight]:
    """Queries in and on, with their vectors; a lost embedder is noted in the query.

    `tokens`: whether a reranker reads them.
    """
    if embedder is None:
        return stage("embed", up, lambda query: query.message, lambda query: unembedded(query, tokens))

    async def call(_: Lane, texts: Sequence[str], timeout: float) -> list[Embedding]:
        return await embedder.embed(texts, timeout=timeout)

    finished = async_io("embedder", up, calls, plan(tokens), call, lambda query: query.deadline, bounds)
    return stage(
        "embed", finished, lambda done: done.item.message, lambda done: embedded(done, dimension, embedder.model)
    )
