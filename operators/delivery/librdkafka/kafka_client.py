"""What librdkafka's clients of one broker are made by."""

from typing import Final

from operators.delivery.client import Consumer, Producer, Tail, TransactionalProducer
from operators.delivery.librdkafka.consumer import LibrdkafkaConsumer
from operators.delivery.librdkafka.producer import AcknowledgedProducer, LibrdkafkaTransactions
from operators.delivery.librdkafka.tail import LibrdkafkaTail
from schemas.settings import KafkaSettings


class Librdkafka:
    """Makes consumers, tails and producers by librdkafka."""

    name: Final = "librdkafka"
    transaction_interval: Final = 0.01

    def __init__(self, settings: KafkaSettings) -> None:
        self._settings = settings

    def consumer(self) -> Consumer:
        """A member of the settings' group."""
        return LibrdkafkaConsumer(self._settings)

    def tail(self, topic: str) -> Tail:
        """A reader of the whole of a topic. Raises RetriableDelivery while the topic isn't known."""
        return LibrdkafkaTail(self._settings, topic)

    def transactional_producer(self, transactional_id: str, max_batch: int) -> TransactionalProducer:
        """A producer in transactions; fences the predecessor of that id. Raises RetriableDelivery and FatalDelivery."""
        return LibrdkafkaTransactions(self._settings, transactional_id, max_batch)

    def acknowledged_producer(self, consumer: Consumer, max_batch: int) -> Producer:
        """A producer that commits by `consumer` what was acknowledged."""
        return AcknowledgedProducer(self._settings, consumer, max_batch)
