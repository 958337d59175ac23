"""Consumers by librdkafka: a member of a consumer group, and the reader of a topic, which joins none.

Of the reader:

- It counts the marks of transactions as read when it passes over them: a position gets to the end by itself.
- A broker answers a connection's requests one after the other, and a fetch waits there for records: one that asks for
  ends has a connection of its own.
- It fetches as soon as it is assigned something: that happens at a poll, for a reader that only asks never polls.
- A broker that has just become a partition's leader, as after the topic was made, isn't waited for: it is asked again.
- A consumer needs a group's name; neither of these joins it.
"""

import math
import queue
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from operator import methodcaller
from typing import Any, Final

import confluent_kafka
import orjson
from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from operators.delivery.client import (
    CALL_TIMEOUT,
    METADATA_AGE,
    READ_HEADERS,
    TAIL_METADATA_AGE,
    Commits,
    ConsumerRecord,
    Ends,
    GroupMetadata,
    Partitions,
    Rebalance,
    TopicReader,
    unknown_topic,
)
from operators.delivery.client import TopicPartition as Partition
from operators.delivery.error_codes import ends
from operators.delivery.kafka_python.records import SecondReader
from operators.delivery.librdkafka.connection import (
    describe,
    failure,
    kafka_error,
    log,
    naming_failures,
    offsets,
    open_consumer,
)
from operators.delivery.tracker import Commit
from schemas.errors import DeliveryError, FatalDelivery, RetriableDelivery
from schemas.settings import KafkaSettings

_COMMIT_WAIT: Final = 0.01
"""Seconds that a commit of another thread waits for a poll to end, where such commits happen."""

_ALL: Final = 100_000

_raw_headers: Final = methodcaller("headers")
"""A header's name that isn't UTF-8 leaves `headers` with a result and an exception. A call from Python code that has
run often doesn't look for the latter, which would come up at some later line; this one always does."""

_LEADERLESS: Final = frozenset({KafkaError.NOT_LEADER_FOR_PARTITION, KafkaError.LEADER_NOT_AVAILABLE})
_RETRY: Final = 0.05


