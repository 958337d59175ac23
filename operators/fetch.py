"""Fetch: the texts and payloads of the candidates that are still in, many queries' in one request."""

from collections.abc import Callable, Mapping, Sequence
from time import monotonic
from typing import Any, Final

from bytewax.dataflow import Stream, operator
from opentelemetry.trace import SpanKind

from operators import tripwire
from operators.async_io import async_io
from operators.clients.qdrant.client import AllBut, QdrantClient
from operators.dispatcher import Bounds, Finished, Lane
from operators.event_loop import EventLoopThread
from operators.inflight import InFlight
from operators.stage import Batch, Stage, stage
from schemas.document import PIECES, WORDS
from schemas.errors import BackendError

Payloads = Mapping[str, Mapping[str, Any]]

_LANE: Final = "fetch"
_FETCHED: Final = AllBut((PIECES, *WORDS.values()))
"""Nobody reads which tokens and words a document has: Qdrant counts and matches them."""


def plan(depth: Callable[[InFlight], int]) -> Callable[[InFlight], dict[Lane, list[str]]]:
    """Ask for the first `depth` candidates of each query."""

    def asked(query: InFlight) -> dict[Lane, list[str]]:
        query.started = monotonic()
        ids = [candidate.id for candidate in query.candidates[: depth(query)]]
        return {(_LANE, query.collection): ids} if ids else {}

    return asked


def fetched(finished: Finished[InFlight, Payloads], depth: Callable[[InFlight], int]) -> InFlight:
    """Take over the payloads; a document deleted since the legs saw it is no candidate any more."""
    query = finished.item
    outcome = finished.outcomes.get((_LANE, query.collection))
    if outcome is None:
        return query
    error = None
    if isinstance(outcome, BackendError):
        error = outcome.reason
        query.lose("fetch", outcome.reason)
    else:
        first = depth(query)
        query.payloads = tripwire.fetched(query, outcome)
        there = [candidate for candidate in query.candidates[:first] if candidate.id in query.payloads]
        query.candidates = there + query.candidates[first:]
    query.passed("fetch", len(query.candidates))
    attributes = {
        "db.system.name": "qdrant",
        "db.operation.name": "retrieve",
        "db.collection.name": query.collection,
    }
    query.trace.child(f"retrieve {query.collection}", query.started, attributes, error=error, kind=SpanKind.CLIENT)
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

    async def call(lane: Lane, wanted: Sequence[list[str]], timeout: float) -> list[Payloads]:
        assert isinstance(lane, tuple)
        ids = list(dict.fromkeys(id_ for ids in wanted for id_ in ids))
        payloads = await qdrant.retrieve(lane[1], ids, _FETCHED, timeout=timeout)
        return [{id_: payloads[id_] for id_ in ids if id_ in payloads} for ids in wanted]

    done = async_io("payloads", up, calls, plan(depth), call, lambda query: query.deadline, bounds)
    return stage("fetch", done, lambda done: done.item, lambda done: fetched(done, depth))
