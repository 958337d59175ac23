"""The delivery's reliance on a consumer, each client's, on a real broker."""

import subprocess
import sys
import threading
import time
from collections.abc import Mapping

import kafka
import pytest

from operators.delivery.client import READ_HEADERS, ConsumerRecord, GroupMetadata, Partitions, Rebalance, TopicPartition
from operators.delivery.librdkafka import Librdkafka
from operators.delivery.tracker import Commit
from schemas.errors import RetriableDelivery
from schemas.settings import KafkaSettings
from tests.operators.delivery.members import (
    MAX_BATCH,
    NOW_MS,
    REPLICA,
    Make,
    Member,
    answers,
    first,
    forgiving,
    member,
    member_beside,
    produce,
    results,
)
from tests.operators.delivery.transactions import indexing


def test_records_come_as_they_were_produced(make: Make, settings: KafkaSettings) -> None:
    """Key, value, headers, timestamp, partition and offset of a record are its own, in order."""
    produce(settings, 3)
    with member(make(settings), settings) as reader:
        reader.start(0)
        reader.until(lambda: len(reader.records) == 3)
        place, headers = first(settings), (("name", b"value"), ("empty", b""))
        assert reader.records == [
            ConsumerRecord(place, number, b"key", b"%d" % number, headers, NOW_MS / 1000) for number in (0, 1, 2)
        ]


@pytest.mark.parametrize("count", [0, 1, READ_HEADERS, READ_HEADERS + 1, 100_000, 100_001])
def test_no_record_seems_to_have_no_headers(make: Make, settings: KafkaSettings, count: int) -> None:
    """Of too many none is read, and the record says so: without them it would be another's who sends none."""
    producer = kafka.KafkaProducer(bootstrap_servers=settings.bootstrap_servers, compression_type="gzip")
    for number, headers in enumerate((0, count, 0)):
        producer.send(settings.topics.queries, b"%d" % number, headers=[("h", b"")] * headers, partition=0)
    producer.flush()
    client, read = make(settings), (("h", b""),) * count if count <= READ_HEADERS else None
    consumer = client.consumer(headers_decide=True)
    reader = Member(consumer, settings.topics.queries)
    try:
        reader.join()
        reader.start(0)
        reader.until(lambda: len(reader.records) == 3)
    finally:
        consumer.close()
    assert [record.headers for record in reader.records] == [(), read, ()]
    assert [record.value for record in reader.records] == [b"0", b"1", b"2"]


class _NotUtf8(str):
    """A header's name that encodes to what isn't UTF-8."""

    def encode(self, *_: object) -> bytes:
        return b"\xff\xfe"


def test_a_header_that_is_not_text_stops_nobody(make: Make, settings: KafkaSettings) -> None:
    """A record with a header's name that isn't UTF-8 comes without headers, its neighbours as they are."""
    producer = kafka.KafkaProducer(bootstrap_servers=settings.bootstrap_servers, linger_ms=100)
    # Often, because the interpreter looks for fewer errors in code that has run often.
    names = ("ok", _NotUtf8("x"), "fine") * 50
    for number, name in enumerate(names):
        producer.send(settings.topics.queries, b"%d" % number, b"key", headers=[(name, b"value")], partition=0)
    producer.flush()
    producer.close()
    with member(make(settings), settings) as reader:
        reader.start(0)
        reader.until(lambda: len(reader.records) == len(names))
        found = [(record.key, record.value, record.headers) for record in reader.records]
        assert found == [
            (b"key", b"%d" % number, None if isinstance(name, _NotUtf8) else ((name, b"value"),))
            for number, name in enumerate(names)
        ]


def test_only_what_is_committed_is_read(make: Make, settings: KafkaSettings) -> None:
    """No record of a transaction that was aborted comes; one that was committed comes in its place."""
    with indexing(settings, settings.topics.queries) as producer:
        producer.write(b"key", 1)
        producer.abort()
        producer.commit_one(b"key", 2)
    with member(make(settings), settings) as reader:
        reader.start(0)
        reader.until(lambda: any(record.value == b"2" for record in reader.records))
        assert [record.value for record in reader.records] == [b"2"]


