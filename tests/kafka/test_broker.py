"""The tests' own broker behaves as fault tests rely on."""

from collections.abc import Callable, Iterator

import pytest
from kafka import KafkaConsumer, KafkaProducer, TopicPartition
from kafka.errors import KafkaTimeoutError, MessageSizeTooLargeError

from bench.kafka.broker import Broker, BrokerError


@pytest.fixture
def own_broker(broker_tools: None) -> Iterator[Broker]:
    """A broker that a test may kill."""
    with Broker() as broker:
        yield broker


def test_a_killed_broker_comes_back_with_its_data(own_broker: Broker) -> None:
    """An acknowledged record is read after a kill and the restart, at the same address."""
    own_broker.create_topic("kept", partitions=1)
    producer = KafkaProducer(bootstrap_servers=own_broker.bootstrap)
    producer.send("kept", b"value", partition=0).get(timeout=10)
    producer.close()

    own_broker.kill()
    with pytest.raises(BrokerError, match="has not been started"):
        own_broker.check()
    own_broker.start()

    consumer = KafkaConsumer(bootstrap_servers=own_broker.bootstrap, auto_offset_reset="earliest")
    consumer.assign([TopicPartition("kept", 0)])
    records = consumer.poll(timeout_ms=10_000)
    consumer.close()
    assert [record.value for batch in records.values() for record in batch] == [b"value"]


def test_a_broker_that_dies_says_why(broker: Broker) -> None:
    """A broker that can't start raises with the last lines of its log, not with a time-out."""
    with pytest.raises(BrokerError, match="Address already in use"), Broker(port=broker.port):
        pass


def test_topics_are_made_as_asked(broker: Broker, topic_names: Callable[[str], str]) -> None:
    """A topic has the partitions and the configuration that the test asked for."""
    name = topic_names("configured")
    broker.create_topic(name, partitions=3, config={"max.message.bytes": "2000"})
    producer = KafkaProducer(bootstrap_servers=broker.bootstrap)
    assert producer.partitions_for(name) == {0, 1, 2}
    with pytest.raises(MessageSizeTooLargeError):
        producer.send(name, bytes(3000)).get(timeout=10)
    producer.close()


def test_topics_are_never_made_by_themselves(broker: Broker, topic_names: Callable[[str], str]) -> None:
    """A misspelt topic is an error, as it is in production."""
    producer = KafkaProducer(bootstrap_servers=broker.bootstrap, max_block_ms=500)
    with pytest.raises(KafkaTimeoutError):
        producer.send(topic_names("misspelt"), b"value")
    producer.close()
