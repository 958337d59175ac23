"""Each Kafka client, and topics for it on a real broker."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from bench.kafka.broker import Broker
from operators.delivery import topics
from operators.delivery.kafka_python import KafkaPython
from operators.delivery.librdkafka import Librdkafka
from schemas.settings import KafkaSettings, Topics
from tests.operators.delivery.members import Make

MAKERS: dict[str, Make] = {"kafka-python": KafkaPython, "librdkafka": Librdkafka}


@pytest.fixture(params=MAKERS)
def make(request: pytest.FixtureRequest) -> Make:
    """Each client."""
    return MAKERS[request.param]


@pytest.fixture
def settings(broker: Broker, topic_names: Callable[[str], str]) -> KafkaSettings:
    """Settings of topics that exist, of two partitions each."""
    names: dict[str, Any] = {
        role: topic_names(role.replace("_", "-")) for role in Topics.model_fields if role != "reply_to"
    }
    kafka_settings = KafkaSettings(
        bootstrap_servers=broker.bootstrap,
        group_id=topic_names("group"),
        topics=Topics(**names),
        partitions=2,
        max_poll_interval=7,
        request_timeout=8,
    )
    topics.create(kafka_settings)
    return kafka_settings


@pytest.fixture(scope="session")
def guarded(broker_tools: None) -> Iterator[Broker]:
    """A broker that goes by ACLs, and has none yet."""
    with Broker(acls=True) as broker:
        yield broker
