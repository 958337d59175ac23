"""The consumer groups, as the broker describes them: how many members each has, and how far behind it is.

kafka-python's admin client describes a group, whichever client delivers; offsets are asked by the one that delivers.
"""

import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from kafka import OffsetAndMetadata, TopicPartition
from kafka.errors import KafkaError, NoError

from operators.delivery.broker import administration
from operators.delivery.client import KafkaClient
from schemas.errors import FatalDelivery
from schemas.settings import KafkaSettings

_PATIENCE: Final = 5.0
"""Seconds in which a broker that has just started finds out who coordinates a group."""

_RETRY: Final = 0.2

_COORDINATOR: Final = "Coordinator"
"""Part of the name of each error that says that the coordinator isn't known, or doesn't know the group, yet."""

_ABSENT: Final = "Dead"
"""The state of a group that the broker knows nothing of."""


@dataclass(frozen=True, slots=True)
class ConsumerGroup:
    """A consumer group; one that no member has joined yet is like one that all members have left.

    `readable`: the client may join it and commit, as far as the broker says.
    """

    members: int
    readable: bool


def describe_group(settings: KafkaSettings) -> ConsumerGroup:
    """The settings' group. Raises FatalDelivery if the broker doesn't describe it, with the reason."""
    limit = time.monotonic() + _PATIENCE
    with administration(settings) as admin:
        description, error = _describe(admin, settings.group_id)
        while error is not None and _COORDINATOR in error and time.monotonic() < limit:
            time.sleep(_RETRY)
            description, error = _describe(admin, settings.group_id)
    if error is not None:
        raise FatalDelivery(error)
    operations = description.get("authorized_operations")
    return ConsumerGroup(len(description["members"]), operations is None or "READ" in operations)


def has_offsets(settings: KafkaSettings, topic: str) -> bool:
    """True if the settings' group has committed an offset of the topic. Raises FatalDelivery."""
    with administration(settings) as admin:
        found = admin.list_group_offsets({settings.group_id: None})[settings.group_id]
    return any(partition.topic == topic and each.offset >= 0 for partition, each in found.items())


def set_offsets(settings: KafkaSettings, topic: str, offsets: Mapping[int, int]) -> None:
    """Have the settings' group, which has no member, go on at these offsets of the topic. Raises FatalDelivery."""
    wanted = {TopicPartition(topic, number): OffsetAndMetadata(each, "", None) for number, each in offsets.items()}
    with administration(settings) as admin:
        found = admin.alter_group_offsets(settings.group_id, wanted)
    if refused := {error.__name__ for error in found.values() if error is not NoError}:
        raise FatalDelivery(f"the group {settings.group_id} can't get its offsets: {', '.join(sorted(refused))}")


def lag(client: KafkaClient, topic: str) -> int:
    """The number of a topic's offsets that the client's group has not committed. Raises DeliveryError."""
    reader = client.bounded_reader(topic)
    try:
        committed = reader.committed()
        return sum(max(0, end - committed[partition]) for partition, end in reader.ends().items())
    finally:
        reader.close()


def _describe(admin: Any, group_id: str) -> tuple[dict[str, Any], str | None]:
    try:
        description: dict[str, Any] = admin.describe_groups([group_id])[group_id]
    except KafkaError as error:
        return {}, type(error).__name__
    # Brokers since Kafka 4.0 call it an error that there is no such group.
    return description, None if description["group_state"] == _ABSENT else description["error"]
