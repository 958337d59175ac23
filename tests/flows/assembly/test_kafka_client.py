"""Which Kafka client the settings mean."""

import pytest

from flows.assembly.delivery import kafka_client
from schemas.settings import KafkaSettings


@pytest.mark.parametrize("client", ["kafka-python", "librdkafka"])
def test_the_settings_name_the_client(client: str) -> None:
    """`kafka.client` decides."""
    settings = KafkaSettings.model_validate({"client": client})
    assert kafka_client(settings).name == client


def test_indexing_is_a_group_of_its_own() -> None:
    """Nothing but the group's name differs."""
    settings = KafkaSettings(group_id="g")
    assert settings.indexing == KafkaSettings(group_id="g-indexing")
