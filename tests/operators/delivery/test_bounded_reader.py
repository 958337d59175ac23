"""The commands' reliance on a bounded reader, each client's, on a real broker."""

import time
from collections.abc import Callable
from contextlib import closing

import kafka
import pytest

from operators.delivery.client import ConsumerRecord, TopicReader
from operators.delivery.tracker import Commit
from schemas.errors import RetriableDelivery
from schemas.settings import KafkaSettings
from tests.operators.delivery.members import NOW_MS, REPLICA, WITHIN, Make, first, member, produce
from tests.operators.delivery.transactions import indexing


def read(reader: TopicReader, enough: Callable[[], bool]) -> list[ConsumerRecord]:
    """The records until there are enough."""
    records: list[ConsumerRecord] = []
    limit = time.monotonic() + WITHIN
    while not enough():
        assert time.monotonic() < limit, f"at {reader.positions()}"
        records += reader.poll(0.01)
    return records


def test_records_come_as_they_were_produced(make: Make, settings: KafkaSettings) -> None:
    """From the beginning: key, value, headers, timestamp and place of each record, in order, to the noted ends."""
    produce(settings, 3)
    with closing(make(settings).bounded_reader(settings.topics.queries)) as reader:
        begins, ends = reader.positions(), reader.ends()
        assert (begins, ends) == ({0: 0, 1: 0}, {0: 3, 1: 0})
        records = read(reader, lambda: reader.positions() == ends)
        place, headers = first(settings), (("name", b"value"), ("empty", b""))
        assert records == [
            ConsumerRecord(place, number, b"key", b"%d" % number, headers, NOW_MS / 1000) for number in (0, 1, 2)
        ]


def test_from_the_end_only_what_comes_later_is_read(make: Make, settings: KafkaSettings) -> None:
    """Everything that is produced once the reader is there comes, also before its first poll, and nothing older."""
    produce(settings, 3)
    with closing(make(settings).bounded_reader(settings.topics.queries, from_end=True)) as reader:
        assert reader.positions() == {0: 3, 1: 0}
        produce(settings, 2)
        records = read(reader, lambda: reader.positions() == {0: 5, 1: 0})
        assert [record.offset for record in records] == [3, 4]


def test_the_end_of_what_is_committed_is_reached(make: Make, settings: KafkaSettings) -> None:
    """Behind aborted records and marks of transactions, and before an open one: the position gets to the end."""
    topic = settings.topics.watermarks
    with indexing(settings) as ended, indexing(settings) as unfinished:
        ended.commit_one(b"a", 1)
        ended.write(b"a", 2)
        ended.abort()
        with closing(make(settings).bounded_reader(topic)) as reader:
            # The marks are written a moment after the producer has its answer.
            records = read(reader, lambda: reader.positions() == {0: 4, 1: 0})
            assert [record.value for record in records] == [b"1"]
            unfinished.write(b"b", 3)
            assert reader.ends() == {0: 4, 1: 0}
            assert reader.poll(0.5) == []
            unfinished.commit()
            assert [each.value for each in read(reader, lambda: reader.positions() == {0: 6, 1: 0})] == [b"3"]
            assert reader.ends() == {0: 6, 1: 0}


def test_the_groups_committed_offsets(make: Make, settings: KafkaSettings) -> None:
    """The group's commits are told, its partitions' first offsets where there is none; the group stays."""
    produce(settings, 5, partition=1)
    client = make(settings)
    admin = kafka.KafkaAdminClient(bootstrap_servers=settings.bootstrap_servers)
    admin.delete_records({kafka.TopicPartition(settings.topics.queries, 1): 2})
    admin.close()
    with member(client, settings) as owner, closing(client.bounded_reader(settings.topics.queries)) as reader:
        # kafka-python may join once more right after it has joined.
        owner.poll_for(1)
        owner.until(owner.consumer.stable)
        revoked = list(owner.revoked)
        assert reader.committed() == {0: 0, 1: 2}
        producer = client.transactional_producer(REPLICA, 1_000_000)
        producer.deliver([], {first(settings)._replace(partition=1): Commit(4, "")}, owner.consumer.group_metadata())
        producer.close()
        assert reader.committed() == {0: 0, 1: 4}
        owner.poll_for(1)
        assert (len(owner.owned), owner.revoked) == (2, revoked)


def test_a_topic_that_is_not_there_is_named(make: Make, settings: KafkaSettings) -> None:
    """Without the topic the error names it, the broker, and the command that creates it."""
    with pytest.raises(RetriableDelivery, match=f"{settings.bootstrap_servers}: topic misspelt .* `rankstream topics`"):
        make(settings).bounded_reader("misspelt")


@pytest.mark.filterwarnings("ignore:.*unclosed <socket:ResourceWarning")
def test_a_broker_that_is_not_there_is_named(make: Make) -> None:
    """Without a broker the error names its address, after the time that a request has."""
    with pytest.raises(RetriableDelivery, match=r"127\.0\.0\.1:1: "):
        make(KafkaSettings(bootstrap_servers="127.0.0.1:1", request_timeout=2)).bounded_reader("results")
