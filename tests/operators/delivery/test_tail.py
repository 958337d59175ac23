"""The watermark reader's reliance on a tail: each client's on a real broker, one on the embedded."""

import gc
import logging
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing

import kafka
import pytest
from kafka.admin import NewPartitions

from operators.delivery.client import TAIL_METADATA_AGE, ConsumerRecord, KafkaClient, TopicReader
from operators.delivery.embedded_broker import PARTITIONS, EmbeddedBroker
from operators.delivery.librdkafka import Librdkafka
from schemas.errors import RetriableDelivery
from schemas.settings import KafkaSettings, Topics
from tests.operators.delivery.conftest import MAKERS
from tests.operators.delivery.members import NOW_MS, WITHIN, Make
from tests.operators.delivery.transactions import indexing

CALL_TIMEOUT = 10.0


@pytest.fixture
def tail(make: Make, settings: KafkaSettings) -> Iterator[TopicReader]:
    """A tail of the watermarks topic."""
    with closing(started(make(settings), settings.topics.watermarks)) as running:
        yield running


def started(client: KafkaClient, topic: str) -> TopicReader:
    """A tail of the topic; one that was made a moment ago may have no leader yet."""
    limit = time.monotonic() + WITHIN
    while True:
        try:
            return client.tail(topic)
        except RetriableDelivery:
            assert time.monotonic() < limit


def read(tail: TopicReader, reached: Callable[[], object] | None = None) -> list[ConsumerRecord]:
    """The records until the position is where the end is now, or until something else is reached."""
    ends = tail.ends(CALL_TIMEOUT)
    records: list[ConsumerRecord] = []
    limit = time.monotonic() + WITHIN
    while not (_passed(tail, ends) if reached is None else reached()):
        assert time.monotonic() < limit, f"at {tail.positions()} of {ends}"
        records += tail.poll(0.01)
    return records


def _passed(tail: TopicReader, ends: dict[int, int]) -> bool:
    # A transaction's mark may come after the ends.
    positions = tail.positions()
    return all(positions[number] >= end for number, end in ends.items())


def values(records: list[ConsumerRecord]) -> list[bytes | None]:
    """Their values."""
    return [record.value for record in records]


def test_all_is_read_from_the_beginning(make: Make, settings: KafkaSettings) -> None:
    """Records from before and after the tail was made come with key, value, timestamp and place, removals too."""
    topic = settings.topics.watermarks
    producer = kafka.KafkaProducer(bootstrap_servers=settings.bootstrap_servers)
    headers = [("name", b"value")]
    producer.send(topic, b"1", b"a|b|0", headers, partition=1, timestamp_ms=NOW_MS).get(WITHIN)
    with closing(started(make(settings), settings.topics.watermarks)) as tail:
        assert tail.positions() == {0: 0, 1: 0}
        [before] = read(tail)
        producer.send(topic, None, b"a|b|0", partition=1, timestamp_ms=NOW_MS).get(WITHIN)
        [after] = read(tail)
        assert (before.partition, before.offset, before.key, before.value) == ((topic, 1), 0, b"a|b|0", b"1")
        assert (after.offset, after.key, after.value) == (1, b"a|b|0", None)
        assert before.timestamp == NOW_MS / 1000
        assert tail.positions() == tail.ends(CALL_TIMEOUT) == {0: 0, 1: 2}
    producer.close()


def test_ends_are_of_now(tail: TopicReader, settings: KafkaSettings) -> None:
    """An acknowledged record is below the end at once, each time, whether or not it is read."""
    producer = kafka.KafkaProducer(bootstrap_servers=settings.bootstrap_servers, acks="all")
    for count in range(1, 101):
        producer.send(settings.topics.watermarks, b"1", b"a|b|0", partition=count % 2).get(WITHIN)
        assert sum(tail.ends(CALL_TIMEOUT).values()) == count
    producer.close()


def test_the_marks_of_transactions_are_passed(tail: TopicReader, settings: KafkaSettings) -> None:
    """After commits and aborts the position gets to the end, which is beyond the last record."""
    with indexing(settings) as indexer:
        for number in range(3):
            indexer.commit_one(b"a|b|0", number)
            assert values(read(tail))[-1:] in ([b"%d" % number], [])
        indexer.write(b"a|b|0", 9)
        indexer.abort()
        # The marks are written a moment after the producer has its answer.
        read(tail, lambda: tail.positions() == {0: 8, 1: 0})
        assert tail.ends(CALL_TIMEOUT) == {0: 8, 1: 0}


