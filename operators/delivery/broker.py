"""The broker: if it can be reached, its administration, its consumer groups, the features that it lacks, and the
versions that were tried.

kafka-python's admin client asks, whichever client delivers; a group's lag is asked by the one that delivers.

Not every server of Kafka's protocol has all of Kafka. A broker says itself which requests it takes.

The protection of a transaction (see `producers`) depends on what each client reports of its connections, and on what
the broker refuses. The fault harness ran with the versions below; with any other a warning is logged at start.
"""

import socket
import time
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from importlib.metadata import version
from typing import Any, Final, NamedTuple

import structlog
from kafka import OffsetAndMetadata, TopicPartition
from kafka.admin import KafkaAdminClient
from kafka.errors import IncompatibleBrokerVersion, KafkaError, NoError

from operators.delivery.client import KafkaClient
from operators.delivery.kafka_python.connection import connection, describe, unmade
from operators.delivery.listener import Symptom, examine
from schemas.errors import FatalDelivery, Unreachable
from schemas.settings import KafkaSettings
from schemas.settings.delivery import DeliveryMode

log = structlog.stdlib.get_logger(__name__)

CLIENTS: Final[Mapping[str, tuple[str, str]]] = {
    "librdkafka": ("confluent-kafka", "2.16.1"),
    "kafka-python": ("kafka-python", "3.0.12"),
}
"""By client: its distribution, and the version of it that was tried."""

TRANSACTION_VERSIONS: Final = frozenset({0, 2})
"""Levels of the broker's feature `transaction.version` that were tried, on Kafka 4.1.1."""

_FEATURE: Final = "transaction.version"


class Feature(NamedTuple):
    """A feature of Kafka: the requests that it needs, each with the least version, and the consequence of its absence.

    `needed`: the flows do not start without it.
    """

    name: str
    requests: Mapping[int, int]
    follows: str
    remedy: str
    needed: bool = False


TRANSACTIONS: Final = Feature(
    "transactions",
    {22: 0, 24: 0, 25: 0, 26: 0, 28: 0},
    "no flow can deliver exactly once",
    "Set delivery.mode to at_least_once: after a crash, some queries are answered twice.",
    needed=True,
)
IDEMPOTENCE: Final = Feature(
    "idempotent producers",
    {22: 0},
    "no flow can write",
    "Use a broker that has InitProducerId, as Kafka since 0.11.",
    needed=True,
)
NEAREST: Final = Feature(
    "fetching from followers",
    {1: 11},
    "kafka.rack changes nothing: rankstream reads from the leaders",
    "Leave kafka.rack out.",
)
SIZES: Final = Feature(
    "DescribeConfigs",
    {32: 0},
    "the sizes that the topics take are not known: rankstream takes Kafka's default, 1048588 bytes, for them",
    "Let every topic take records of 1048588 bytes, or lower limits.max_message_bytes and limits.max_document_bytes.",
)
MEMBERS: Final = Feature(
    "DescribeGroups",
    {15: 0},
    "rankstream check does not see the members of a group",
    "Look at the service's own view of its groups.",
)
CREATION: Final = Feature(
    "CreateTopics", {19: 0}, "rankstream topics cannot create topics", "Create the topics with the service's own tools."
)

_CONNECT: Final = 5.0
_PORT: Final = 9092


def reach(settings: KafkaSettings, *, administered: bool = False) -> None:
    """Raise Unreachable, with the reason for each server and the cure, if none is a broker (to be `administered`)."""
    found: dict[str, Symptom] = {}
    for server in settings.bootstrap_servers.split(","):
        try:
            with socket.create_connection(address(server), _CONNECT) as connected:
                symptom = examine(settings, connected, administered=administered)
        except OSError as error:
            symptom = Symptom(_why(error), "start it, or correct kafka.bootstrap_servers")
        if symptom is None:
            return
        found[server.strip()] = symptom
    reasons = ", ".join(f"{server} ({symptom.why})" for server, symptom in found.items())
    cures = "; ".join(dict.fromkeys(symptom.cure for symptom in found.values()))
    raise Unreachable(f"no Kafka broker answers at {reasons}", cures)


def address(server: str) -> tuple[str, int]:
    """Host and port of `host`, `host:port` or `[v6]:port`. Raises OSError for a port that is no number."""
    host, colon, port = server.strip().rpartition(":")
    if not colon or port.endswith("]"):
        host, port = server.strip(), str(_PORT)
    if not port.isascii() or not port.isdigit():
        raise OSError(f"{port} is no port")
    return host.removeprefix("[").removesuffix("]"), int(port)


