"""The tests' own broker behaves as fault tests rely on."""

from collections.abc import Callable, Iterator

import pytest
from kafka import KafkaConsumer, KafkaProducer, TopicPartition

from tests.kafka.broker import Broker, BrokerError, missing_tools


@pytest.fixture
def own_broker() -> Iterator[Broker]:
    """A broker that a test may kill."""
    if missing := missing_tools():
        pytest.skip(f"a real broker needs {' and '.join(missing)}")
    with Broker() as broker:
        yield broker


@pytest.mark.broker
def test_a_killed_broker_comes_back_with_its_data(own_broker: Broker) -> None:
    """What was acknowledged before a kill is read after the restart, at the same address."""
    own_broker.create_topic("kept", partitions=1, config={"max.message.bytes": "2000"})
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
    """A topic has the partitions and the configuration that the test asked for, and exists once created."""
    name = topic_names("configured")
    broker.create_topic(name, partitions=3, config={"max.message.bytes": "2000"})
    with broker.admin() as admin:
        [topic] = admin.describe_topics([name])
        assert len(topic["partitions"]) == 3
    with broker.admin() as admin:
        assert topic_names("never-made") not in admin.list_topics()
