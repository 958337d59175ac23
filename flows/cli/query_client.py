"""Asking: query events to the queries topic, and their results from the results topic.

What a producing service does, as small as it gets: used by `query`, `demo` and `evaluate`.
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
from operators.delivery.standalone import BoundedReader, PlainProducer, PlainRecord
from schemas.errors import FatalDelivery
from schemas.settings import Topics

MAX_UNANSWERED: Final = 64
"""Queries sent and not yet answered: a broker that drops what is unread must not be given too much."""

_POLL: Final = 0.02

Event = Mapping[str, Any]


class QueryClient:
    """Asks queries and reads their results, beside any other client that does the same."""

    def __init__(self, producer: PlainProducer, reader: BoundedReader, queries: str, tracer: Tracer) -> None:
        self._producer = producer
        self._reader = reader
        self._queries = queries
        self._tracer = tracer

    @classmethod
    @contextmanager
    def connected(cls, client: KafkaClient, topics: Topics, tracer: Tracer | None = None) -> Iterator[Self]:
        """A query client that reads from the results' present end. Raises DeliveryError."""
        with (
            closing(client.bounded_reader(topics.results, from_end=True)) as reader,
            closing(client.plain_producer()) as producer,
        ):
            yield cls(producer, reader, topics.queries, tracer if tracer is not None else NoOpTracer())

    def ask(self, events: Iterable[Event], timeout: float, most: int = MAX_UNANSWERED) -> Iterator[dict[str, Any]]:
        """Send the events, at most `most` of them unanswered at a time, and yield each result as it comes.

        The events' `query_id`s must differ. Raises FatalDelivery when no result came for `timeout` seconds, or for a
        query that is too large for its topic, and RetriableDelivery if the broker doesn't answer.
        """
        waiting: set[str] = set()
        rest = iter(events)
        heard = time.monotonic()
        while True:
            if sent := list(islice(rest, most - len(waiting))):
                self._send(sent)
                waiting.update(event["query_id"] for event in sent)
            if not waiting:
                return
            for result in self._results():
                # Others may be answered in envelopes.
                if (query_id := result.get("query_id")) in waiting:
                    waiting.remove(query_id)
                    heard = time.monotonic()
                    yield result
            if waiting and time.monotonic() - heard > timeout:
                raise FatalDelivery(
                    f"no answer to {len(waiting)} queries in {timeout:g} s: is the search flow running?"
                )

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
