"""The embedded broker serves real clients as a Kafka broker does, within its stated limits."""

import socket
from collections.abc import Iterator

import pytest
from kafka import KafkaConsumer, KafkaProducer, TopicPartition
from kafka.consumer.fetcher import ConsumerRecord
from kafka.structs import OffsetAndMetadata

from operators.delivery.embedded_broker import PARTITIONS, RETAINED_BYTES, EmbeddedBroker
from schemas.errors import FatalDelivery

pytestmark = pytest.mark.slow


@pytest.fixture
def embedded() -> Iterator[EmbeddedBroker]:
    """A running, empty broker."""
    with EmbeddedBroker() as broker:
        yield broker


@pytest.fixture
def producer(embedded: EmbeddedBroker) -> Iterator[KafkaProducer]:
    """A kafka-python producer of the broker."""
    producer = KafkaProducer(bootstrap_servers=embedded.bootstrap_servers, api_version=(2, 3))
    yield producer
    producer.close()


def consumer(embedded: EmbeddedBroker, group: str) -> KafkaConsumer:
    """A kafka-python consumer with the options that the broker needs."""
    return KafkaConsumer(
        bootstrap_servers=embedded.bootstrap_servers,
        group_id=group,
        api_version=(2, 3),
        check_crcs=False,
        fetch_max_wait_ms=10,
        auto_offset_reset="earliest",
        enable_auto_commit=False,
        session_timeout_ms=6000,
    )


def read(client: KafkaConsumer, count: int) -> list[ConsumerRecord]:
    """At least `count` records, or what came within 40 polls."""
    records: list[ConsumerRecord] = []
    for _ in range(40):
        for batch in client.poll(timeout_ms=500).values():
            records.extend(batch)
        if len(records) >= count:
            break
    return records


def test_a_group_reads_all_and_its_commits_stay(embedded: EmbeddedBroker, producer: KafkaProducer) -> None:
    """500 records arrive once each with key and headers; a commit's metadata is there for the group's next member."""
    embedded.create_topic("queries")
    for number in range(500):
        headers = [("traceparent", b"00-%d" % number), ("empty", b"")]
        producer.send("queries", b"value %d" % number, key=b"key %d" % number, headers=headers)
    producer.flush()

    member = consumer(embedded, "readers")
    member.subscribe(["queries"])
    records = read(member, 500)
    assert sorted(int(record.value.split()[1]) for record in records) == list(range(500))
    for record in records:
        number = int(record.value.split()[1])
        assert record.key == b"key %d" % number
        assert record.headers == [("traceparent", b"00-%d" % number), ("empty", b"")]
    assert {record.partition for record in records} == set(range(PARTITIONS))

    committed = {
        TopicPartition("queries", partition): OffsetAndMetadata(
            max(record.offset for record in records if record.partition == partition) + 1, f"dönè:{partition}", -1
        )
        for partition in range(PARTITIONS)
    }
    member.commit(committed)
    member.close()

    successor = consumer(embedded, "readers")
    for partition, expected in committed.items():
        got = successor.committed(partition, metadata=True)
        assert (got.offset, got.metadata) == (expected.offset, expected.metadata)
    successor.close()


def test_an_assigned_consumer_needs_no_join(embedded: EmbeddedBroker, producer: KafkaProducer) -> None:
    """With `assign` a client reads, seeks and commits at once, without joining the group."""
    first = producer.send("results", b"first", partition=2).get(timeout=10)
    producer.send("results", b"second", partition=2).get(timeout=10)
    place = TopicPartition("results", 2)
    client = consumer(embedded, "assigned")
    client.assign([place])
    assert [record.value for record in read(client, 2)] == [b"first", b"second"]
    client.commit({place: OffsetAndMetadata(first.offset + 1, "one", -1)})
    assert client.committed(place) == first.offset + 1
    client.seek(place, first.offset + 1)
    assert [record.value for record in read(client, 1)] == [b"second"]
    assert client.end_offsets([place]) == {place: first.offset + 2}
    client.close()


def test_created_topics_are_there_before_anything_is_sent(embedded: EmbeddedBroker) -> None:
    """A created topic has its partitions for a client that only reads, and creating it again changes nothing."""
    embedded.create_topic("documents")
    embedded.create_topic("documents")
    client = consumer(embedded, "any")
    assert client.partitions_for_topic("documents") == set(range(PARTITIONS))
    assert client.topics() == {"documents"}
    client.close()


def test_a_partition_forgets_its_oldest_records(embedded: EmbeddedBroker, producer: KafkaProducer) -> None:
    """RETAINED_BYTES is where unread records begin to vanish: less is kept whole, and twice that isn't."""
    place, value = TopicPartition("bounded", 0), bytes(10_000)
    client = consumer(embedded, "any")
    # A tenth off for what a record weighs besides its value.
    for _ in range(int(0.9 * RETAINED_BYTES / len(value))):
        producer.send("bounded", value, partition=0)
    producer.flush()
    assert client.beginning_offsets([place]) == {place: 0}
    for _ in range(RETAINED_BYTES // len(value)):
        producer.send("bounded", value, partition=0)
    producer.flush()
    assert client.beginning_offsets([place])[place] > 0
    client.close()


def test_stopping_frees_the_port_and_can_be_repeated() -> None:
    """After its end nothing listens, and the broker says so instead of hanging."""
    broker = EmbeddedBroker()
    with broker:
        host, port = broker.bootstrap_servers.split(":")
        socket.create_connection((host, int(port)), timeout=1).close()
    broker.__exit__()
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection((host, int(port)), timeout=1)
    assert broker.bootstrap_servers == ""
    with pytest.raises(FatalDelivery):
        broker.create_topic("late")
