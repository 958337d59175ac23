"""The broker's description of a consumer group: its members, whether it may be read, and how far behind it is."""

from typing import Any

import pytest
from kafka.admin import ACL, ACLOperation, ACLPermissionType, ResourcePattern, ResourceType

from bench.kafka.broker import Broker
from operators.delivery.broker import ConsumerGroup, describe_group, find_lag
from operators.delivery.tracker import Commit
from schemas.errors import FatalDelivery, RetriableDelivery
from schemas.settings import KafkaSettings, Topics
from tests.operators.delivery.members import REPLICA, Make, first, member, produce
from tests.operators.delivery.scripted import until


def test_members_are_counted_while_they_are_there(make: Make, settings: KafkaSettings) -> None:
    """A group that nobody joined yet has none, and so has one that all have left."""
    assert describe_group(settings) == ConsumerGroup(members=0, readable=True)
    with member(make(settings), settings):
        assert describe_group(settings) == ConsumerGroup(members=1, readable=True)
    assert describe_group(settings) == ConsumerGroup(members=0, readable=True)


def test_the_lag_is_what_the_group_has_not_committed(make: Make, settings: KafkaSettings) -> None:
    """Everything that is there, as long as it has committed nothing; the group's members stay as they are."""
    client, topic = make(settings), settings.topics.queries
    assert find_lag(client, topic) == 0
    produce(settings, 3)
    produce(settings, 2, partition=1)
    assert find_lag(client, topic) == 5
    with member(client, settings) as owner:
        owner.poll_for(1)
        owner.until(owner.consumer.stable)
        producer = client.transactional_producer(REPLICA, 1_000_000)
        producer.deliver([], {first(settings): Commit(2, "")}, owner.consumer.group_metadata())
        producer.close()
        assert find_lag(client, topic) == 3
        assert describe_group(settings).members == 1


def test_the_lag_of_a_topic_that_is_not_there_is_not_known(make: Make, settings: KafkaSettings) -> None:
    """The error names it."""
    with pytest.raises(RetriableDelivery, match="misspelt"):
        find_lag(make(settings), "misspelt")


def rule(group_id: str, operation: Any, permission: Any) -> ACL:
    """True if everybody may do this with a group."""
    return ACL("User:*", "*", operation, permission, ResourcePattern(ResourceType.GROUP, group_id))


def test_a_group_that_may_not_be_described_is_an_error(guarded: Broker) -> None:
    """With the broker's reason."""
    settings = KafkaSettings(bootstrap_servers=guarded.bootstrap, group_id="hidden")
    assert describe_group(settings).readable
    with guarded.admin() as admin:
        admin.create_acls([rule("hidden", ACLOperation.ALL, ACLPermissionType.DENY)])

    def reason() -> str:
        try:
            describe_group(settings)
        except FatalDelivery as error:
            return str(error)
        return ""

    # A rule that the broker has accepted holds a moment later.
    until(lambda: "GroupAuthorizationFailed" in reason())


def test_a_group_that_may_be_described_only_is_not_readable(guarded: Broker, make: Make) -> None:
    """A member could not join it. The broker says so of a group that exists."""
    name = make(KafkaSettings()).name
    topics = Topics(queries=f"queries-{name}")
    settings = KafkaSettings(bootstrap_servers=guarded.bootstrap, group_id=f"described-{name}", topics=topics)
    guarded.create_topic(topics.queries)
    with member(make(settings), settings):
        assert describe_group(settings).readable
        with guarded.admin() as admin:
            describing = rule(settings.group_id, ACLOperation.DESCRIBE, ACLPermissionType.ALLOW)
            reading = rule(settings.group_id, ACLOperation.READ, ACLPermissionType.DENY)
            admin.create_acls([describing, reading])
        until(lambda: not describe_group(settings).readable)
