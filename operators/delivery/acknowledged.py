"""Records first, then offsets: for brokers without transactions, where a crash in between answers twice."""

from collections.abc import Mapping, Sequence

from operators.delivery.client import Consumer, GroupMetadata, ProducerRecord, TopicPartition
from operators.delivery.standalone import PlainProducer
from operators.delivery.tracker import Commit


class AcknowledgedProducer:
    """Commits by `consumer` once `producer` has its acknowledgements."""

    def __init__(self, producer: PlainProducer, consumer: Consumer) -> None:
        self._producer = producer
        self._consumer = consumer

    def prepare(self) -> None:
        """Nothing: a plain producer goes on after any failure that isn't fatal."""

    def deliver(
        self, records: Sequence[ProducerRecord], commits: Mapping[TopicPartition, Commit], group: GroupMetadata
    ) -> None:
        """Produce, wait for every acknowledgement, then commit."""
        self._producer.send(records)
        self._consumer.commit(commits, group)

    def conclude(self, commits: Mapping[TopicPartition, Commit], group: GroupMetadata) -> None:
        """Commit once more: an earlier commit that arrived late may have gone over a later one."""
        self._consumer.commit(commits, group)

    def close(self) -> None:
        """Release the producer's connections; what is under way is lost."""
        self._producer.close()
