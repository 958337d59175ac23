"""The topics: which exist, how large a record each takes, how they are created, and which of those that queries choose
by a pattern can be written to.

Rules for reply topics:
- The broker is asked, on the delivery's thread, before the first record for such a topic, and for a partition that a
  query chose; its answer counts for REMEMBERED seconds, and for MISSED seconds where there is no such topic or
  partition. After a delivery that failed it is asked again.
- A topic that does not exist is never sent to: many brokers would create it.
- A record is refused for good if its topic or partition does not exist, if the topic may not be written, or if it can't
  be for longer than AWAY seconds. The topics that are there from the start are waited for in that last case.
- The limit of a topic counts from the first answer on. Until then it is taken to have Kafka's default.
"""

import math
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple

import structlog
from kafka.admin import ConfigResource, ConfigResourceType
from kafka.errors import IncompatibleBrokerVersion

from operators.delivery.broker import administration
from operators.delivery.output_record import OutputRecord
from schemas.errors import FatalDelivery, RetriableDelivery
from schemas.settings import KafkaSettings

log = structlog.stdlib.get_logger(__name__)

MAX: Final = "max.message.bytes"

DEFAULT_MAX: Final = 1_048_588
"""Kafka's default `max.message.bytes`."""

DEAD_LETTER_ROOM: Final = 65_536
"""Bytes that a dead letter may need beyond the message that it holds."""


class TopicState(NamedTuple):
    """A topic, as a broker describes it. Partitions that are `away` have no leader, or too few replicas in sync."""

    partitions: int
    max_bytes: int
    writable: bool = True
    away: frozenset[int] = frozenset()


def require(settings: KafkaSettings, names: Sequence[str]) -> None:
    """Raise FatalDelivery if topics don't exist, naming them, or if the broker doesn't answer."""
    with administration(settings) as admin:
        there = set(admin.list_topics())
    if missing := [name for name in names if name not in there]:
        raise FatalDelivery(f"topics that don't exist: {', '.join(missing)}; `rankstream topics` creates them")


def warn_of_room(settings: KafkaSettings, topic: str) -> None:
    """Warn if the dead-letter topic takes no more than `topic`, whose messages it holds. Raises FatalDelivery."""
    letters = settings.topics.dead_letters
    sizes = max_message_bytes(settings, [letters, topic])
    if sizes[letters] < (wanted := room_wanted(sizes[topic])):
        cure = {"topic": letters, "remedy": f"set {MAX} of {letters} to {wanted} or more"}
        log.warning("the dead letter of a message of the largest size is kept without the message", **cure)


def room_wanted(max_bytes: int) -> int:
    """The size that the dead-letter topic must take to hold every message of a topic that takes `max_bytes`."""
    return max_bytes + DEAD_LETTER_ROOM


def max_message_bytes(settings: KafkaSettings, names: Iterable[str]) -> dict[str, int]:
    """The largest record batch that each topic takes, in bytes. Raises FatalDelivery."""
    with administration(settings) as admin:
        return {name: max_of(config) for name, config in _configs(admin, names).items()}


def find_states(settings: KafkaSettings, names: Sequence[str]) -> dict[str, TopicState | None]:
    """The state of each topic, None for those that don't exist; none is created by this. Raises RetriableDelivery."""
    try:
        with administration(settings) as admin:
            found = {each["name"]: each for each in admin.describe_topics([*names])}
            configs = _found_configs(admin, names) or {}
    except FatalDelivery as error:
        # It was there at the start.
        raise RetriableDelivery(f"reply topics: {error}") from error
    return {name: _state(found.get(name), configs.get(name, {})) for name in names}


def partitions(settings: KafkaSettings, topic: str) -> int:
    """The number of partitions of a topic that exists. Raises FatalDelivery."""
    with administration(settings) as admin:
        return sum(len(each["partitions"]) for each in admin.describe_topics([topic]))


def _state(topic: Mapping[str, Any] | None, config: Mapping[str, str]) -> TopicState | None:
    if topic is None or topic["error_code"] in _ABSENT:
        return None
    partitions, needed = topic["partitions"], int(config.get("min.insync.replicas", 1))
    away = {each["partition_index"] for each in partitions if each["leader_id"] < 0 or len(each["isr_nodes"]) < needed}
    # A broker that is not asked for it, or does not know it, says nothing.
    operations = topic.get("authorized_operations")
    writable = topic["error_code"] != _UNAUTHORIZED and (not operations or "WRITE" in operations)
    return TopicState(len(partitions), max_of(config), writable, frozenset(away))


_ABSENT: Final = frozenset({3, 17})
"""UNKNOWN_TOPIC_OR_PARTITION and INVALID_TOPIC_EXCEPTION."""

_UNAUTHORIZED: Final = 29
"""TOPIC_AUTHORIZATION_FAILED."""


def describe_topics(settings: KafkaSettings) -> dict[str, dict[str, str] | None]:
    """The configuration of every topic of the settings as far as the broker tells it, None where it does not exist.

    Raises FatalDelivery.
    """
    names = [*_plan(settings)]
    with administration(settings) as admin:
        there = set(admin.list_topics())
        configs = _configs(admin, [name for name in names if name in there])
    return {name: configs.get(name) for name in names}


def create(settings: KafkaSettings) -> list[str]:
    """Create the missing topics, each as its role needs it, and return their names. Raises FatalDelivery."""
    roles, wanted = settings.topics, _plan(settings)
    with administration(settings) as admin:
        there = set(admin.list_topics())
        if missing := [name for name in wanted if name not in there]:
            if roles.dead_letters in missing:
                read = [name for name in (roles.queries, roles.documents) if name in there]
                largest = max(map(max_of, _configs(admin, read).values()), default=DEFAULT_MAX)
                wanted[roles.dead_letters] = {MAX: str(room_wanted(largest))}
            size = {"num_partitions": settings.partitions, "replication_factor": settings.replication_factor}
            admin.create_topics({name: {**size, "configs": wanted[name]} for name in missing}, wait_for_metadata=True)
    return missing


