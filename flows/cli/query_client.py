"""Asking: query events to the queries topic, and their results from the results topic.

What a producing service does, as small as it gets: used by `query`, `demo` and `evaluate`.
"""

import time
from collections.abc import Iterable, Iterator, Mapping
from types import TracebackType
from typing import Any, Final, Self

import kafka
import orjson
from opentelemetry import propagate, trace
from opentelemetry.trace import SpanKind, Tracer

from operators.delivery.kafka_python import Dialect, connection, naming
from schemas.errors import FatalDelivery
from schemas.settings import KafkaSettings

MAX_UNANSWERED: Final = 64
"""Queries sent and not yet answered: a broker that drops what is unread must not be given too much."""

Event = Mapping[str, Any]


class QueryClient:
    """Asks queries and reads their answers, whoever else does the same. Use as a context manager."""

    def __init__(self, settings: KafkaSettings, dialect: Dialect, tracer: Tracer | None = None) -> None:
        self._settings = settings
        self._dialect = dialect
        self._tracer = tracer if tracer is not None else trace.NoOpTracer()

    def __enter__(self) -> Self:
        """Connect, and read from the topic's present end.

        Raises FatalDelivery if a topic doesn't exist or the broker can't be asked.
        """
        with naming(self._settings.bootstrap_servers):
            self._connect()
        return self

    def _connect(self) -> None:
        common = connection(self._settings, self._dialect)
        self._producer = kafka.KafkaProducer(acks="all", metrics_enabled=False, **common)
        self._consumer = kafka.KafkaConsumer(
            **{
                "isolation_level": "read_committed",
                "auto_offset_reset": "latest",
                "enable_auto_commit": False,
                "metrics_enabled": False,
                **common,
                **self._dialect.consumer,
            }
        )
        topic = self._settings.topics.results
        numbers = self._consumer.partitions_for_topic(topic)
        if not numbers:
            raise FatalDelivery(f"topic {topic} doesn't exist; `rankstream topics` creates it")
        partitions = [kafka.TopicPartition(topic, number) for number in numbers]
        self._consumer.assign(partitions)
        ends = self._consumer.end_offsets(partitions)
        for partition in partitions:
            self._consumer.seek(partition, ends[partition])

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._producer.close(timeout=1)
        self._consumer.close()

    def ask(self, events: Iterable[Event], timeout: float, most: int = MAX_UNANSWERED) -> Iterator[dict[str, Any]]:
        """Send the events, at most `most` of them unanswered at a time, and yield each result as it comes.

        The events' `query_id`s must differ. Raises FatalDelivery when no result came for `timeout` seconds.
        """
        waiting: set[str] = set()
        rest = iter(events)
        exhausted = False
        heard = time.monotonic()
        while not exhausted or waiting:
            while not exhausted and len(waiting) < most:
                event = next(rest, None)
                if event is None:
                    exhausted = True
                    break
                self._send(event)
                waiting.add(event["query_id"])
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

    def _send(self, event: Event) -> None:
        topic = self._settings.topics.queries
        with self._tracer.start_as_current_span(f"send {topic}", kind=SpanKind.PRODUCER):
            carrier: dict[str, str] = {}
            propagate.inject(carrier)
        headers = [(name, value.encode()) for name, value in carrier.items()]
        with naming(topic):
            self._producer.send(topic, key=event["query_id"].encode(), value=orjson.dumps(event), headers=headers)

    def _results(self) -> Iterator[dict[str, Any]]:
        with naming(self._settings.topics.results):
            polled = self._consumer.poll(timeout_ms=20)
        for records in polled.values():
            for record in records:
                yield orjson.loads(record.value)