def test_importing_the_clients_changes_nothing() -> None:
    """A client changes Kafka's libraries and loggers when it is made, not when it is imported."""
    source = """
import logging
from kafka.record.default_records import DefaultRecordBatch
read, names = DefaultRecordBatch._read_msg, ("kafka.coordinator.consumer", "librdkafka")
from operators.delivery.kafka_python import KafkaPython
from operators.delivery.librdkafka import Librdkafka
from schemas.settings import KafkaSettings
assert DefaultRecordBatch._read_msg is read
assert not any(logging.getLogger(name).filters for name in names)
for _ in range(2):
    KafkaPython(KafkaSettings()), Librdkafka(KafkaSettings())
assert DefaultRecordBatch._read_msg is not read
assert [len(logging.getLogger(name).filters) for name in names] == [1, 1]
"""
    done = subprocess.run([sys.executable, "-c", source], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_reading_starts_where_it_is_told(make: Make, settings: KafkaSettings) -> None:
    """`start` decides the position, at first and again later, whatever the client would do by itself."""
    produce(settings, 10)
    with member(make(settings), settings) as reader:
        assert reader.consumer.beginning(first(settings)) == 0
        reader.start(4)
        reader.until(lambda: reader.offsets(0) == list(range(4, 10)))
        reader.start(8)
        reader.until(lambda: reader.offsets(0) == [8, 9])


def test_a_pause_loses_nothing(make: Make, settings: KafkaSettings) -> None:
    """Paused partitions bring nothing, and after `resume` go on at the record after the last."""
    produce(settings, 5)
    with member(make(settings), settings) as reader:
        reader.start(0)
        reader.until(lambda: len(reader.records) == 5)
        reader.consumer.fetch(list(reader.owned), wanted=False)
        produce(settings, 5)
        reader.poll_for(1)
        assert len(reader.records) == 5
        reader.consumer.fetch(list(reader.owned), wanted=True)
        reader.until(lambda: reader.offsets(0) == list(range(10)))


def test_partitions_are_revoked_before_another_has_them(
    make: Make, settings: KafkaSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first member is told before a second one joins, may still commit, and each ends up with one partition."""
    client = make(settings)
    producer = client.transactional_producer(REPLICA, MAX_BATCH)
    committed: list[bool] = []
    with member(client, settings) as reader:

        def last_commit(partitions: Partitions) -> None:
            thread = threading.Thread(target=deliver)
            thread.start()
            thread.join(5)
            committed.append(not thread.is_alive())
            told(partitions)

        def deliver() -> None:
            group = reader.consumer.group_metadata()
            producer.deliver(answers(settings, b"last"), {first(settings): Commit(1, "")}, group)

        told = reader._revoked
        monkeypatch.setattr(reader, "_revoked", last_commit)
        reader.consumer.subscribe(reader.topic, Rebalance(reader._assigned, last_commit, reader._lost))
        with member_beside(client, settings, reader) as other:
            assert len(reader.owned) == len(other.owned) == 1
            assert reader.owned != other.owned
            assert other.consumer.committed([first(settings)]) == {first(settings): Commit(1, "")}
    producer.close()
    assert committed[0]
    assert set(reader.revoked) == {first(settings), first(settings)._replace(partition=1)}


def test_offsets_are_committed_under_their_own_membership(make: Make, settings: KafkaSettings) -> None:
    """Outside of transactions, too, offsets that were chosen under a membership that is over aren't committed."""
    client = make(settings)
    with member(client, settings) as reader:
        over = reader.consumer.group_metadata()
        with member_beside(client, settings, reader):
            assert committing(reader, {first(settings): Commit(1, "")}, over) == ["commit: the membership is over"]
            assert not committing(reader, {first(settings): Commit(2, "")}, reader.consumer.group_metadata())
            assert reader.consumer.committed([first(settings)]) == {first(settings): Commit(2, "")}


def committing(reader: Member, commits: Mapping[TopicPartition, Commit], group: GroupMetadata) -> list[str]:
    """The error of a commit by another thread while the member is polled."""
    failures = []

    def commit() -> None:
        try:
            reader.consumer.commit(commits, group)
        except RetriableDelivery as error:
            failures.append(str(error))

    thread = threading.Thread(target=commit)
    thread.start()
    reader.until(lambda: not thread.is_alive())
    return failures


def test_while_partitions_go_another_thread_may_commit(settings: KafkaSettings) -> None:
    """librdkafka's consumer serves one thread at a time, and commits for others in the midst of a rebalance."""
    client = Librdkafka(settings)
    with member(client, settings) as reader:
        failed: list[BaseException] = []

        def last_commit(partitions: Partitions) -> None:
            try:
                reader.consumer.commit({first(settings): Commit(1, "")}, reader.consumer.group_metadata())
            except RetriableDelivery as error:
                failed.append(error)
            told(partitions)

        told = reader._revoked
        reader.consumer.subscribe(reader.topic, Rebalance(reader._assigned, last_commit, reader._lost))
        with member_beside(client, settings, reader) as other:
            assert other.consumer.committed([first(settings)]) == {first(settings): Commit(1, "")}
        assert not failed


def test_a_member_that_does_not_poll_loses_its_partitions(make: Make, settings: KafkaSettings) -> None:
    """Silent for longer than it may be, a member can't commit as if it still were one, and joins again."""
    client = make(settings)
    producer = client.transactional_producer(REPLICA, MAX_BATCH)
    with member(client, settings) as reader:
        before = reader.consumer.group_metadata()
        time.sleep(settings.max_poll_interval + 3)
        with pytest.raises(RetriableDelivery):
            producer.deliver(answers(settings, b"old"), {first(settings): Commit(9, "")}, before)
        rejoined = forgiving(reader)
        rejoined(lambda: len(reader.revoked) + len(reader.lost) == 2)
        rejoined(lambda: len(reader.owned) == 2 and reader.consumer.stable())
        assert reader.consumer.committed([first(settings)]) == {first(settings): None}
    producer.close()
    assert results(settings) == []
