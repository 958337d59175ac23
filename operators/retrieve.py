"""Retrieve: the vector leg and the keyword leg of many queries, one batch request a leg and collection.

Only ids, scores and what ranking needs of the payload are asked for; `fetch` gets the rest for the survivors. A leg
that fails leaves the other; both lost: the query is answered as failed.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from time import monotonic
from typing import Any, Final

from bytewax.dataflow import Stream, operator
from opentelemetry.trace import SpanKind, Tracer

from operators.async_io import async_io
from operators.clients.qdrant.answers import Hits
from operators.clients.qdrant.client import QdrantClient
from operators.dispatcher import Bounds, Finished, Lane
from operators.event_loop import EventLoopThread
from operators.inflight import InFlight
from operators.ranking.candidate import CONTENT, KEYWORD, VECTOR, Leg
from operators.stage import Batch, Stage, stage
from operators.telemetry import QueryTrace, batch_span
from schemas.errors import BackendError, BackendTimeout, Reason
from schemas.result import LegStatus
from schemas.settings import QdrantSettings

NAMESPACE: Final = "namespace"
"""The payload key of a document's tenant."""

LEGS: Final = (VECTOR, KEYWORD)


@dataclass(frozen=True, slots=True)
class Search:
    """One query's request to one leg, and where to record it."""

    body: Mapping[str, Any]
    trace: QueryTrace


@dataclass(frozen=True, slots=True)
class Searches:
    """What each leg is asked for a query."""

    dense: str
    sparse: str
    idf_of_namespace: bool
    over_sample: int

    @classmethod
    def of(cls, settings: QdrantSettings, over_sample: int) -> "Searches":
        """The requests that the settings ask for."""
        return cls(settings.vectors.dense, settings.vectors.sparse, settings.idf == "namespace", over_sample)

    def __call__(self, query: InFlight) -> dict[Lane, Search]:
        """The query's requests by (leg, collection); a leg that it has nothing for is left out."""
        query.started = monotonic()
        tenant = {"must": [{"key": NAMESPACE, "match": {"value": query.namespace}}]}
        common = {
            "filter": tenant,
            "limit": max(query.event.page_size, self.over_sample),
            "with_payload": [CONTENT],
        }
        searches: dict[Lane, Search] = {}
        vector = vector_of(query)
        if vector is not None:
            body = {"query": vector, "using": self.dense, **common}
            searches[VECTOR, query.collection] = Search(body, query.trace)
        if query.terms is not None:
            body = {
                "query": {"indices": query.terms.indices, "values": query.terms.values},
                "using": self.sparse,
                **common,
            }
            if self.idf_of_namespace:
                body["params"] = {"idf": {"corpus": tenant}}
            searches[KEYWORD, query.collection] = Search(body, query.trace)
        return searches


def vector_of(query: InFlight) -> Any:
    """The query's vector, its own before the embedder's; None without one, and for a zero vector."""
    if query.event.vector is not None:
        return query.event.vector if any(query.event.vector) else None
    return query.embedding.vector if query.embedding is not None else None


def retrieved(finished: Finished[InFlight, Hits]) -> InFlight:
    """Take over what each leg answered; a query all of whose legs are lost is answered as failed."""
    query = finished.item
    for name in LEGS:
        outcome = finished.outcomes.get((name, query.collection))
        if isinstance(outcome, BackendError):
            late = isinstance(outcome, BackendTimeout)
            query.legs[name] = Leg(name, LegStatus.TIMEOUT if late else LegStatus.FAILED, reason=outcome.reason)
            query.lose(name, outcome.reason)
        elif outcome is not None:
            query.legs[name] = Leg(name, LegStatus.OK, *outcome)
        else:
            query.legs[name] = Leg(name, LegStatus.SKIPPED, reason=_why_skipped(query, name))
    asked = any(leg.status is LegStatus.OK for leg in query.legs.values())
    if query.degraded and not asked:
        query.failed = query.answered = True
    return query


def _why_skipped(query: InFlight, leg: str) -> Reason:
    if leg == KEYWORD:
        return Reason.NO_TERMS
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
            "db.operation.name": "query",
            "db.collection.name": collection,
            "rankstream.leg": leg,
        }
        recording = [search for search in searches if search.trace.recording]
        link = None
        if recording:
            size = {"db.operation.batch.size": len(searches)}
            with batch_span(self._tracer, name, attributes | size) as span:
                outcomes = await self._qdrant.query_batch(collection, [s.body for s in searches], timeout=timeout)
                link = span.get_span_context()
        else:
            outcomes = await self._qdrant.query_batch(collection, [s.body for s in searches], timeout=timeout)
        for search, outcome in zip(searches, outcomes, strict=True):
            error = outcome.reason if isinstance(outcome, BackendError) else None
            search.trace.child(name, started, attributes, link=link, error=error, kind=SpanKind.CLIENT)
        return outcomes


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