class LibrdkafkaConsumer:
    """A dynamic member of the group. It reads committed records and commits nothing by itself."""

    def __init__(self, settings: KafkaSettings, second: SecondReader | None) -> None:
        self._second = second
        self._consumer = open_consumer(
            settings,
            {
                "isolation.level": "read_committed",
                "session.timeout.ms": int(settings.session_timeout * 1000),
                "heartbeat.interval.ms": int(settings.heartbeat_interval * 1000),
                "max.poll.interval.ms": int(settings.max_poll_interval * 1000),
                "partition.assignment.strategy": "range",
                "fetch.wait.max.ms": 500,
                "topic.metadata.refresh.interval.ms": int(METADATA_AGE * 1000),
                # Only there it tells the last stable offsets.
                "statistics.interval.ms": 1000,
                "stats_cb": self._note_stable,
            },
        )
        self._stable: dict[Partition, int] = {}
        self._membership: GroupMetadata = None
        self._commits: queue.SimpleQueue[tuple[Future[None], Commits, GroupMetadata]]
        self._commits = queue.SimpleQueue()
        self._longest_poll = float("inf")

    def subscribe(self, topic: str, rebalance: Rebalance) -> None:

        def assigned(consumer: Any, partitions: Sequence[TopicPartition]) -> None:
            consumer.assign([])
            self._membership = consumer.consumer_group_metadata()
            rebalance.assigned(_partitions(partitions))

        def revoked(_: Any, partitions: Sequence[TopicPartition]) -> None:
            self._tell(rebalance.revoked, _partitions(partitions))
            self._membership = None

        def lost(_: Any, partitions: Sequence[TopicPartition]) -> None:
            self._membership = None
            rebalance.lost(_partitions(partitions))

        if not _partitions_of(self._consumer, topic, CALL_TIMEOUT):
            raise unknown_topic(topic)
        self._consumer.subscribe([topic], on_assign=assigned, on_revoke=revoked, on_lost=lost)

    def poll(self, timeout: float) -> list[ConsumerRecord]:
        self._commit_waiting()
        with naming_failures("poll"):
            messages = _fetch(self._consumer, min(timeout, self._longest_poll))
        records = [_record(message) for message in messages]
        return records if self._second is None else self._second.fill_headers(records)

    def committed(self, partitions: Sequence[Partition]) -> dict[Partition, Commit | None]:
        asked = [TopicPartition(*partition) for partition in partitions]
        found = _committed_by(self._consumer, asked, CALL_TIMEOUT, "committed offsets")
        commits = [Commit(each.offset, each.metadata or "") if each.offset >= 0 else None for each in found]
        return dict(zip(_partitions(found), commits, strict=True))

    def beginning(self, partition: Partition) -> int:
        with naming_failures("beginning offsets"):
            marks = self._consumer.get_watermark_offsets(TopicPartition(*partition), CALL_TIMEOUT)
        if marks is None:
            raise RetriableDelivery("beginning offsets: no answer")
        return int(marks[0])

    def ends(self, partitions: Sequence[Partition]) -> dict[Partition, Ends]:
        marks = {each: self._consumer.get_watermark_offsets(TopicPartition(*each), cached=True) for each in partitions}
        lasts = {each: found[1] for each, found in marks.items() if found is not None and found[1] >= 0}
        return {each: Ends(min(self._stable.get(each, last), last), last) for each, last in lasts.items()}

    def positions(self, partitions: Sequence[Partition]) -> dict[Partition, int]:
        with naming_failures("positions"):
            found = self._consumer.position([TopicPartition(*partition) for partition in partitions])
        return {Partition(each.topic, each.partition): each.offset for each in found if each.offset >= 0}

    def start(self, starts: Mapping[Partition, int]) -> None:
        limit = time.monotonic() + CALL_TIMEOUT
        with naming_failures("assign"):
            self._consumer.assign([])
            # The position from before an assignment is told for a moment behind it.
            while self.positions(list(starts)):
                if time.monotonic() > limit:
                    raise RetriableDelivery("assign: a partition keeps its former position")
                time.sleep(0.001)
            self._consumer.assign([TopicPartition(*partition, offset) for partition, offset in starts.items()])

    def _note_stable(self, statistics: str) -> None:
        for name, topic in orjson.loads(statistics)["topics"].items():
            for number, partition in topic["partitions"].items():
                # It has none of a partition that it doesn't fetch.
                if (stable := partition["ls_offset"]) >= 0:
                    self._stable[Partition(name, int(number))] = stable

    def fetch(self, partitions: Sequence[Partition], *, wanted: bool) -> None:
        switch = self._consumer.resume if wanted else self._consumer.pause
        switch([TopicPartition(*partition) for partition in partitions])

    def stable(self) -> bool:
        return self._membership is not None

    def group_metadata(self) -> GroupMetadata:
        return self._membership

    def commit(self, commits: Commits, group: GroupMetadata) -> None:
        self._longest_poll = _COMMIT_WAIT
        outcome: Future[None] = Future()
        self._commits.put((outcome, commits, group))
        try:
            outcome.result(CALL_TIMEOUT)
        except TimeoutError as error:
            raise RetriableDelivery("commit: the consumer is not polled") from error

    def close(self) -> None:
        if self._second is not None:
            self._second.close()
        self._consumer.close()

    def _tell(self, what: Callable[[Partitions], None], partitions: Partitions) -> None:
        """Call back with partitions, and meanwhile commit for other threads, which may not."""
        with ThreadPoolExecutor(1, "rebalance") as thread:
            told = thread.submit(what, partitions)
            while not told.done():
                self._commit_waiting()
                wait([told], _COMMIT_WAIT)
        told.result()

    def _commit_waiting(self) -> None:
        while not self._commits.empty():
            outcome, commits, group = self._commits.get()
            try:
                self._commit(commits, group)
            except DeliveryError as error:
                outcome.set_exception(error)
            else:
                outcome.set_result(None)

    def _commit(self, commits: Commits, group: GroupMetadata) -> None:
        if group is not self._membership:
            raise RetriableDelivery("commit: the membership is over")
        try:
            committed = self._consumer.commit(offsets=offsets(commits), asynchronous=False)
            # It raises only what is wrong with all partitions.
            errors = [partition.error for partition in committed if partition.error is not None]
        except KafkaException as error:
            errors = [kafka_error(error)]
        if (ending := next((each for each in errors if ends(each.code())), None)) is not None:
            raise FatalDelivery(describe("commit", ending))
        if errors:
            raise failure("commit", errors[0])


def _partitions(partitions: Sequence[TopicPartition]) -> list[Partition]:
    return [Partition(partition.topic, partition.partition) for partition in partitions]


