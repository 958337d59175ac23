"""A reader of the flow's output: committed records alone, each with its time of arrival."""

import itertools
import threading
import time
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, Self

import orjson
from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaException, TopicPartition

from schemas import headers as names
from tests.faults.law import Asked, OutputRecord, Place, by_place
from tests.faults.load import query_id_of
from tests.integration.deployment import PARTITIONS, Origins
from tests.integration.poison import POISON
from tests.legible import is_plain, legible

_POLL: Final = 0.2
_REQUEST: Final = 10.0
_BATCH: Final = 500


class Reader:
    """Reads results and dead letters on a thread of its own, from the topics' beginning on."""

    def __init__(self, bootstrap: str, results: str, dead_letters: str) -> None:
        self._bootstrap = bootstrap
        self._results = results
        self._dead_letters = dead_letters
        self._lock = threading.Lock()
        self._consumer = _consumer(bootstrap)
        # A fault adds as many partitions again.
        self._origins = Origins(2 * PARTITIONS)
        self._failure: BaseException | None = None
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="reader", daemon=True)
        self.output_records: list[OutputRecord] = []

    def forget(self, topic: str) -> None:
        """Read `topic` no more: it was deleted. One of that name that is made meanwhile would be read twice else."""
        with self._lock:
            self._consumer.incremental_unassign([part for part in self._consumer.assignment() if part.topic == topic])

    def follow(self, topic: str) -> None:
        """Read `topic`, which was made again, from its beginning."""
        with self._lock:
            self._consumer.incremental_assign(_partitions(self._consumer, topic))

    def check(self) -> None:
        """Raise what ended the thread, if something did."""
        if self._failure is not None:
            raise self._failure

    def __enter__(self) -> Self:
        parts = [part for topic in (self._results, self._dead_letters) for part in _partitions(self._consumer, topic)]
        self._consumer.assign(parts)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()
        self._consumer.close()

    def _run(self) -> None:
        try:
            while not self._stop.is_set():
                with self._lock:
                    first = self._consumer.poll(_POLL)
                    # `consume` waits until it has all that it may return: only what is there already.
                    messages = [first, *self._consumer.consume(_BATCH, 0)] if first is not None else []
                arrival = time.time()
                self.output_records += [
                    self._terminal(message, arrival) for message in messages if message.error() is None
                ]
        except BaseException as error:  # noqa: BLE001  the harness raises it
            self._failure = error

    def _terminal(self, message: Any, arrival: float) -> OutputRecord:
        headers = dict(message.headers() or ())
        if message.topic() == self._dead_letters:
            place = Place(
                headers[names.TOPIC].decode(),
                int(headers[names.PARTITION]),
                int(headers[names.OFFSET]),
            )
            kind = headers[names.CLASS].decode()
            return OutputRecord(place, kind, True, message.key(), arrival, value=message.value())
        event = orjson.loads(message.value())
        # A query in an envelope of CloudEvents is answered in one.
        event = event["data"] if "specversion" in event else event
        return OutputRecord(
            Place(*self._origins.place(event)),
            event["status"],
            False,
            message.key(),
            arrival,
            query_id=event["query_id"],
            degraded=tuple((part["stage"], part["reason"]) for part in event["degraded"]),
            called=bool(event["legs"]),
        )


def contents(bootstrap: str, topic: str) -> dict[Place, Asked]:
    """Every message that the topic holds now, by its place: offsets can have gaps."""
    consumer = _consumer(bootstrap)
    try:
        ends = {}
        for part in _partitions(consumer, topic):
            low, high = consumer.get_watermark_offsets(part, _REQUEST)
            if high > low:
                ends[part.partition] = high
        consumer.assign([TopicPartition(topic, number, OFFSET_BEGINNING) for number in ends])
        found: list[Asked] = []
        deadline = time.monotonic() + 6 * _REQUEST
        while any(position < ends[number] for number, position in _positions(consumer, topic, ends).items()):
            assert time.monotonic() < deadline, f"{topic} could not be read to its end"
            for message in consumer.consume(_BATCH, _POLL):
                if (error := message.error()) is not None:
                    raise KafkaException(error)
                found.append(_asked(message))
        return by_place(found)
    finally:
        consumer.close()


def longest_gap(arrivals: Iterable[float], stretches: Sequence[tuple[float, float]]) -> float:
    """Seconds of the longest wait for the next answer that began while load was on."""
    moments = sorted([*arrivals, *(began for began, _ in stretches)])
    gaps = [
        after - before
        for before, after in itertools.pairwise(moments)
        if any(began <= before < ended for began, ended in stretches)
    ]
    return max(gaps, default=0.0)


def _asked(message: Any) -> Asked:
    value = message.value()
    place = Place(message.topic(), message.partition(), message.offset())
    plain = is_plain([name for name, _ in message.headers() or ()])
    caller = legible(value) if plain else None
    return Asked(
        place, message.key(), value, message.timestamp()[1] / 1000, query_id_of(value), POISON.get(value), caller
    )


def _positions(consumer: Consumer, topic: str, ends: Mapping[int, int]) -> dict[int, int]:
    parts = consumer.position([TopicPartition(topic, number) for number in ends])
    return {part.partition: max(part.offset, 0) for part in parts}


def _partitions(consumer: Consumer, topic: str) -> list[TopicPartition]:
    described = consumer.list_topics(topic, timeout=_REQUEST).topics[topic]
    if described.error is not None:
        raise KafkaException(described.error)
    return [TopicPartition(topic, number, OFFSET_BEGINNING) for number in described.partitions]


def _consumer(bootstrap: str) -> Consumer:
    return Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "faults-reader",
            "enable.auto.commit": False,
            "isolation.level": "read_committed",
            "auto.offset.reset": "earliest",
            "fetch.wait.max.ms": 50,
            "reconnect.backoff.max.ms": 500,
            "message.max.bytes": 1 << 24,
            "log_level": 0,
        }
    )
