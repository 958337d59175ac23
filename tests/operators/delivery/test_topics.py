"""The state of topics, as a real broker tells it: nothing is created, and what can't be written is known before."""

from collections.abc import Callable

import pytest
from kafka.admin import ACL, ACLOperation, ACLPermissionType, ResourcePattern, ResourceType

from bench.kafka.broker import Broker
from operators.delivery.topics import DEFAULT_MAX, MAX, TopicState, create, describe_topics, find_states
from schemas.errors import RetriableDelivery
from schemas.settings import KafkaSettings, Topics
from tests.operators.delivery.scripted import until


def test_the_state_of_topics(broker: Broker, topic_names: Callable[[str], str]) -> None:
    """Partitions, the largest record, and the partitions with too few replicas; a missing topic stays missing."""
    settings = KafkaSettings(bootstrap_servers=broker.bootstrap)
    plain, small, alone, missing = map(topic_names, ("plain", "small", "alone", "missing"))
    broker.create_topic(plain, 3)
    broker.create_topic(small, 1, {MAX: "5000"})
    broker.create_topic(alone, 2, {"min.insync.replicas": "2"})
    expected = {
        plain: TopicState(3, DEFAULT_MAX),
        small: TopicState(1, 5000),
        alone: TopicState(2, DEFAULT_MAX, away=frozenset({0, 1})),
        missing: None,
        "no topic": None,
    }
    for _ in range(2):
        assert find_states(settings, [*expected]) == expected


def test_topics_are_made_as_their_roles_need_them(broker: Broker, topic_names: Callable[[str], str]) -> None:
    """Rules and watermarks are compacted; the broker times feedback; a role without a name has no topic."""
    roles = {role: topic_names(role.replace("_", "-")) for role in Topics.model_fields if role != "reply_to"}
    some = {role: name for role, name in roles.items() if role not in {"rules", "preferences"}}
    settings = [
        KafkaSettings(bootstrap_servers=broker.bootstrap, topics=Topics.model_validate(names), partitions=1)
        for names in (some, roles)
    ]
    assert {*create(settings[0])} == {*some.values()}
    assert {*create(settings[1])} == {roles["rules"], roles["preferences"]}
    made = {name: config or {} for name, config in describe_topics(settings[1]).items()}
    assert made.keys() == {*roles.values()}
    compacted = {role for role, name in roles.items() if made[name]["cleanup.policy"] == "compact"}
    timed = {role for role, name in roles.items() if made[name]["message.timestamp.type"] == "LogAppendTime"}
    assert (compacted, timed) == ({"rules", "watermarks"}, {"feedback"})


def test_a_topic_that_may_not_be_written(guarded: Broker, topic_names: Callable[[str], str]) -> None:
    """The broker says what each operation is allowed; a topic that may not even be described is no other."""
    settings = KafkaSettings(bootstrap_servers=guarded.bootstrap)
    read, hidden = topic_names("read"), topic_names("hidden")
    for topic, operation in ((read, ACLOperation.WRITE), (hidden, ACLOperation.ALL)):
        guarded.create_topic(topic)
        with guarded.admin() as admin:
            resource = ResourcePattern(ResourceType.TOPIC, topic)
            admin.create_acls(
                [
                    ACL("User:*", "*", ACLOperation.DESCRIBE, ACLPermissionType.ALLOW, resource),
                    ACL("User:*", "*", operation, ACLPermissionType.DENY, resource),
                ]
            )

    def writable() -> list[bool]:
        states = find_states(settings, [read, hidden])
        return [state is not None and state.writable for state in states.values()]

    # A rule that the broker has accepted holds a moment later.
    until(lambda: writable() == [False, False])


def test_a_broker_that_is_away_is_waited_for() -> None:
    """It was there at the start: the process does not end for it."""
    with pytest.raises(RetriableDelivery, match="reply topics: no Kafka broker answers"):
        find_states(KafkaSettings(bootstrap_servers="127.0.0.1:1"), ["a"])
