"""Indexers' writes to the watermarks topic of a real broker, in transactions that a test begins and ends.

Others may do it to another topic.
"""

import uuid
from collections.abc import Iterator
from contextlib import contextmanager

from confluent_kafka import Producer

from schemas.settings import KafkaSettings


class Indexer:
    """A producer in transactions; `settings` name the broker, and the topic unless it is given."""

    def __init__(self, settings: KafkaSettings, topic: str | None = None) -> None:
        self._topic = topic or settings.topics.watermarks
        self._producer = Producer(
            {
                "bootstrap.servers": settings.bootstrap_servers,
                "transactional.id": uuid.uuid4().hex,
                "linger.ms": 0,
                "retry.backoff.ms": 5,
            }
        )
        self._producer.init_transactions()

    def write(self, key: bytes, offset: int, partition: int = 0) -> None:
        """Put a watermark into a transaction that stays open; on return the log has it."""
        self._producer.begin_transaction()
        self._producer.produce(self._topic, b"%d" % offset, key, partition=partition)
        self._producer.flush()

    def commit(self) -> None:
        """Commit what is open."""
        self._producer.commit_transaction()

    def abort(self) -> None:
        """Abort what is open."""
        self._producer.abort_transaction()

    def commit_one(self, key: bytes, offset: int, partition: int = 0) -> None:
        """A whole transaction."""
        self.write(key, offset, partition)
        self.commit()

    def close(self) -> None:
        """Release connections."""
        self._producer.close()


@contextmanager
def indexing(settings: KafkaSettings, topic: str | None = None) -> Iterator[Indexer]:
    """An indexer, closed at the end."""
    indexer = Indexer(settings, topic)
    try:
        yield indexer
    finally:
        indexer.close()
