"""The findings of `rankstream check` about Kafka: broker, topics and their settings, consumer groups, transactions."""

import asyncio
from collections.abc import Iterator, Mapping
from contextlib import aclosing
from typing import Final

from flows.assembly.clients import InProcess
from flows.assembly.collections import indexing_kafka
from flows.assembly.delivery import kafka_client
from flows.cli.check import Finding, Level
from operators.delivery import topics
from operators.delivery.broker import MEMBERS, TRANSACTIONS, describe_group, find_lag, lacking
from operators.delivery.schema_registry import SchemaRegistry
from operators.delivery.topics import MAX
from schemas.errors import ConfigError, DeliveryError, Unreachable
from schemas.settings import KafkaSettings, Settings

_PROBE: Final = "check"
"""End of a transactional id that no replica has."""


def check_kafka(settings: Settings, _: InProcess) -> Iterator[Finding]:
    """The findings about the broker, and about all that the flows need of it."""
    section = settings.kafka
    try:
        described = topics.describe_topics(section)
    except Unreachable as error:
        yield Finding("error", "kafka", error.what, f"{error.cure[0].upper()}{error.cure[1:]}.")
        return
    except DeliveryError as error:
        remedy = "Correct the section kafka: bootstrap_servers, security_protocol, tls and sasl."
        yield Finding("error", "kafka", str(error), remedy)
        return
    yield Finding("ok", "kafka", f"{section.bootstrap_servers} answers")
    yield from _schema_registry(section)
    missing_features = lacking(section, settings.delivery.mode)
    for each in missing_features:
        what = f"the broker has no {each.name}: {each.follows}"
        yield Finding("error" if each.needed else "warning", "kafka features", what, each.remedy)
    if missing := [name for name, config in described.items() if config is None]:
        what = f"topics that do not exist: {', '.join(missing)}"
        yield Finding("error", "kafka topics", what, "Run rankstream topics, or correct kafka.topics.")
    else:
        yield Finding("ok", "kafka topics", "all of them are there")
    yield from _sizes(section, described)
    yield from _compaction(section, described)
    queries, documents = (
        name if described[name] is not None else None for name in (section.topics.queries, section.topics.documents)
    )
    describes = MEMBERS not in missing_features
    yield _group(section, queries, "rankstream run", "error", describes=describes)
    # The credentials of the search flow need not be those of the indexing flow.
    yield _group(indexing_kafka(settings), documents, "rankstream index", "warning", describes=describes)
    if TRANSACTIONS not in missing_features:
        yield from _transactions(settings)


def _schema_registry(section: KafkaSettings) -> Iterator[Finding]:
    if section.schema_registry.url is None:
        return

    async def ask() -> str:
        async with aclosing(SchemaRegistry(section.schema_registry)) as registry:
            await registry.check()
        return registry.url

    try:
        url = asyncio.run(ask())
    except (ConfigError, DeliveryError) as error:
        remedy = "Start the registry, or correct the section kafka.schema_registry. Until then events in Avro wait."
        yield Finding("error", "kafka schema registry", str(error), remedy)
    else:
        yield Finding("ok", "kafka schema registry", f"{url} answers")


Described = Mapping[str, Mapping[str, str] | None]


def _sizes(section: KafkaSettings, described: Described) -> Iterator[Finding]:
    letters = section.topics.dead_letters
    room = described.get(letters)
    for name in (section.topics.queries, section.topics.documents):
        config = described.get(name)
        if not room or not config:
            continue
        wanted, largest = topics.room_wanted(topics.max_of(config)), topics.max_of(room)
        if largest < wanted:
            what = f"{MAX} is {largest}: a dead letter of the largest message of {name} is kept without the message"
            yield Finding("warning", f"kafka {letters}", what, f"Set {MAX} of {letters} to {wanted} or more.")


def _compaction(section: KafkaSettings, described: Described) -> Iterator[Finding]:
    for role, name in (("watermarks", section.topics.watermarks), ("rules", section.topics.rules)):
        config = described.get(name) if name is not None else None
        if config and "compact" not in config.get("cleanup.policy", "compact"):
            follows = f"{role} are lost after the retention, and a replica reads all of them at its start"
            remedy = f"Set cleanup.policy of {name} to compact."
            yield Finding("warning", f"kafka {name}", f"it is not compacted: {follows}", remedy)


def _group(section: KafkaSettings, topic: str | None, command: str, refused: Level, *, describes: bool) -> Finding:
    subject = f"kafka group {section.group_id}"
    allow = f"Allow rankstream to read the group {section.group_id} and its topic, or correct kafka.group_id."
    try:
        group = describe_group(section) if describes else None
        lag = find_lag(kafka_client(section), topic) if topic is not None else 0
    except DeliveryError as error:
        return Finding(refused, subject, f"{command} cannot join it: {error}", allow)
    if group is not None and not group.readable:
        return Finding(refused, subject, f"{command} cannot join it: the broker lets it be described only", allow)
    members = "members not known" if group is None else f"{group.members} member{'s' if group.members != 1 else ''}"
    if topic is None:
        return Finding("ok", subject, members)
    what = f"{members}, lag {lag} on {topic}"
    if lag and group is not None and not group.members:
        return Finding("warning", subject, f"{what}: nobody reads it", f"Start {command}.")
    return Finding("ok", subject, what)


def _transactions(settings: Settings) -> Iterator[Finding]:
    section, delivery = settings.kafka, settings.delivery
    if delivery.mode != "exactly_once":
        what = "delivery.mode is at_least_once: after a crash some queries are answered twice"
        yield Finding("warning", "kafka transactions", what, "Set delivery.mode to exactly_once where that hurts.")
        return
    transactional_id = f"{section.group_id}-{_PROBE}"
    try:
        kafka_client(section).transactional_producer(transactional_id, topics.DEFAULT_MAX).close()
    except DeliveryError as error:
        remedy = f"Allow the transactional ids {section.group_id}-*, or set delivery.mode to at_least_once."
        yield Finding("error", "kafka transactions", f"{transactional_id} cannot begin: {error}", remedy)
    else:
        yield Finding("ok", "kafka transactions", "a transactional producer can be initialised")
