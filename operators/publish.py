"""Publish: every query and every dead letter becomes its one terminal record."""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import orjson
from bytewax import operators as op
from bytewax.dataflow import Stream, operator
from opentelemetry.trace import Tracer

from operators.delivery.dead_letters import dead_letter
from operators.fuse import RECIPE
from operators.inflight import InFlight, Origin, Rejected, Terminal
from operators.ranking.candidate import Candidate
from operators.stage import Batch, defect
from operators.telemetry import Attributes, QueryTrace
from schemas.errors import Reason
from schemas.result import LegStatus, Status
from schemas.timestamp import rfc3339


def result_id(origin: Origin) -> str:
    """The result's identity: a hash of the query's place in Kafka, so that it is the same on re-delivery."""
    place = f"{origin.topic}\n{origin.partition}\n{origin.offset}"
    return hashlib.blake2b(place.encode(), digest_size=16).hexdigest()


def status_of(query: InFlight) -> Status:
    """What became of the query: of several that apply, the first of expired, failed, partial, unranked, ok."""
    if query.expired:
        return Status.EXPIRED
    if query.failed:
        return Status.FAILED
    stages = {stage for stage, _ in query.degraded}
    if stages - {"rerank"}:
        return Status.PARTIAL
    return Status.UNRANKED if stages else Status.OK


@dataclass(frozen=True, slots=True)
class Publisher:
    """Writes result events; the configuration's part in them is the same for every query."""

    topic: str
    dead_letters: str
    max_bytes: int
    config_hash: str
    embedder: str | None
    reranker: str | None

    def result(self, query: InFlight) -> Terminal:
        """The result record; one that is over `max_bytes` loses its texts and payloads, and says so."""
        status = status_of(query)
        value = orjson.dumps(self._event(query, status, whole=True))
        if len(value) > self.max_bytes:
            query.lose("result", Reason.TOO_LARGE)
            status = status_of(query)
            value = orjson.dumps(self._event(query, status, whole=False))
        message = query.message
        headers = query.trace.send(self.topic, status)
        return Terminal(message.origin, self.topic, message.key, value, headers, query.trace)

    def _event(self, query: InFlight, status: Status, *, whole: bool) -> dict[str, Any]:
        origin = query.message.origin
        lost = dict(query.degraded)
        known = query.candidates
        if "fetch" not in lost:
            # A candidate behind the fetched ones has no text: it is on a further page.
            known = [candidate for candidate in known if candidate.id in query.payloads]
        page = known[: query.event.page_size]
        places = {leg.name: leg.places() for leg in query.legs.values()}
        return {
            "schema_version": 1,
            "query_id": query.event.query_id,
            "result_id": result_id(origin),
            "status": status,
            "results": [
                _hit(rank, candidate, places, query.payloads.get(candidate.id, {}), whole)
                for rank, candidate in enumerate(page, 1)
            ],
            "total": len(query.candidates),
            "has_more": len(query.candidates) > len(page),
            "backends_used": [leg.name for leg in query.legs.values() if leg.status is LegStatus.OK],
            "reranked": query.reranked,
            "semantic_unavailable": "embed" in lost or "vector" in lost,
            "legs": [
                {"name": leg.name, "status": leg.status, "reason": leg.reason, "candidates": len(leg.ids)}
                for leg in query.legs.values()
            ],
            "degraded": [{"stage": stage, "reason": reason} for stage, reason in query.degraded],
            "warnings": query.warnings,
            "provenance": {
                "config_hash": self.config_hash,
                "recipe": RECIPE,
                "models": {"embedder": self.embedder, "reranker": self.reranker if query.reranked else None},
                "now": rfc3339(query.now),
                "source": {"topic": origin.topic, "partition": origin.partition, "offset": origin.offset},
            },
            "metadata": query.event.metadata,
        }


def _hit(
    rank: int,
    candidate: Candidate,
    places: Mapping[str, Mapping[str, tuple[int, float]]],
    fields: Mapping[str, Any],
    whole: bool,
) -> dict[str, Any]:
    id_ = candidate.id
    # Other tools' collections may hold anything under these names: it stays in the payload.
    own = {name: value for name in _OWN_PLACE if isinstance(value := fields.get(name), str)}
    return {
        "id": own.get("id", id_),
        "rank": rank,
        "score": candidate.score,
        "text": own.get("text") if whole else None,
        "payload": {name: value for name, value in fields.items() if name not in own and not name.startswith("_")}
        if whole
        else {},
        "legs": {name: {"rank": of[id_][0], "score": of[id_][1]} for name, of in places.items() if id_ in of},
    }


_OWN_PLACE = ("id", "text")


def undeliverable(rejected: Rejected, topic: str, tracer: Tracer) -> Terminal:
    """The dead letter of a message, as a part of its trace."""
    message = rejected.message
    origin = message.origin
    attributes: Attributes = {
        "messaging.destination.partition.id": str(origin.partition),
        "messaging.kafka.offset": origin.offset,
    }
    trace = QueryTrace(tracer, message.headers, origin.topic, message.received, attributes)
    trace.rejected(rejected.kind)
    letter = dead_letter(rejected, topic, trace.trace_id)
    trace.send(topic, "dead_letter")
    return Terminal(
        letter.origin, topic, letter.key, letter.value, letter.headers, trace, timestamp_ms=letter.timestamp_ms
    )


@operator
def publish(
    step_id: str, answered: Stream[Batch], dead: Stream[list[Rejected]], publisher: Publisher, tracer: Tracer
) -> Stream[list[Terminal]]:
    """Queries and dead letters in, their terminal records out; an answer that can't be written is a dead letter."""

    def written(query: InFlight) -> Terminal:
        try:
            return publisher.result(query)
        except Exception as error:  # noqa: BLE001  reported and accounted for
            rejected = defect("publish", query.message, error)
            return undeliverable(rejected, publisher.dead_letters, tracer)

    results = op.map("results", answered, lambda batch: [written(query) for query in batch])
    letters = op.map(
        "dead_letters",
        dead,
        lambda batch: [undeliverable(rejected, publisher.dead_letters, tracer) for rejected in batch],
    )
    return op.merge("terminals", results, letters)
