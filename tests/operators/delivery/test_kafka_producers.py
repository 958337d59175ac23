"""The delivery's reliance on a producer, each client's, on a real broker."""

import contextlib
import random
import threading
import time

import pytest

from bench.kafka.broker import Broker
from operators.delivery.client import RecordRefused
from operators.delivery.producers import AcknowledgedProducer
from operators.delivery.tracker import Commit
from schemas.errors import DeliveryError, Fenced, RetriableDelivery
from schemas.settings import KafkaSettings
from tests.operators.delivery.members import (
    MAX_BATCH,
    WITHIN,
    Make,
    answers,
    fenced,
    first,
    member,
    member_beside,
    polled,
    produce,
    results,
)
from tests.operators.samples import output_record


def test_records_and_offsets_are_committed_together(make: Make, settings: KafkaSettings) -> None:
    """After `deliver` the records are there and the next owner is told the offsets with their metadata."""
    produce(settings, 5)
    client = make(settings)
    producer = fenced(client)
    with member(client, settings) as reader:
        assert reader.consumer.committed(sorted(reader.owned)) == dict.fromkeys(reader.owned)
        commit = Commit(3, "rs1:AAE=")
        producer.deliver(answers(settings, b"a", b"b"), {first(settings): commit}, reader.consumer.group_metadata())
        assert reader.consumer.committed([first(settings)]) == {first(settings): commit}
    producer.close()
    assert sorted(results(settings), key=str) == [b"a", b"b"]


def test_a_record_too_large_is_named_and_the_rest_can_be_tried_again(make: Make, settings: KafkaSettings) -> None:
    """The broker's refusal says which records; nothing was committed; the next transaction delivers the rest."""
    client = make(settings)
    producer = fenced(client)
    with member(client, settings) as reader:
        # Bytes that don't compress: the broker measures what is sent.
        records = answers(settings, b"a", random.Random(0).randbytes(2_000_000), b"c")
        group = reader.consumer.group_metadata()
        with pytest.raises(RecordRefused) as refused:
            producer.deliver(records, {first(settings): Commit(3, "")}, group)
        assert list(refused.value.records) == [records[1]]
        assert reader.consumer.committed([first(settings)]) == {first(settings): None}
        producer.prepare()
        producer.deliver([records[0], records[2]], {first(settings): Commit(3, "")}, group)
    producer.close()
    assert sorted(results(settings), key=str) == [b"a", b"c"]


def test_a_membership_that_is_over_commits_nothing(make: Make, settings: KafkaSettings) -> None:
    """Offsets under an earlier generation are refused with the records; under the present one they are taken."""
    client = make(settings)
    producer = fenced(client)
    with member(client, settings) as reader:
        over = reader.consumer.group_metadata()
        with member_beside(client, settings, reader):
            with pytest.raises(RetriableDelivery):
                producer.deliver(answers(settings, b"old"), {first(settings): Commit(9, "")}, over)
            present = reader.consumer.group_metadata()
            producer.prepare()
            producer.deliver(answers(settings, b"new"), {first(settings): Commit(1, "")}, present)
            assert reader.consumer.committed([first(settings)]) == {first(settings): Commit(1, "")}
    producer.close()
    assert results(settings) == [b"new"]


def test_out_of_the_group_nothing_is_committed(make: Make, settings: KafkaSettings) -> None:
    """A consumer that hasn't joined has no membership that a transaction could be committed under."""
    client = make(settings)
    producer = fenced(client)
    consumer = client.consumer()
    with pytest.raises(RetriableDelivery, match="not a member"):
        producer.deliver(answers(settings, b"a"), {first(settings): Commit(1, "")}, consumer.group_metadata())
    consumer.close()
    producer.close()
    assert results(settings) == []


def test_a_successor_fences_its_predecessor(make: Make, settings: KafkaSettings) -> None:
    """A producer with the same transactional id ends what the former left open; the former says what fenced it."""
    client = make(settings)
    former = fenced(client)
    with member(client, settings) as reader:
        group = reader.consumer.group_metadata()
        former.deliver(answers(settings, b"a"), {first(settings): Commit(1, "")}, group)
        successor = fenced(client)
        with pytest.raises(Fenced, match=r"transactional id replica\S* has started"):
            former.deliver(answers(settings, b"b"), {first(settings): Commit(2, "")}, group)
        successor.deliver(answers(settings, b"c"), {first(settings): Commit(2, "")}, group)
        former.close()
        successor.close()
    assert sorted(results(settings), key=str) == [b"a", b"c"]


