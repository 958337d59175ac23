"""Asking: query events to the queries topic, and their results from the results topic, or else their dead letters.

What a producing service does, as small as it gets: used by `query`, `console`, `demo` and `evaluate`.
"""

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from itertools import islice
from typing import Any, Final, Self

import orjson
from opentelemetry import propagate
from opentelemetry.trace import NoOpTracer, SpanKind, Tracer

from operators.delivery.client import RecordTooLarge
from operators.delivery.kafka_client import KafkaClient
from operators.delivery.replay import Letter
from operators.delivery.standalone import BoundedReader, PlainProducer, PlainRecord
from schemas.errors import FatalDelivery
from schemas.settings import Topics

MAX_UNANSWERED: Final = 64
"""Queries sent and not yet answered: a broker that drops what is unread must not be given too much."""

_POLL: Final = 0.02

_GRACE: Final = 2.0
"""Seconds for which a dead letter waits for its result: both are visible at once, but read from two topics."""

Event = Mapping[str, Any]


class Unanswered(FatalDelivery):
    """No result came in time."""


class QueryClient:
    """Asks queries and reads their results, beside any other client that does the same."""

    def __init__(
        self, producer: PlainProducer, reader: BoundedReader, letters: BoundedReader, queries: str, tracer: Tracer
    ) -> None:
        self._producer = producer
        self._reader = reader
        self._letters = letters
        self._queries = queries
        self._tracer = tracer

    @classmethod
    @contextmanager
    def connected(cls, client: KafkaClient, topics: Topics, tracer: Tracer | None = None) -> Iterator[Self]:
        """A query client that reads from the present end of results and dead letters. Raises DeliveryError."""
        with (
            closing(client.bounded_reader(topics.results, from_end=True)) as reader,
            closing(client.bounded_reader(topics.dead_letters, from_end=True)) as letters,
            closing(client.plain_producer()) as producer,
        ):
            yield cls(producer, reader, letters, topics.queries, tracer if tracer is not None else NoOpTracer())

    def ask(self, events: Iterable[Event], timeout: float, most: int = MAX_UNANSWERED) -> Iterator[dict[str, Any]]:
        """Send the events, at most `most` of them unanswered at a time, and yield each result as it comes.

        A query that has a dead letter and no result yields `refused(...)`. The events' `query_id`s must differ.

        Raises Unanswered when no result came for `timeout` seconds, FatalDelivery for a query that is too large for its
        topic, and RetriableDelivery if the broker doesn't answer.
        """
        waiting: set[str] = set()
        rest = iter(events)
        letters: dict[str, tuple[float, dict[str, Any]]] = {}
        heard = time.monotonic()
        while True:
            if sent := list(islice(rest, most - len(waiting))):
                self._send(sent)
                waiting.update(event["query_id"] for event in sent)
            if not waiting:
                return
            # Where there are both, the result is the answer.
            alone = [letter for since, letter in letters.values() if time.monotonic() - since > _GRACE]
            for result in (*self._results(), *alone):
                # Others may be answered in envelopes.
                if (query_id := result.get("query_id")) in waiting:
                    waiting.remove(query_id)
                    letters.pop(query_id, None)
                    heard = time.monotonic()
                    yield result
            for letter in self._refused() if waiting else ():
                if (query_id := letter["query_id"]) in waiting:
                    letters.setdefault(query_id, (time.monotonic(), letter))
            if waiting and not letters and time.monotonic() - heard > timeout:
                raise Unanswered(f"no answer to {len(waiting)} queries in {timeout:g} s: is the search flow running?")

    def _send(self, events: Sequence[Event]) -> None:
        try:
            self._producer.send([self._record(event) for event in events])
        except RecordTooLarge as error:
            raise FatalDelivery(f"{self._queries}: a query is larger than the topic takes") from error

    def _record(self, event: Event) -> PlainRecord:
        with self._tracer.start_as_current_span(f"send {self._queries}", kind=SpanKind.PRODUCER):
            carrier: dict[str, str] = {}
            propagate.inject(carrier)
        headers = tuple((name, value.encode()) for name, value in carrier.items())
        return PlainRecord(self._queries, event["query_id"].encode(), orjson.dumps(event), headers)

    def _results(self) -> Iterator[dict[str, Any]]:
        for record in self._reader.poll(_POLL):
            if record.value is not None:
                yield orjson.loads(record.value)

    def _refused(self) -> Iterator[dict[str, Any]]:
        for record in self._letters.poll(0.0):
            letter = Letter.read(record.key, record.value, record.headers or (), 0)
            if letter is not None and letter.place.topic == self._queries and letter.key is not None:
                yield refused(letter.key.decode("utf-8", "replace"), letter.kind, letter.message)


def refused(query_id: str, kind: str, reason: str) -> dict[str, Any]:
    """What is known of a query whose answer is a dead letter, in the shape of a result."""
    nothing: dict[str, list[Any]] = {"results": [], "legs": [], "degraded": [], "warnings": []}
    error = {"class": kind, "field": None, "reason": reason}
    return {"query_id": query_id, "status": "invalid", **nothing, "total": 0, "next_cursor": None, "error": error}
