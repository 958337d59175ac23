"""The load of an indexer: documents at once, and the time until their offsets are committed."""

import time
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from confluent_kafka import Consumer, Producer, TopicPartition

from bench.accounting import process_seconds
from bench.child import Child
from bench.figures import BenchError
from schemas.settings import KafkaSettings

PATIENCE: Final = 120.0
"""Seconds without a commit after which an indexer is given up."""

_POLL: Final = 0.05
_REQUEST: Final = 30.0
_QUEUE: Final = 10_000_000


@dataclass(frozen=True, slots=True)
class Written:
    """The outcome of a load: the documents, the indexer's CPU time, and the time from the first to the last commit."""

    documents: int
    cpu: float
    seconds: float


class Indexing:
    """An indexer that takes documents."""

    def __init__(self, child: Child, kafka: KafkaSettings) -> None:
        self._child = child
        self._topic = kafka.topics.documents
        self._connection = {"bootstrap.servers": kafka.bootstrap_servers}
        self._group = Consumer({**self._connection, "group.id": kafka.indexing.group_id, "enable.auto.commit": False})

    def measure(self, documents: Iterable[tuple[bytes, bytes]]) -> Written:
        """Send documents, and wait until the indexer has committed them all. Raises BenchError if it doesn't go on."""
        # Of this call alone: it would look for the broker for ever.
        producer = Producer({**self._connection, "linger.ms": 5, "queue.buffering.max.messages": _QUEUE})
        pid = self._child.process.pid
        before, started, count = process_seconds(pid), time.perf_counter(), 0
        for key, value in documents:
            producer.produce(self._topic, value, key)
            producer.poll(0)
            count += 1
        if producer.flush(_REQUEST):
            raise BenchError("the broker does not take the documents in time")
        end, done, moved = self._end(), -1, time.monotonic()
        while done < end:
            time.sleep(_POLL)
            self._child.check()
            committed = self._committed()
            if committed != done:
                done, moved = committed, time.monotonic()
            elif time.monotonic() - moved > PATIENCE:
                raise self._child.failure(f"{end - done} documents wait")
        return Written(count, process_seconds(pid) - before, time.perf_counter() - started)

    def close(self) -> None:
        """Leave the broker."""
        self._group.close()

    def _partitions(self) -> list[TopicPartition]:
        found = self._group.list_topics(self._topic, timeout=_REQUEST).topics[self._topic].partitions
        return [TopicPartition(self._topic, number) for number in found]

    def _end(self) -> int:
        return sum(self._group.get_watermark_offsets(each, timeout=_REQUEST)[1] for each in self._partitions())

    def _committed(self) -> int:
        return sum(max(each.offset, 0) for each in self._group.committed(self._partitions(), timeout=_REQUEST))