class LibrdkafkaReader(TopicReader):
    """One consumer that reads, and one that asks for offsets."""

    def __init__(self, settings: KafkaSettings, topic: str, isolation: str, timeout: float, *, from_end: bool) -> None:
        own = {"isolation.level": isolation, "socket.timeout.ms": int(timeout * 1000)}
        self._reading = open_consumer(settings, own)
        self._metadata = open_consumer(settings, own)
        self._unassigned: dict[int, int] = {}
        self._looked_at = -math.inf
        super().__init__(settings, topic, timeout, from_end=from_end)

    def poll(self, timeout: float) -> list[ConsumerRecord]:
        with naming_failures(f"poll of {self.topic}"):
            if self._unassigned:
                starts = [TopicPartition(self.topic, *start) for start in self._unassigned.items()]
                self._reading.incremental_assign(starts)
                self._unassigned = {}
            messages = _fetch(self._reading, timeout)
            positions = self._reading.position(self._all())
        # There is none before the first record.
        self._positions |= {each.partition: each.offset for each in positions if each.offset >= 0}
        return [_record(message) for message in messages if _sound(message)]

    def seek(self, partition: int, offset: int) -> None:
        if partition not in self._unassigned:
            with naming_failures(f"seek in {self.topic}"):
                self._reading.incremental_unassign([TopicPartition(self.topic, partition)])
        self._positions[partition] = self._unassigned[partition] = offset

    def close(self) -> None:
        self._reading.close()
        self._metadata.close()

    def _partitions(self, timeout: float) -> set[int]:
        if time.monotonic() - self._looked_at <= TAIL_METADATA_AGE:
            return {*self._positions}
        known = _partitions_of(self._metadata, self.topic, timeout)
        if known == self._positions.keys():
            self._looked_at = time.monotonic()
        return known

    def _offsets(self, partitions: Iterable[int], timeout: float, *, from_end: bool) -> dict[int, int]:
        what, limit = f"offsets of {self.topic}", time.monotonic() + timeout
        # As timestamps, Kafka's protocol has the same two numbers for the beginning and the end.
        edge = confluent_kafka.OFFSET_END if from_end else confluent_kafka.OFFSET_BEGINNING
        asked = [TopicPartition(self.topic, each, edge) for each in partitions]
        while True:
            try:
                found = self._metadata.offsets_for_times(asked, timeout)
                errors = [each.error for each in found if each.error is not None]
            except KafkaException as error:
                errors = [kafka_error(error)]
            if not errors:
                break
            if errors[0].code() not in _LEADERLESS or time.monotonic() > limit:
                raise failure(what, errors[0])
            time.sleep(_RETRY)
        if any(each.offset < 0 for each in found):
            raise RetriableDelivery(f"{what}: no answer")
        return {each.partition: each.offset for each in found}

    def _committed(self) -> dict[int, int]:
        found = _committed_by(self._metadata, self._all(), self._call_timeout, f"committed offsets of {self.topic}")
        return {each.partition: each.offset for each in found if each.offset >= 0}

    def _read_from(self, starts: Mapping[int, int]) -> None:
        self._unassigned |= starts

    def _all(self) -> list[TopicPartition]:
        return [TopicPartition(self.topic, number) for number in self._positions]


def _sound(message: Any) -> bool:
    # Not raised: the other records would be lost. Where it matters, the position stands still.
    if (error := message.error()) is not None:
        log.warning("poll: %s", error.name())
    return error is None


def _partitions_of(consumer: Consumer, topic: str, timeout: float) -> set[int]:
    """The topic's partitions; none if it isn't known. Raises RetriableDelivery."""
    with naming_failures(f"metadata of {topic}"):
        known = consumer.list_topics(topic, timeout=timeout).topics[topic]
    return set(known.partitions) if known.error is None else set()


def _committed_by(consumer: Consumer, asked: list[TopicPartition], timeout: float, what: str) -> list[TopicPartition]:
    with naming_failures(what):
        found: list[TopicPartition] = consumer.committed(asked, timeout)
    for each in found:
        if each.error is not None:
            raise failure(what, each.error)
    return found


def _fetch(consumer: Consumer, timeout: float) -> list[Any]:
    """All messages that a consumer has; waits `timeout` seconds for the first. Raises KafkaException."""
    first = consumer.poll(timeout)
    # `consume` waits until it has as many as it may return: only what is there already comes by it.
    return [] if first is None else [first, *consumer.consume(_ALL, 0)]


def _record(message: Any) -> ConsumerRecord:
    """The record in a message. Raises RetriableDelivery or FatalDelivery for a message that is an error."""
    if (error := message.error()) is not None:
        raise failure("poll", error)
    kind, milliseconds = message.timestamp()
    sent = milliseconds / 1000 if kind != confluent_kafka.TIMESTAMP_NOT_AVAILABLE else -1.0
    partition = Partition(message.topic(), message.partition())
    return ConsumerRecord(partition, message.offset(), message.key(), message.value(), _headers(message), sent)


def _headers(message: Any) -> tuple[tuple[str, bytes], ...] | None:
    try:
        headers = _raw_headers(message) or ()
    except (SystemError, UnicodeDecodeError):
        # A name that isn't UTF-8.
        return None
    return None if len(headers) > READ_HEADERS else tuple((name, value or b"") for name, value in headers)
