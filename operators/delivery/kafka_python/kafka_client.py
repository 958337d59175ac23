"""What kafka-python's clients of one broker are made by."""

from typing import Final

from operators.delivery.client import Consumer, Tail, TransactionalProducer
from operators.delivery.kafka_python.connection import CALL_TIMEOUT, KAFKA, Dialect
from operators.delivery.kafka_python.consumer import KafkaPythonConsumer, quieten
from operators.delivery.kafka_python.producer import KafkaPythonProducer, KafkaPythonTransactions
from operators.delivery.kafka_python.reader import KafkaPythonReader
from operators.delivery.kafka_python.records import read_any_headers
from operators.delivery.standalone import ANY_BATCH, BoundedReader, PlainProducer
from schemas.settings import KafkaSettings


class KafkaPython:
    """Makes consumers, tails and producers by kafka-python."""

    name: Final = "kafka-python"
    transaction_interval: Final = 0.04

    def __init__(self, settings: KafkaSettings, dialect: Dialect = KAFKA) -> None:
        self._settings = settings
        self._dialect = dialect
        read_any_headers()
        quieten()

    def consumer(self) -> Consumer:
        """A member of the settings' group."""
        return KafkaPythonConsumer(self._settings, self._dialect)

    def tail(self, topic: str) -> Tail:
        """A reader of the whole of a topic. Raises RetriableDelivery while the topic isn't known."""
        # Nothing that is asked of it takes long: a connection that doesn't answer is given up early.
        call_timeout = min(self._settings.request_timeout, CALL_TIMEOUT)
        return KafkaPythonReader(self._settings, topic, self._dialect, "read_uncommitted", call_timeout, from_end=False)

    def bounded_reader(self, topic: str, *, from_end: bool = False) -> BoundedReader:
        """A reader of a topic from its beginning, or from its present end. Raises DeliveryError."""
        call_timeout = self._settings.request_timeout
        return KafkaPythonReader(
            self._settings, topic, self._dialect, "read_committed", call_timeout, from_end=from_end
        )

    def transactional_producer(self, transactional_id: str, max_batch: int) -> TransactionalProducer:
        """A producer in transactions; fences the predecessor of that id. Raises RetriableDelivery and FatalDelivery."""
        return KafkaPythonTransactions(self._settings, transactional_id, max_batch, self._dialect)

    def plain_producer(self, max_batch: int = ANY_BATCH) -> PlainProducer:
        """A producer without transactions. Raises DeliveryError."""
        return KafkaPythonProducer(self._settings, max_batch, self._dialect)
