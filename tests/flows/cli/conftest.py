"""Topics on a real broker for what the commands do, by each Kafka client."""

from collections.abc import Callable
from typing import Any

import pytest

from bench.kafka.broker import Broker
from operators.delivery import topics
from schemas.settings import KafkaSettings, Topics


@pytest.fixture(params=["kafka-python", "librdkafka"])
def kafka_settings(request: pytest.FixtureRequest, broker: Broker, topic_names: Callable[[str], str]) -> KafkaSettings:
    """Settings of topics that exist, of two partitions each, and of either client."""
    roles = [role for role in Topics.model_fields if role != "reply_to"]
    names: dict[str, Any] = {role: topic_names(role.replace("_", "-")) for role in roles}
    settings = KafkaSettings(
        client=request.param,
        bootstrap_servers=broker.bootstrap,
        group_id=topic_names("group"),
        topics=Topics(**names),
        partitions=2,
    )
    topics.create(settings)
    return settings
