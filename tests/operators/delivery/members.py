"""Members of a group on a real broker, and what they read and deliver."""

import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, closing, contextmanager
from dataclasses import dataclass, field

import kafka

from operators.delivery.client import Consumer, ConsumerRecord, KafkaClient, Partitions, Rebalance, TopicPartition
from operators.delivery.output_record import OutputRecord
from operators.delivery.producers import FencedProducer
from schemas.errors import RetriableDelivery
from schemas.settings import KafkaSettings
from tests.operators.samples import output_record
from tests.repeated import repeated

Make = Callable[[KafkaSettings], KafkaClient]

WITHIN = 30.0
MAX_BATCH = 1_048_588
NOW_MS = int(time.time() * 1000)
REPLICA = f"replica-{uuid.uuid4().hex[:8]}"
"""The workers of a run share a broker: one's replica must not fence another's."""
"""A time that retention leaves alone."""


@dataclass
class Member:
    """A member of the group that is polled until it is closed, from one thread."""

    consumer: Consumer
    topic: str
    owned: set[TopicPartition] = field(default_factory=set)
    revoked: list[TopicPartition] = field(default_factory=list)
    lost: list[TopicPartition] = field(default_factory=list)
    records: list[ConsumerRecord] = field(default_factory=list)

    def join(self) -> None:
        """Subscribe, and poll until the group has it."""
        self.consumer.subscribe(self.topic, Rebalance(self._assigned, self._revoked, self._lost))
        self.until(lambda: self.owned and self.consumer.stable())

    def start(self, offset: int) -> None:
        """Read what is owned from `offset`; what a client brought before isn't looked at."""
        self.records.clear()
        self.consumer.start(dict.fromkeys(self.owned, offset))

    def until(self, holds: Callable[[], object]) -> None:
        """Poll until something holds."""
        limit = time.monotonic() + WITHIN
        while not holds():
            assert time.monotonic() < limit, "it never came to hold"
            self.records += self.consumer.poll(0.05)

    def poll_for(self, seconds: float) -> None:
        """Poll for a while."""
        limit = time.monotonic() + seconds
        while time.monotonic() < limit:
            self.records += self.consumer.poll(0.05)

    def offsets(self, partition: int) -> list[int]:
        """The messages read of a partition."""
        return [record.offset for record in self.records if record.partition.partition == partition]

    def _assigned(self, partitions: Partitions) -> None:
        self.owned |= set(partitions)

    def _revoked(self, partitions: Partitions) -> None:
        self.owned -= set(partitions)
        self.revoked += partitions

    def _lost(self, partitions: Partitions) -> None:
        self.owned -= set(partitions)
        self.lost += partitions


@contextmanager
def member(client: KafkaClient, settings: KafkaSettings) -> Iterator[Member]:
    """A member that has joined."""
    consumer = client.consumer()
    joined = Member(consumer, settings.topics.queries)
    try:
        joined.join()
        yield joined
    finally:
        consumer.close()


@contextmanager
def member_beside(client: KafkaClient, settings: KafkaSettings, beside: Member) -> Iterator[Member]:
    """A second member, which has joined; the first is polled meanwhile."""
    consumer = client.consumer()
    second = Member(consumer, settings.topics.queries)
    with polled(beside):
        second.join()
        second.until(lambda: len(beside.owned) == len(second.owned) == 1 and beside.consumer.stable())
    yield second
    consumer.close()


def fenced(client: KafkaClient, replica: str = REPLICA, replaced: Callable[[], None] = lambda: None) -> FencedProducer:
    """A producer in transactions, as a flow of that replica makes it."""
    return FencedProducer(lambda: client.transactional_producer(replica, MAX_BATCH), client.name, replaced)


def produce(settings: KafkaSettings, count: int, partition: int = 0) -> None:
    """Put records into the queries topic."""
    producer = kafka.KafkaProducer(bootstrap_servers=settings.bootstrap_servers, acks="all")
    for number in range(count):
        headers = [("name", b"value"), ("empty", b"")]
        producer.send(
            settings.topics.queries, b"%d" % number, b"key", headers=headers, partition=partition, timestamp_ms=NOW_MS
        )
    producer.flush()
    producer.close()


def results(settings: KafkaSettings, topic: str | None = None) -> list[bytes | None]:
    """The results that a reader of committed records sees up to the topic's present end, in any order."""
    topic = topic or settings.topics.results
    # The ends of all that was written: a transaction's marks may come after the producer has its answer, and a reader
    # of committed records has no end beyond what they decide.
    with closing(kafka.KafkaConsumer(bootstrap_servers=settings.bootstrap_servers)) as uncommitted:
        partitions = [kafka.TopicPartition(topic, number) for number in uncommitted.partitions_for_topic(topic)]
        ends = uncommitted.end_offsets(partitions)
    values: list[bytes | None] = []
    limit = time.monotonic() + WITHIN
    with closing(
        kafka.KafkaConsumer(bootstrap_servers=settings.bootstrap_servers, isolation_level="read_committed")
    ) as consumer:
        consumer.assign(partitions)
        consumer.seek_to_beginning()
        while any(consumer.position(partition) < end for partition, end in ends.items()):
            assert time.monotonic() < limit, f"a transaction below {ends} never ended"
            polled = consumer.poll(timeout_ms=50)
            values += [record.value for records in polled.values() for record in records]
    return values


def answers(settings: KafkaSettings, *values: bytes) -> list[OutputRecord]:
    """Records for the results topic."""
    return [output_record(number, topic=settings.topics.results, value=value) for number, value in enumerate(values)]


def first(settings: KafkaSettings) -> TopicPartition:
    """The queries topic's first partition."""
    return TopicPartition(settings.topics.queries, 0)


def polled(reader: Member) -> AbstractContextManager[None]:
    """The member is polled until the block is left."""

    def poll() -> None:
        reader.records += reader.consumer.poll(0.05)

    return repeated(poll)


def forgiving(reader: Member) -> Callable[[Callable[[], object]], None]:
    """Like `until`, for a member that has to join again."""

    def until(holds: Callable[[], object]) -> None:
        limit = time.monotonic() + WITHIN
        while not holds():
            assert time.monotonic() < limit, "it never came to hold"
            try:
                reader.consumer.poll(0.05)
            except RetriableDelivery:
                continue

    return until
