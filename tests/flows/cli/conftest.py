"""Topics on a real broker for what the commands do, by each Kafka client; and a console that is served."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from bench.kafka.broker import Broker
from flows.cli.console.workbench import TracedResults
from operators.delivery import topics
from schemas.settings import KafkaSettings, Topics
from tests.flows.cli.browsing import Asked, Served, nothing, serving, workbench


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


@pytest.fixture
def asked() -> Asked:
    """The console's queries."""
    return []


@pytest.fixture
def served(asked: Asked, tmp_path: Path) -> Iterator[Served]:
    """A console that notes what it is to ask."""

    def note(searches: Sequence[Mapping[str, Any]]) -> TracedResults:
        asked.append(searches)
        return nothing(searches)

    with serving(workbench(tmp_path, note)) as found:
        yield found
