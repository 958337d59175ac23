"""What librdkafka's clients of one broker are made by."""

from typing import Final

from operators.delivery.client import Consumer, Tail, TransactionalProducer
from operators.delivery.librdkafka.connection import CALL_TIMEOUT, quieten
from operators.delivery.librdkafka.consumer import LibrdkafkaConsumer
from operators.delivery.librdkafka.producer import LibrdkafkaProducer, LibrdkafkaTransactions
from operators.delivery.librdkafka.reader import LibrdkafkaReader
from operators.delivery.standalone import ANY_BATCH, BoundedReader, PlainProducer
from schemas.settings import KafkaSettings


class Librdkafka:
    """Makes consumers, tails and producers by librdkafka."""

    name: Final = "librdkafka"
    transaction_interval: Final = 0.01

    def __init__(self, settings: KafkaSettings) -> None:
        self._settings = settings
        quieten()

    def consumer(self) -> Consumer:
        """A member of the settings' group."""
        return LibrdkafkaConsumer(self._settings)

    def tail(self, topic: str) -> Tail:
        """A reader of the whole of a topic. Raises RetriableDelivery while the topic isn't known."""
        # Nothing that is asked of it takes long: a connection that doesn't answer is given up early.
        call_timeout = min(self._settings.request_timeout, CALL_TIMEOUT)
        return LibrdkafkaReader(self._settings, topic, "read_uncommitted", call_timeout, from_end=False)

    def bounded_reader(self, topic: str, *, from_end: bool = False) -> BoundedReader:
        """A reader of a topic from its beginning, or from its present end. Raises DeliveryError."""
        call_timeout = self._settings.request_timeout
        return LibrdkafkaReader(self._settings, topic, "read_committed", call_timeout, from_end=from_end)

    def transactional_producer(self, transactional_id: str, max_batch: int) -> TransactionalProducer:
        """A producer in transactions; fences the predecessor of that id. Raises RetriableDelivery and FatalDelivery."""
        return LibrdkafkaTransactions(self._settings, transactional_id, max_batch)

    def plain_producer(self, max_batch: int = ANY_BATCH) -> PlainProducer:
        """A producer without transactions. Raises FatalDelivery."""
        return LibrdkafkaProducer(self._settings, max_batch)
