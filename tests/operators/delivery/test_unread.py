"""Lag is what is unread: the end of a transaction isn't, and an open one is told apart. On a real broker."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from operators.delivery.broker import find_lag
from operators.delivery.client import Ends, KafkaClient, TopicPartition
from operators.delivery.ledger import Ledger
from operators.delivery.producers import AcknowledgedProducer
from operators.delivery.sink import Delivery
from operators.delivery.source import ConsumerLoop
from operators.runtime.event_loop import Wakeup
from schemas.settings import KafkaSettings
from tests.operators.delivery.members import MAX_BATCH, Make, fenced, first, member
from tests.operators.delivery.transactions import indexing
from tests.operators.samples import METRICS, REPLY_TOPICS, output_record, way_out

WITHIN = 30.0


@contextmanager
def answering(
    client: KafkaClient, settings: KafkaSettings, mode: str
) -> Iterator[Callable[[Callable[[], bool]], None]]:
    """A replica that answers what it reads while the test waits for something."""
    consumer, ledger, wakeup = client.consumer(), Ledger(100), Wakeup()
    loop = ConsumerLoop(consumer, ledger, settings.topics.queries, wakeup, 1, METRICS)
    producer = (
        fenced(client, settings.group_id)
        if mode == "exactly_once"
        else AcknowledgedProducer(client.plain_producer(MAX_BATCH), consumer)
    )
    delivery = Delivery(
        producer, consumer, ledger, way_out(), client.transaction_interval, loop.fail, METRICS, REPLY_TOPICS
    )
    delivery.start()
    loop.start(delivery.flush, delivery.advance)

    def until(holds: Callable[[], bool]) -> None:
        limit = time.monotonic() + WITHIN
        while not holds():
            assert time.monotonic() < limit, f"it never came to hold, at {ledger.positions()}"
            origins = [message.origin for message in loop.take()]
            delivery.enqueue(
                [
                    output_record(
                        o.offset, partition=o.partition, epoch=o.epoch, origin=o, topic=settings.topics.results
                    )
                    for o in origins
                ]
            )
            time.sleep(0.01)
            loop.check()

    try:
        yield until
    finally:
        loop.stop()
        delivery.close()
        loop.close()


@pytest.mark.parametrize("mode", ["exactly_once", "at_least_once"])
def test_a_partition_that_ends_in_a_transactions_end_has_no_lag(make: Make, settings: KafkaSettings, mode: str) -> None:
    """As the group's offsets say to every tool: after a commit, after an abort, and beside an open transaction."""
    topic, client = settings.topics.queries, make(settings)
    with indexing(settings, topic) as ended, indexing(settings, topic) as unfinished:
        ended.commit_one(b"a", 1)
        ended.write(b"a", 2, 1)
        ended.abort()
        with answering(client, settings, mode) as until:
            until(lambda: committed(client, topic) == {0: 2, 1: 2})
            ended.write(b"a", 3)
            ended.abort()
            until(lambda: committed(client, topic) == {0: 4, 1: 2})
            unfinished.write(b"b", 4)
            ended.commit_one(b"a", 5)
            assert find_lag(client, topic) == 0
            unfinished.commit()
            until(lambda: committed(client, topic) == {0: 8, 1: 2})
        with answering(client, settings, mode) as until:
            ended.commit_one(b"a", 6, 1)
            until(lambda: committed(client, topic) == {0: 8, 1: 4})


def committed(client: KafkaClient, topic: str) -> dict[int, int]:
    """The group's offsets."""
    reader = client.bounded_reader(topic)
    try:
        return reader.committed()
    finally:
        reader.close()


def test_a_member_knows_its_position_and_both_ends(make: Make, settings: KafkaSettings) -> None:
    """Behind marks, and before an open transaction, which the end of all records lies behind."""
    topic, partition = settings.topics.queries, first(settings)

    def told() -> tuple[int | None, Ends | None]:
        consumer, parts = reader.consumer, [partition]
        return consumer.positions(parts).get(partition), consumer.ends(parts).get(partition)

    with indexing(settings, topic) as ended, indexing(settings, topic) as unfinished:
        ended.commit_one(b"a", 1)
        ended.write(b"a", 2)
        ended.abort()
        with member(make(settings), settings) as reader:
            reader.start(0)
            reader.until(lambda: told() == (4, Ends(4, 4)))
            unfinished.write(b"b", 3)
            reader.until(lambda: told() == (4, Ends(4, 5)))
            unfinished.abort()
            reader.until(lambda: told() == (6, Ends(6, 6)))


def test_a_position_is_never_one_of_an_earlier_start(make: Make, settings: KafkaSettings) -> None:
    """However often reading starts again: what it has told then would be records that were skipped."""
    with indexing(settings, settings.topics.queries) as producer:
        for number in range(3):
            producer.commit_one(b"a", number)
    partition: TopicPartition = first(settings)
    with member(make(settings), settings) as reader:
        for start in (0, 2, 4) * 10:
            reader.start(start)
            assert reader.consumer.positions([partition]).get(partition, start) == start
            reader.until(lambda: reader.consumer.positions([partition]).get(partition) == 6)
            assert reader.offsets(0) == list(range(start, 6, 2))
