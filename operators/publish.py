"""Publish: every query and every dead letter becomes its one terminal record.

A record that is too large for its topic loses first the texts and payloads of its results, then results from the end,
and says so. What would be too large even then is a dead letter without payload.
"""

import hashlib
from bisect import bisect_left
from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import islice
from types import MappingProxyType
from typing import Any

import orjson
from bytewax import operators as op
from bytewax.dataflow import Stream, operator
from opentelemetry.trace import Tracer

from operators import cloud_event
from operators.delivery.dead_letters import dead_letter, without_payload
from operators.delivery.record_size import record_size
from operators.fuse import RECIPE
from operators.inflight import Headers, InFlight, Origin, Rejected, Terminal
from operators.ranking.candidate import Candidate
from operators.stage import Batch, defect
from operators.telemetry import Attributes, QueryTrace
from schemas.errors import DeadLetterClass, Reason
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
    if not query.degraded:
        return Status.OK
    return Status.UNRANKED if all(stage == "rerank" for stage, _ in query.degraded) else Status.PARTIAL


@dataclass(frozen=True, slots=True)
class Publisher:
    """Writes terminal records; the configuration's part in them is the same for every query.

    `max_bytes` is what each topic takes of one record; a topic that isn't there takes what its broker says. `source` is
    that of the results that are CloudEvents.
    """

    topic: str
    dead_letters: str
    max_bytes: Mapping[str, int]
    source: str
    config_hash: str
    embedder: str | None
    reranker: str | None

    def result(self, query: InFlight) -> Terminal:
        """The query's record, for the topic that it chose, in the kind of event that it came as."""
        topic = query.event.reply_to or self.topic
        trace = query.trace.send(topic, status_of(query))
        record = self._record(query, topic, trace)
        return record if fits(record, self.max_bytes) else self._shortened(query, topic, trace)

    def _shortened(self, query: InFlight, topic: str, trace: Headers) -> Terminal:
        query.lose("result", Reason.TOO_LARGE)

        def record(left_out: int) -> Terminal:
            return self._record(query, topic, trace, whole=False, left_out=left_out)

        results = len(_page(query))
        left_out = bisect_left(range(results + 1), True, key=lambda count: fits(record(count), self.max_bytes))
        if left_out > results:
            query.trace.send(self.dead_letters, "dead_letter")
            query.trace.rejected(DeadLetterClass.TOO_LARGE)
            return replace(without_payload(record(results), self.dead_letters), trace=query.trace)
        query.trace.send(topic, status_of(query))
        return record(left_out)

    def _record(
        self, query: InFlight, topic: str, trace: Headers, *, whole: bool = True, left_out: int = 0
    ) -> Terminal:
        event = self._event(query, whole, left_out)
        message, envelope = query.message, query.envelope
        if envelope is None:
            return Terminal(message.origin, topic, message.key, orjson.dumps(event), trace, query.trace)
        # The time of receiving is another one when the query is read again.
        time = event["provenance"]["now"] if query.event.now is not None or message.timestamp >= 0 else None
        attributes = cloud_event.result_attributes(
            envelope, event["result_id"], self.source, event["query_id"], time, trace
        )
        headers, value = cloud_event.in_kind(envelope.mode, attributes, event)
        return Terminal(message.origin, topic, message.key, value, trace + headers, query.trace)

    def _event(self, query: InFlight, whole: bool, left_out: int) -> dict[str, Any]:
        origin = query.message.origin
        lost = dict(query.degraded)
        page = _page(query)
        warnings = query.warnings
        if left_out:
            warnings = [*warnings, f"the last {left_out} of {len(page)} results are left out: the topic takes no more"]
            page = page[:-left_out]
        places = {leg.name: leg.places() for leg in query.legs.values()}
        return {
            "schema_version": 1,
            "query_id": query.event.query_id,
            "result_id": result_id(origin),
            "status": status_of(query),
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
            "warnings": warnings,
            "provenance": {
                "config_hash": self.config_hash,
                "recipe": RECIPE,
                "models": {"embedder": self.embedder, "reranker": self.reranker if query.reranked else None},
                "now": rfc3339(query.now),
                "source": {"topic": origin.topic, "partition": origin.partition, "offset": origin.offset},
            },
            "metadata": query.event.metadata,
        }


def fits(record: Terminal, max_bytes: Mapping[str, int]) -> bool:
    """Whether the record's topic takes it, as far as is known."""
    limit = max_bytes.get(record.topic)
    return limit is None or record_size(record.key, record.value, record.headers) <= limit


def _page(query: InFlight) -> list[Candidate]:
    if "fetch" in dict(query.degraded):
        return query.candidates[: query.event.page_size]
    # A candidate behind the fetched ones has no text: it is on a further page.
    fetched = (candidate for candidate in query.candidates if candidate.id in query.payloads)
    return list(islice(fetched, query.event.page_size))


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


def undeliverable(
    rejected: Rejected, topic: str, tracer: Tracer, max_bytes: Mapping[str, int] = MappingProxyType({})
) -> Terminal:
    """The dead letter of a message, as a part of its trace."""
    message = rejected.message
    origin = message.origin
    attributes: Attributes = {
        "messaging.destination.partition.id": str(origin.partition),
        "messaging.kafka.offset": origin.offset,
    }
    headers = cloud_event.traced_rejected(message.headers, message.value)
    trace = QueryTrace(tracer, headers, origin.topic, message.received, attributes)
    trace.rejected(rejected.kind)
    letter = dead_letter(rejected, topic, trace.trace_id)
    trace.send(topic, "dead_letter")
    return replace(letter if fits(letter, max_bytes) else without_payload(letter, topic), trace=trace)


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
            return undeliverable(rejected, publisher.dead_letters, tracer, publisher.max_bytes)

    results = op.map("results", answered, lambda batch: [written(query) for query in batch])
    letters = op.map(
        "dead_letters",
        dead,
        lambda batch: [
            undeliverable(rejected, publisher.dead_letters, tracer, publisher.max_bytes) for rejected in batch
        ],
    )
    return op.merge("terminals", results, letters)
