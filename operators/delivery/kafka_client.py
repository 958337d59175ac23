"""What a Kafka client is to the rest: the maker of consumers, readers and producers of one kind."""

from typing import Protocol

from operators.delivery.client import Consumer, Tail, TransactionalProducer
from operators.delivery.standalone import ANY_BATCH, BoundedReader, PlainProducer


class KafkaClient(Protocol):
    """What makes consumers and producers of one kind, and what suits that kind."""

    @property
    def name(self) -> str:
        """What `kafka.client` calls it."""
        ...

    @property
    def transaction_interval(self) -> float:
        """Seconds from one transaction's begin to the next's."""
        ...

    def consumer(self) -> Consumer:
        """A member of the group."""
        ...

    def tail(self, topic: str) -> Tail:
        """A reader of the whole of a topic, with what isn't committed: an open transaction would hide what others
        committed after it began. Raises RetriableDelivery while the topic isn't known.
        """
        ...

    def bounded_reader(self, topic: str, *, from_end: bool = False) -> BoundedReader:
        """A reader of committed records from a topic's beginning, or from its present end.

        Raises RetriableDelivery while the topic isn't known or the broker doesn't answer.
        """
        ...

    def transactional_producer(self, transactional_id: str, max_batch: int) -> TransactionalProducer:
        """A producer in transactions, of batches of at most `max_batch` bytes; fences the predecessor of that id.

        It is initialised on return. Raises RetriableDelivery while the broker doesn't answer, and FatalDelivery.
        """
        ...

    def plain_producer(self, max_batch: int = ANY_BATCH) -> PlainProducer:
        """A producer without transactions, of batches of at most `max_batch` bytes. Raises DeliveryError."""
        ...
