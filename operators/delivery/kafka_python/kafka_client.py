"""What kafka-python's clients of one broker are made by."""

from typing import Final

from operators.delivery.client import Consumer, Producer, Tail, TransactionalProducer
from operators.delivery.kafka_python.connection import KAFKA, Dialect
from operators.delivery.kafka_python.consumer import KafkaPythonConsumer
from operators.delivery.kafka_python.producer import AcknowledgedProducer, KafkaPythonTransactions
from operators.delivery.kafka_python.tail import KafkaPythonTail
from schemas.settings import KafkaSettings


class KafkaPython:
    """Makes consumers, tails and producers by kafka-python."""

    name: Final = "kafka-python"
    transaction_interval: Final = 0.04

    def __init__(self, settings: KafkaSettings, dialect: Dialect = KAFKA) -> None:
        self._settings = settings
        self._dialect = dialect

    def consumer(self) -> Consumer:
        """A member of the settings' group."""
        return KafkaPythonConsumer(self._settings, self._dialect)

    def tail(self, topic: str) -> Tail:
        """A reader of the whole of a topic. Raises RetriableDelivery while the topic isn't known."""
        return KafkaPythonTail(self._settings, topic, self._dialect)

    def transactional_producer(self, transactional_id: str, max_batch: int) -> TransactionalProducer:
        """A producer in transactions; fences the predecessor of that id. Raises RetriableDelivery and FatalDelivery."""
        return KafkaPythonTransactions(self._settings, transactional_id, max_batch, self._dialect)

    def acknowledged_producer(self, consumer: Consumer, max_batch: int) -> Producer:
        """A producer that commits by `consumer` what was acknowledged."""
        return AcknowledgedProducer(self._settings, consumer, max_batch, self._dialect)