def _why(error: OSError) -> str:
    if isinstance(error, TimeoutError):
        return "no answer in time"
    if isinstance(error, socket.gaierror):
        return "unknown host"
    return (error.strerror or str(error)).lower()


@contextmanager
def administration(settings: KafkaSettings) -> Iterator[Any]:
    """The administration of the settings' broker, by kafka-python.

    Raises FatalDelivery if no broker can be reached, or if it refuses a request or doesn't answer it.
    """
    reach(settings, administered=True)
    try:
        admin = KafkaAdminClient(**connection(settings))
    except KafkaError as error:
        raise FatalDelivery(unmade(settings, error)) from error
    try:
        yield admin
    except KafkaError as error:
        raise FatalDelivery(describe(settings.bootstrap_servers, error)) from error
    finally:
        admin.close()


def lacking(settings: KafkaSettings, mode: DeliveryMode) -> list[Feature]:
    """The features that the broker lacks, of those that these settings need or could use. Raises FatalDelivery."""
    with administration(settings) as admin:
        return _lacking(admin, settings, mode)


def _lacking(admin: Any, settings: KafkaSettings, mode: DeliveryMode) -> list[Feature]:
    known = admin._manager.broker_version_data.api_versions
    wanted = [TRANSACTIONS if mode == "exactly_once" else IDEMPOTENCE, SIZES, MEMBERS, CREATION]
    if settings.rack:
        wanted.append(NEAREST)
    return [each for each in wanted if any(known.get(key, (0, -1))[1] < least for key, least in each.requests.items())]


def require_features(settings: KafkaSettings, client: str, mode: DeliveryMode) -> None:
    """Log each feature that the broker lacks and the flows can do without, and each version that was not tried.

    Raises FatalDelivery if the broker lacks what a flow needs, or doesn't answer.
    """
    with administration(settings) as admin:
        for each in _lacking(admin, settings, mode):
            if each.needed:
                raise FatalDelivery(f"the broker has no {each.name}: {each.follows}. {each.remedy}")
            if each not in (MEMBERS, CREATION):
                log.warning("broker lacks a feature", feature=each.name, follows=each.follows, remedy=each.remedy)
        if mode == "exactly_once":
            _warn_of_untried(admin, client)


def _warn_of_untried(admin: Any, client: str) -> None:
    distribution, tried = CLIENTS[client]
    if (found := version(distribution)) != tried:
        log.warning("client version was not tried", client=distribution, version=found, tried=tried)
    try:
        feature = admin.describe_features().get(_FEATURE)
    except IncompatibleBrokerVersion:
        feature = None
    if feature is None:
        log.warning("broker version was not tried: it is older than Kafka 4.0, or no Kafka", feature=_FEATURE)
        return
    _, level = feature.get("finalized", (0, 0))
    if level not in TRANSACTION_VERSIONS:
        log.warning("broker version was not tried", feature=_FEATURE, version=level, tried=sorted(TRANSACTION_VERSIONS))


_PATIENCE: Final = 5.0
"""Seconds in which a broker that has just started finds out who coordinates a group."""

_RETRY: Final = 0.2

_COORDINATOR: Final = "Coordinator"
"""Part of the name of each error that says that the coordinator isn't known, or doesn't know the group, yet."""

_ABSENT: Final = "Dead"
"""The state of a group that the broker knows nothing of."""


class ConsumerGroup(NamedTuple):
    """A consumer group, joined yet or not; `readable`: the client may join and commit, as far as the broker says."""

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


def find_lag(client: KafkaClient, topic: str) -> int:
    """The number of a topic's offsets that the client's group has not committed. Raises DeliveryError."""
    with closing(client.bounded_reader(topic)) as reader:
        committed = reader.committed()
        return sum(max(0, end - committed[partition]) for partition, end in reader.ends().items())


def _describe(admin: Any, group_id: str) -> tuple[dict[str, Any], str | None]:
    try:
        description: dict[str, Any] = admin.describe_groups([group_id])[group_id]
    except KafkaError as error:
        return {}, type(error).__name__
    # Brokers since Kafka 4.0 call it an error that there is no such group.
    return description, None if description["group_state"] == _ABSENT else description["error"]