def test_a_topic_that_is_gone_can_be_waited_for(make: Make, settings: KafkaSettings, broker: Broker) -> None:
    """Without its topic a record isn't delivered and nothing is committed; once the topic is there, it is."""
    client = make(settings.model_copy(update={"transaction_timeout": 3}))
    producer = fenced(client)
    later = f"{settings.topics.results}-later"
    records = [output_record(0, topic=later, value=b"a")]
    with member(client, settings) as reader:
        group = reader.consumer.group_metadata()
        delivered = False
        created = threading.Timer(2, broker.create_topic, (later, 2))
        created.start()
        limit = time.monotonic() + WITHIN
        while not delivered:
            assert time.monotonic() < limit
            with polled(reader):
                try:
                    producer.prepare()
                    producer.deliver(records, {first(settings): Commit(1, "")}, group)
                    delivered = True
                except RetriableDelivery:
                    time.sleep(0.2)
        created.join()
        assert reader.consumer.committed([first(settings)]) == {first(settings): Commit(1, "")}
    producer.close()
    assert results(settings, later) == [b"a"]


MADE_AGAIN = [(6, 1), (6, 4), (2, 6), (3, 3)]
"""Partitions of a topic before and after."""


@pytest.mark.parametrize(("before", "after"), MADE_AGAIN)
@pytest.mark.parametrize("transactions", [True, False], ids=["transactions", "acknowledgements"])
def test_a_topic_that_was_made_again_is_written(
    make: Make, settings: KafkaSettings, broker: Broker, transactions: bool, before: int, after: int
) -> None:
    """With fewer, more or as many partitions: a try may fail, then all records are there, each once."""
    client = make(settings.model_copy(update={"transaction_timeout": 5, "request_timeout": 5}))
    topic = f"{settings.topics.results}-again-{before}-{after}"
    broker.create_topic(topic, before)
    sent = [b"%d" % number for number in range(30)]
    records = [output_record(number, topic=topic, key=value, value=value) for number, value in enumerate(sent)]
    with member(client, settings) as reader:
        producer = (
            fenced(client) if transactions else AcknowledgedProducer(client.plain_producer(MAX_BATCH), reader.consumer)
        )

        def deliver(offset: int) -> None:
            limit = time.monotonic() + WITHIN
            while True:
                try:
                    with polled(reader):
                        producer.prepare()
                        producer.deliver(
                            records, {first(settings): Commit(offset, "")}, reader.consumer.group_metadata()
                        )
                except RetriableDelivery:
                    assert time.monotonic() < limit, "it never goes on"
                else:
                    return

        deliver(1)
        broker.delete_topic(topic)
        broker.create_topic(topic, after)
        deliver(2)
        assert reader.consumer.committed([first(settings)]) == {first(settings): Commit(2, "")}
    producer.close()
    found = results(settings, topic)
    assert sorted(filter(None, found)) == sorted(sent) if transactions else set(found) == set(sent)


def test_acknowledged_records_come_before_their_offsets(make: Make, settings: KafkaSettings) -> None:
    """Without transactions the records are acknowledged, then the offsets and their metadata are committed."""
    client = make(settings)
    with member(client, settings) as reader:
        producer = AcknowledgedProducer(client.plain_producer(MAX_BATCH), reader.consumer)
        commit = Commit(2, "rs1:AAE=")
        done = threading.Event()

        def deliver() -> None:
            group = reader.consumer.group_metadata()
            producer.deliver(answers(settings, b"a", b"b"), {first(settings): commit}, group)
            done.set()

        threading.Thread(target=deliver).start()
        reader.until(done.is_set)
        assert reader.consumer.committed([first(settings)]) == {first(settings): commit}
        producer.close()
    assert sorted(results(settings), key=str) == [b"a", b"b"]


def test_offsets_are_not_committed_without_their_record(make: Make, settings: KafkaSettings, broker: Broker) -> None:
    """With a record whose topic went no offset is committed, whether the client says so or waits until it's ended."""
    client = make(settings.model_copy(update={"transaction_timeout": 4, "request_timeout": 3}))
    producer = fenced(client)
    gone = f"{settings.topics.results}-gone"
    broker.create_topic(gone, 2)
    with member(client, settings) as reader:
        group = reader.consumer.group_metadata()
        producer.deliver([output_record(0, topic=gone)], {first(settings): Commit(1, "")}, group)
        with broker.admin() as admin:
            admin.delete_topics([gone])
            while gone in admin.list_topics():
                broker.check()
        records = [output_record(1, topic=gone)]
        delivered: list[bool] = []

        def deliver() -> None:
            with contextlib.suppress(DeliveryError):
                producer.deliver(records, {first(settings): Commit(2, "")}, group)
                delivered.append(True)

        delivery = threading.Thread(target=deliver)
        delivery.start()
        reader.poll_for(8)
        assert not delivered
        assert reader.consumer.committed([first(settings)]) == {first(settings): Commit(1, "")}
        broker.create_topic(gone, 2)
        reader.until(lambda: not delivery.is_alive())
    producer.close()