def test_an_open_transaction_hides_nothing(tail: TopicReader, settings: KafkaSettings) -> None:
    """A commit behind an open transaction is below the end, and is read, while that stays open."""
    with indexing(settings) as slow, indexing(settings) as quick:
        slow.write(b"a|slow|0", 1)
        quick.commit_one(b"a|quick|0", 2)
        assert tail.ends(CALL_TIMEOUT)[0] >= 2
        assert values(read(tail)) == [b"1", b"2"]
        slow.abort()


def test_what_was_deleted_is_not_waited_for(make: Make, settings: KafkaSettings) -> None:
    """A partition that begins at its end is at its end before any record comes."""
    # The watermarks' own topic compacts: a broker deletes nothing of it when asked to.
    topic = settings.topics.queries
    producer = kafka.KafkaProducer(bootstrap_servers=settings.bootstrap_servers)
    for _ in range(3):
        producer.send(topic, b"1", b"a|b|0", partition=0).get(WITHIN)
    admin = kafka.KafkaAdminClient(bootstrap_servers=settings.bootstrap_servers)
    admin.delete_records({kafka.TopicPartition(topic, 0): 3})
    admin.close()
    producer.close()
    with closing(started(make(settings), topic)) as tail:
        assert tail.positions() == tail.ends(CALL_TIMEOUT) == {0: 3, 1: 0}


def added(tail: TopicReader) -> bool:
    """True if the third partition is there and has a leader."""
    try:
        return 2 in tail.ends(CALL_TIMEOUT)
    except RetriableDelivery:
        return False


@pytest.mark.slow
def test_added_partitions_are_found(tail: TopicReader, settings: KafkaSettings) -> None:
    """A partition that is added is among the ends soon, and what it holds is read; nothing else is read again."""
    topic = settings.topics.watermarks
    with indexing(settings) as indexer:
        indexer.commit_one(b"a|b|0", 1)
        assert values(read(tail)) == [b"1"]
        admin = kafka.KafkaAdminClient(bootstrap_servers=settings.bootstrap_servers)
        admin.create_partitions({topic: NewPartitions(3)})
        limit = time.monotonic() + WITHIN
        while len(admin.describe_topics([topic])[0]["partitions"]) < 3:
            assert time.monotonic() < limit
        admin.close()
    producer = kafka.KafkaProducer(bootstrap_servers=settings.bootstrap_servers)
    assert producer.send(topic, b"7", b"a|b|0", partition=2).get(WITHIN)
    producer.close()
    time.sleep(TAIL_METADATA_AGE)
    limit = time.monotonic() + WITHIN
    while not added(tail):
        assert time.monotonic() < limit
    assert values(read(tail)) == [b"7"]


def test_an_unknown_topic_is_retriable(make: Make, settings: KafkaSettings) -> None:
    """A topic that isn't there may come."""
    with pytest.raises(RetriableDelivery, match="doesn't exist"):
        make(settings).tail("misspelt")


@pytest.fixture
def refused_sockets(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    """kafka-python leaves them to the garbage collector, which mustn't find them in another test, nor in a log."""
    caplog.set_level(logging.CRITICAL, "kafka")
    yield
    gc.collect()


@pytest.mark.filterwarnings("ignore:.*unclosed <socket:ResourceWarning")
@pytest.mark.slow
def test_an_unreachable_broker_is_retriable(refused_sockets: None) -> None:
    """A broker that isn't there may come, to each client; the tries leave no thread behind."""
    before = set(threading.enumerate())
    nobody = KafkaSettings(bootstrap_servers="127.0.0.1:1")
    with ThreadPoolExecutor() as pool:
        tries = [pool.submit(make(nobody).tail, "watermarks") for make in MAKERS.values()]
        assert [type(one.exception()) for one in tries] == [RetriableDelivery] * len(MAKERS)
    assert set(threading.enumerate()) <= before


@pytest.mark.slow
def test_the_embedded_broker_has_tails() -> None:
    """On the embedded broker its client reads all of a topic, and asks for its ends."""
    with EmbeddedBroker() as broker:
        settings = broker.client_settings(Topics(watermarks="marks"))
        broker.create_topic("marks")
        producer = kafka.KafkaProducer(bootstrap_servers=broker.bootstrap_servers, api_version=(2, 3))
        with closing(started(Librdkafka(settings), "marks")) as tail:
            assert tail.positions() == tail.ends(CALL_TIMEOUT) == dict.fromkeys(range(PARTITIONS), 0)
            for number in range(20):
                producer.send("marks", b"%d" % number, b"a|b|0", partition=number % 2).get(WITHIN)
            assert tail.ends(CALL_TIMEOUT) == {0: 10, 1: 10, 2: 0, 3: 0}
            assert sorted(int(value or b"") for value in values(read(tail))) == list(range(20))
        producer.close()
