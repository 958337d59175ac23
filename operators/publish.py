"""Publish: every query and every dead letter becomes its one terminal record.

A record that is too large for its topic loses first a recorded pool, then the texts and payloads of its results, then
results from the end, and says so. What would be too large even then is a dead letter without payload.
"""

import hashlib
from bisect import bisect_left
from collections.abc import Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any

import orjson
from bytewax import operators as op
from bytewax.dataflow import Stream, operator
from opentelemetry.trace import Tracer

from operators import cloud_event
from operators.delivery.dead_letters import dead_letter, without_payload
from operators.delivery.record_size import record_size
from operators.inflight import Headers, InFlight, Origin, Rejected, Terminal
from operators.result import page, pool, result, status_of
from operators.stage import Batch, defect
from operators.telemetry import Attributes, QueryTrace
from schemas.errors import DeadLetterClass, Reason


def result_id(origin: Origin) -> str:
    """The result's identity: a hash of the query's place in Kafka, so that it is the same on re-delivery."""
    place = f"{origin.topic}\n{origin.partition}\n{origin.offset}"
    return hashlib.blake2b(place.encode(), digest_size=16).hexdigest()


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

    def result(self, query: InFlight) -> Terminal:
        """The query's record, for the topic that it chose, in the kind of event that it came as."""
        topic = query.event.reply_to or self.topic
        trace = query.trace.send(topic, status_of(query))
        record = self._record(query, topic, trace)
        return record if fits(record, self.max_bytes) else self._shortened(query, topic, trace)

    def _shortened(self, query: InFlight, topic: str, trace: Headers) -> Terminal:
        query.lose("result", Reason.TOO_LARGE)
        if query.event.record:
            query.warnings.append("the candidate pool is left out: the topic takes no more")
            unrecorded = self._record(query, topic, trace, pooled=False)
            if fits(unrecorded, self.max_bytes):
                query.trace.send(topic, status_of(query))
                return unrecorded

        def record(left_out: int) -> Terminal:
            return self._record(query, topic, trace, pooled=False, whole=False, left_out=left_out)

        results = len(page(query))
        left_out = bisect_left(range(results + 1), True, key=lambda count: fits(record(count), self.max_bytes))
        if left_out > results:
            query.trace.send(self.dead_letters, "dead_letter")
            query.trace.rejected(DeadLetterClass.TOO_LARGE)
            return replace(without_payload(record(results), self.dead_letters), trace=query.trace)
        query.trace.send(topic, status_of(query))
        return record(left_out)

    def _record(
        self,
        query: InFlight,
        topic: str,
        trace: Headers,
        *,
        pooled: bool = True,
        whole: bool = True,
        left_out: int = 0,
    ) -> Terminal:
        event = self._event(query, pooled, whole, left_out)
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

    def _event(self, query: InFlight, pooled: bool, whole: bool, left_out: int) -> dict[str, Any]:
        origin = query.message.origin
        results = page(query)
        warnings = []
        if left_out:
            warnings = [f"the last {left_out} of {len(results)} results are left out: the topic takes no more"]
            results = results[:-left_out]
        provenance = {
            "config_hash": self.config_hash,
            "models": {
                "embedder": self.embedder,
                "reranker": query.verdict.model if query.verdict is not None else None,
            },
            "source": {"topic": origin.topic, "partition": origin.partition, "offset": origin.offset},
        }
        event = result(query, result_id(origin), results, provenance, query.now, whole=whole, warnings=warnings)
        if query.event.record and pooled:
            event["pool"] = pool(query, query.now)
        return event


def fits(record: Terminal, max_bytes: Mapping[str, int]) -> bool:
    """Whether the record's topic takes it, as far as is known."""
    limit = max_bytes.get(record.topic)
    return limit is None or record_size(record.key, record.value, record.headers) <= limit


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
