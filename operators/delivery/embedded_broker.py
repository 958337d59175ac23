"""A broker of Kafka's protocol inside the process, for machines without Kafka."""

from ctypes import CDLL, c_char_p, c_int, c_int32, c_size_t, c_void_p, create_string_buffer
from typing import Any, Final, Self

from confluent_kafka import cimpl

from schemas.errors import FatalDelivery
from schemas.settings import KafkaSettings, Topics

PARTITIONS = 4
"""The number of partitions of every topic."""

RETAINED_BYTES = 5 * 1024 * 1024
"""The size of a partition: beyond it the oldest records are deleted silently, read or not."""

_PRODUCER: Final = 0
_NO_ERROR: Final = 0
_TOPIC_ALREADY_EXISTS: Final = 36

_FUNCTIONS: Final[dict[str, tuple[Any, ...]]] = {
    "rd_kafka_conf_new": (c_void_p,),
    "rd_kafka_conf_set": (c_int, c_void_p, c_char_p, c_char_p, c_char_p, c_size_t),
    "rd_kafka_new": (c_void_p, c_int, c_void_p, c_char_p, c_size_t),
    "rd_kafka_destroy": (None, c_void_p),
    "rd_kafka_mock_cluster_new": (c_void_p, c_void_p, c_int),
    "rd_kafka_mock_cluster_bootstraps": (c_char_p, c_void_p),
    "rd_kafka_mock_cluster_destroy": (None, c_void_p),
    "rd_kafka_mock_group_initial_rebalance_delay_ms": (None, c_void_p, c_int32),
    "rd_kafka_mock_topic_create": (c_int, c_void_p, c_char_p, c_int, c_int),
}
"""Result and arguments of functions of librdkafka, as rdkafka.h and rdkafka_mock.h declare them."""


def _librdkafka() -> CDLL:
    """The librdkafka of confluent-kafka, whose own interface has no such cluster. Raises FatalDelivery."""
    library = CDLL(cimpl.__file__)
    try:
        for name, (result, *arguments) in _FUNCTIONS.items():
            function = getattr(library, name)
            function.restype, function.argtypes = result, arguments
    except AttributeError as error:
        raise FatalDelivery(f"embedded broker: confluent-kafka is built without it on this platform: {error}") from None
    return library


class EmbeddedBroker:
    """librdkafka's mock cluster of one broker: in memory, on loopback, until it is stopped.

    It speaks the protocol of Kafka 2.3; kafka-python needs `api_version=(2, 3)`. It isolates no transactions, so
    delivery is at least once. Producers must limit the unread records to RETAINED_BYTES in each partition.
    """

    def __init__(self) -> None:
        self._library = _librdkafka()
        self._client: int | None = None
        self._cluster: int | None = None
        self.bootstrap_servers = ""
        """The address as `host:port`; empty while the broker doesn't run."""

    def client_settings(self, topics: Topics) -> KafkaSettings:
        """The settings of the clients of this broker, while it runs."""
        return KafkaSettings(
            bootstrap_servers=self.bootstrap_servers,
            topics=topics,
            client="librdkafka",
            # What is in memory need not be small, and gzip takes several times as long.
            compression="lz4",
            # A fetch that finds nothing is answered when its time is over, whatever is written meanwhile.
            consumer_options={"fetch.wait.max.ms": 10},
        )

    def __enter__(self) -> Self:
        """Start the broker, empty; on return it takes connections. Raises FatalDelivery."""
        library = self._library
        options = library.rd_kafka_conf_new()
        # At log level 3 the cluster would write to stderr about every request that it doesn't know.
        library.rd_kafka_conf_set(options, b"log_level", b"2", None, 0)
        # The cluster is part of a client.
        reason = create_string_buffer(512)
        self._client = library.rd_kafka_new(_PRODUCER, options, reason, len(reason))
        if self._client is None:
            raise FatalDelivery(f"embedded broker: {reason.value.decode()}")
        self._cluster = library.rd_kafka_mock_cluster_new(self._client, 1)
        if self._cluster is None:
            self.__exit__()
            raise FatalDelivery("embedded broker: it can't listen on loopback")
        # By default a new group waits 3 seconds for more members, which a demo's every start would take.
        library.rd_kafka_mock_group_initial_rebalance_delay_ms(self._cluster, 1)
        self.bootstrap_servers = library.rd_kafka_mock_cluster_bootstraps(self._cluster).decode()
        return self

    def create_topic(self, name: str) -> None:
        """Create the topic `name` with PARTITIONS partitions, if it is missing. Raises FatalDelivery if stopped."""
        if self._cluster is None:
            raise FatalDelivery("the embedded broker doesn't run")
        code = self._library.rd_kafka_mock_topic_create(self._cluster, name.encode(), PARTITIONS, 1)
        if code not in (_NO_ERROR, _TOPIC_ALREADY_EXISTS):
            raise FatalDelivery(f"embedded broker: {name}: error {code}")

    def __exit__(self, *_: object) -> None:
        """Stop the broker and delete its records; does nothing if it doesn't run."""
        if self._cluster is not None:
            self._library.rd_kafka_mock_cluster_destroy(self._cluster)
        if self._client is not None:
            self._library.rd_kafka_destroy(self._client)
        self._client = self._cluster = None
        self.bootstrap_servers = ""