def _plan(settings: KafkaSettings) -> dict[str, dict[str, str]]:
    """Every topic, with the options that its role needs, apart from the broker's defaults."""
    roles = settings.topics
    plain = (roles.queries, *roles.listed_replies, roles.documents, roles.dead_letters)
    wanted = dict.fromkeys((*plain, roles.experiments, roles.preferences), _PLAIN)
    wanted |= dict.fromkeys((roles.watermarks, roles.rules), _COMPACTED) | {roles.feedback: _TIMED}
    return {name: {**options} for name, options in wanted.items() if name is not None}


_PLAIN: Final[Mapping[str, str]] = {}

_TIMED: Final[Mapping[str, str]] = {"message.timestamp.type": "LogAppendTime"}
"""The broker's own times: they rise within a partition, whatever clocks clients have."""

_COMPACTED: Final[Mapping[str, str]] = {
    "cleanup.policy": "compact",
    # Kafka never compacts the segment that it writes to, and every search replica reads the whole topic at its start.
    "segment.ms": "600000",
    "segment.bytes": str(16 * 1024 * 1024),
}


def max_of(config: Mapping[str, str]) -> int:
    """The largest record batch that a topic takes; Kafka's default where the broker does not tell."""
    return int(config.get(MAX, DEFAULT_MAX))


def _configs(admin: Any, names: Iterable[str]) -> dict[str, dict[str, str]]:
    names = [*names]
    found = _found_configs(admin, names)
    if found is None:
        return {name: {} for name in names}
    # A broker that has just started may leave out what it does not know yet.
    if unknown := [name for name in dict.fromkeys(names) if not found.get(name)]:
        raise FatalDelivery(f"topics whose {MAX} the broker did not tell: {', '.join(unknown)}")
    return found


def _found_configs(admin: Any, names: Iterable[str]) -> dict[str, dict[str, str]] | None:
    resources = [ConfigResource(ConfigResourceType.TOPIC, name) for name in dict.fromkeys(names)]
    if not resources:
        return {}
    try:
        found = admin.describe_configs(resources, config_filter="all")["topic"]
    except IncompatibleBrokerVersion:
        return None
    return {topic: {name: each["value"] for name, each in config.items()} for topic, config in found.items()}


REMEMBERED: Final = 60.0
MISSED: Final = 5.0
AWAY: Final = 10.0
"""Seconds."""

MOST: Final = 1000
"""Topics that are remembered: the earliest are forgotten."""

Look = Callable[[Sequence[str]], Mapping[str, TopicState | None]]


class ReplyTopics:
    """Finds the records that can't go where their queries chose. One thread calls it; `limits` any may read."""

    def __init__(
        self, present: Iterable[str], limits: Mapping[str, int], look: Look, clock: Callable[[], float] = time.monotonic
    ) -> None:
        """`present` are the topics that exist from the start, `limits` the known ones; `look` asks the broker."""
        self.limits = dict(limits)
        self._present = frozenset(present)
        self._look = look
        self._clock = clock
        self._known: dict[str, tuple[TopicState | None, float]] = {}
        self._away: dict[str, float] = {}

    def find_refusals(self, records: Iterable[OutputRecord]) -> dict[int, str]:
        """The reasons of those records that have nowhere to go, by `id`. Raises RetriableDelivery and FatalDelivery."""
        chosen = [each for each in records if each.topic not in self._present or each.partition is not None]
        if not chosen:
            return {}
        now = self._clock()
        if asked := [*dict.fromkeys(record.topic for record in chosen if not self._knows(record, now))]:
            self._note(self._look(asked), now)
        found = {id(record): problem for record in chosen if (problem := self._problem(record, now)) is not None}
        self._forget_earliest()
        return found

    def invalidate(self) -> None:
        """Ask again before the next delivery."""
        self._known = {topic: (state, -math.inf) for topic, (state, _) in self._known.items()}

    def _knows(self, record: OutputRecord, now: float) -> bool:
        state, since = self._known.get(record.topic, (None, -math.inf))
        # A topic may have come, or grown.
        lacks = state is None or (record.partition is not None and record.partition >= state.partitions)
        return now - since < (MISSED if lacks else REMEMBERED)

    def _note(self, states: Mapping[str, TopicState | None], now: float) -> None:
        for topic, state in states.items():
            self._known.pop(topic, None)
            self._known[topic] = (state, now)
            if state is None or not state.away:
                self._away.pop(topic, None)
            else:
                self._away.setdefault(topic, now)
            if topic not in self._present and state is not None:
                self.limits[topic] = state.max_bytes

    def _forget_earliest(self) -> None:
        for topic in [*self._known][: max(0, len(self._known) - MOST)]:
            for each in (self._known, self._away, self.limits):
                if topic not in self._present:
                    each.pop(topic, None)

    def _problem(self, record: OutputRecord, now: float) -> str | None:
        state, topic, partition = self._known[record.topic][0], record.topic, record.partition
        if state is None:
            return f"reply_to: there is no topic {topic}"
        if partition is not None and partition >= state.partitions:
            return f"reply_to: topic {topic} has no partition {partition}, but {state.partitions} from 0"
        if topic in self._present:
            return None
        if not state.writable:
            return f"reply_to: topic {topic} may not be written by rankstream"
        away = partition in state.away if partition is not None else state.away
        if away and now - self._away[topic] >= AWAY:
            return f"reply_to: topic {topic} could not be written for {AWAY:.0f} seconds: it lacks a leader or replicas"
        return None
