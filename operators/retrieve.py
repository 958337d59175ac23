"""Retrieve: the legs of many queries, one batch request a leg and collection.

Only ids, scores and what ranking needs of the payload are asked for; `fetch` gets the rest for the survivors. A leg
that fails leaves the others; all that were asked lost: the query is answered as failed.
"""

import asyncio
from collections.abc import Mapping, Sequence
from time import monotonic
from typing import Any

from bytewax.dataflow import Stream, operator
from opentelemetry.trace import SpanKind, Tracer

from operators.async_io import async_io
from operators.clients.qdrant.answers import Hits
from operators.clients.qdrant.client import QdrantClient
from operators.dispatcher import Bounds, Finished, Lane
from operators.event_loop import EventLoopThread
from operators.inflight import InFlight
from operators.ranking.candidate import Leg
from operators.searches import MOST, Search, Searches, legs
from operators.stage import Batch, Stage, stage
from operators.telemetry import batch_span
from schemas.errors import BackendError, BackendTimeout, Reason
from schemas.leg import KEYWORD, LEGS, STRUCTURED
from schemas.result import LegStatus


def retrieved(finished: Finished[InFlight, Hits]) -> InFlight:
    """Take over what each leg answered; a query all of whose legs are lost is answered as failed."""
    query = finished.item
    wanted = legs(query)
    for name in LEGS:
        outcome = finished.outcomes.get((name, query.collection))
        if isinstance(outcome, BackendError):
            late = isinstance(outcome, BackendTimeout)
            query.legs[name] = Leg(name, LegStatus.TIMEOUT if late else LegStatus.FAILED, reason=outcome.reason)
            query.lose(name, outcome.reason)
        elif outcome is not None:
            query.legs[name] = Leg(name, LegStatus.OK, *outcome)
        elif name != STRUCTURED:
            query.legs[name] = Leg(name, LegStatus.SKIPPED, reason=_why_skipped(query, name, wanted))
    answered = any(leg.status is LegStatus.OK for leg in query.legs.values())
    if not answered and {"embed", *LEGS} & dict(query.degraded).keys():
        query.failed = query.answered = True
    elif not answered:
        query.warnings.append("nothing was asked: the query has nothing for a leg of its recipe and profile")
    if query.event.reflections_only and any(len(leg.ids) >= MOST for leg in query.legs.values()):
        query.warnings.append(f"there are more reflections than the {MOST} that were ranked")
    return query


def _why_skipped(query: InFlight, leg: str, wanted: Sequence[str]) -> Reason:
    if leg not in wanted:
        return Reason.RECIPE
    if leg == KEYWORD:
        return Reason.NO_TERMS
    if not query.plan.profile.semantic and query.event.vector is None:
        return Reason.PROFILE
    lost = dict(query.degraded)
    return lost.get("embed", Reason.NO_VECTOR)


class Retriever:
    """Carries many queries' searches of one leg to Qdrant."""

    def __init__(self, qdrant: QdrantClient, tracer: Tracer) -> None:
        self._qdrant = qdrant
        self._tracer = tracer

    async def __call__(self, lane: Lane, searches: Sequence[Search], timeout: float) -> Sequence[Hits | BackendError]:
        """One outcome a search, within `timeout` seconds."""
        assert isinstance(lane, tuple)
        leg, collection = lane
        started = monotonic()
        name = f"query {collection}"
        attributes = {
            "db.system.name": "qdrant",
            "db.operation.name": "scroll" if leg == STRUCTURED else "query",
            "db.collection.name": collection,
            "rankstream.leg": leg,
        }
        recording = [search for search in searches if search.trace.recording]
        link = None
        if recording:
            size = {"db.operation.batch.size": len(searches)}
            with batch_span(self._tracer, name, attributes | size) as span:
                outcomes = await self._ask(leg, collection, searches, timeout)
                link = span.get_span_context()
        else:
            outcomes = await self._ask(leg, collection, searches, timeout)
        for search, outcome in zip(searches, outcomes, strict=True):
            error = outcome.reason if isinstance(outcome, BackendError) else None
            search.trace.child(name, started, attributes, link=link, error=error, kind=SpanKind.CLIENT)
        return outcomes

    async def _ask(
        self, leg: str, collection: str, searches: Sequence[Search], timeout: float
    ) -> Sequence[Hits | BackendError]:
        if leg != STRUCTURED:
            return await self._qdrant.query_batch(collection, [search.body for search in searches], timeout=timeout)
        # Qdrant has no batch of ordered lookups.
        return await asyncio.gather(*(self._look_up(collection, search.body, timeout) for search in searches))

    async def _look_up(self, collection: str, body: Mapping[str, Any], timeout: float) -> Hits | BackendError:
        try:
            page = await self._qdrant.scroll(
                collection,
                body["filter"],
                limit=body["limit"],
                fields=body["with_payload"],
                order_by=body["order_by"],
                timeout=timeout,
            )
        except BackendError as error:
            return error
        records = page.records
        return Hits([each.id for each in records], [0.0] * len(records), [each.payload for each in records])


@operator
def retrieve(
    step_id: str,
    up: Stream[Batch],
    qdrant: QdrantClient,
    searches: Searches,
    tracer: Tracer,
    calls: EventLoopThread,
    bounds: Bounds,
) -> Stage[InFlight]:
    """Queries in; on with what their legs found, answered if every leg is lost."""
    found = async_io("legs", up, calls, searches, Retriever(qdrant, tracer), lambda query: query.deadline, bounds)
    return stage("retrieve", found, lambda done: done.item.message, retrieved)
