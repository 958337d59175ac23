"""Fetch: the texts and payloads of the candidates that are still in, many queries' in one request."""

from collections.abc import Callable, Mapping, Sequence
from time import monotonic
from typing import Any, Final

from bytewax.dataflow import Stream, operator
from opentelemetry.trace import SpanKind

from operators.access import post_filter as post_filter
from operators.clients.qdrant.client import AllBut, QdrantClient
from operators.query.in_flight import InFlight
from operators.runtime.async_io import async_io
from operators.runtime.dispatcher import BatchKey, Bounds, Finished
from operators.runtime.event_loop import EventLoopThread
from operators.runtime.stage import Batch, Stage, stage
from schemas.document import TOKEN_IDS, WORDS
from schemas.errors import BackendError

Payloads = Mapping[str, Mapping[str, Any]]

_BATCH_KEY: Final = "fetch"
_FETCHED: Final = AllBut((TOKEN_IDS, *WORDS.values()))
"""Nobody reads which tokens and words a document has: Qdrant counts and matches them."""


def plan(depth: Callable[[InFlight], int]) -> Callable[[InFlight], dict[BatchKey, list[str]]]:
    """Ask for the first `depth` candidates of each query."""

    def asked(query: InFlight) -> dict[BatchKey, list[str]]:
        query.started = monotonic()
        ids = [candidate.id for candidate in query.outcome.candidates[: depth(query)]]
        return {(_BATCH_KEY, query.asked.collection): ids} if ids else {}

    return asked


def fetched(finished: Finished[InFlight, Payloads], depth: Callable[[InFlight], int]) -> InFlight:
    """Take over the payloads; a document deleted since the legs saw it is no candidate any more."""
    query = finished.item
    outcome = finished.outcomes.get((_BATCH_KEY, query.asked.collection))
    if outcome is None:
        return query
    error = None
    if isinstance(outcome, BackendError):
        error = outcome.reason
        query.lose("fetch", outcome.reason)
    else:
        first = depth(query)
        query.outcome.payloads = query.check_fetched(outcome)
        there = [candidate for candidate in query.outcome.candidates[:first] if candidate.id in query.outcome.payloads]
        query.outcome.candidates = there + query.outcome.candidates[first:]
    query.passed("fetch", len(query.outcome.candidates))
    attributes = {
        "db.system.name": "qdrant",
        "db.operation.name": "retrieve",
        "db.collection.name": query.asked.collection,
    }
    query.trace.child(
        f"retrieve {query.asked.collection}", query.started, attributes, error=error, kind=SpanKind.CLIENT
    )
    return query


@operator
def fetch(
    step_id: str,
    up: Stream[Batch],
    qdrant: QdrantClient,
    depth: Callable[[InFlight], int],
    calls: EventLoopThread,
    bounds: Bounds,
) -> Stage[InFlight]:
    """Queries in and on, with the payloads of their first `depth` candidates."""

    async def call(batch_key: BatchKey, wanted: Sequence[list[str]], timeout: float) -> list[Payloads]:
        assert isinstance(batch_key, tuple)
        ids = list(dict.fromkeys(id_ for ids in wanted for id_ in ids))
        payloads = await qdrant.retrieve(batch_key[1], ids, _FETCHED, timeout=timeout)
        return [{id_: payloads[id_] for id_ in ids if id_ in payloads} for ids in wanted]

    done = async_io("payloads", up, calls, plan(depth), call, lambda query: query.deadline, bounds)
    return stage("fetch", done, lambda done: done.item, lambda done: fetched(done, depth))
