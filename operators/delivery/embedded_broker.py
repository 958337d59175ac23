"""A broker of Kafka's protocol inside the process, for machines without Kafka."""

from typing import Self

from confluent_kafka import Producer

from schemas.errors import FatalDelivery

PARTITIONS = 4
"""The number of partitions of every topic."""

RETAINED_BYTES = 5 * 1024 * 1024
"""The size of a partition: beyond it the oldest records are deleted silently, read or not."""

START_TIMEOUT_S = 10.0


class EmbeddedBroker:
    """librdkafka's mock cluster of one broker: in memory, on loopback, until it is stopped.

    It speaks the protocol of Kafka 2.3: kafka-python needs `api_version=(2, 3)`, and `fetch_max_wait_ms=10`, or
    else a record takes half a second. It isolates no transactions, so delivery is at least once. Producers must
    limit the unread records to RETAINED_BYTES in each partition. Joining a group takes 3 seconds or more.
    """

    def __init__(self) -> None:
        self._cluster: Producer | None = None
        self._bootstrap_servers = ""

    @property
    def bootstrap_servers(self) -> str:
        """The address as `host:port`; empty while the broker doesn't run."""
        return self._bootstrap_servers

    def start(self) -> None:
        """Start the broker, empty; on return it takes connections."""
        # The cluster is part of this client, which replaces the configured servers by the cluster's own address.
        # At log level 3 it would write to stderr about every request that it doesn't know.
        self._cluster = Producer({"bootstrap.servers": "embedded", "test.mock.num.brokers": 1, "log_level": 2})
        [broker] = self._cluster.list_topics(timeout=START_TIMEOUT_S).brokers.values()
        self._bootstrap_servers = f"{broker.host}:{broker.port}"

    def create_topic(self, name: str) -> None:
        """Create the topic `name` with PARTITIONS partitions, if it is missing. Raises FatalDelivery if stopped."""
        if self._cluster is None:
            raise FatalDelivery("the embedded broker doesn't run")
        # Admin clients can't create topics here; a producer's request for metadata does.
        self._cluster.list_topics(name, timeout=START_TIMEOUT_S)

    def stop(self) -> None:
        """Stop the broker and delete its records; does nothing if it doesn't run."""
        if self._cluster is not None:
            self._cluster.close()
            self._cluster = None
            self._bootstrap_servers = ""

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()
