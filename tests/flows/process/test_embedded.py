"""Everything in one process: what the embedded broker's clients take of the settings."""

from pathlib import Path

import pytest

from flows.process.embedded import embedded_settings, start_with_settings
from schemas.settings import KafkaSettings


@pytest.mark.slow
def test_of_the_section_kafka_the_topics_alone_count(tmp_path: Path) -> None:
    """A client library, its options and a group that are meant for another broker change nothing."""
    own = {"client": "kafka-python", "options": {"api.version.auto.timeout.ms": 1}, "group_id": "theirs"}
    with start_with_settings(
        embedded_settings(tmp_path, {"kafka": {**own, "topics": {"queries": "asked"}}})
    ) as running:
        kafka = running.settings.kafka
        assert (kafka.client, kafka.options, kafka.group_id) == ("librdkafka", {}, KafkaSettings().group_id)
        assert kafka.topics.queries == "asked"
        assert running.kafka.name == "librdkafka"
