"""A member of a consumer group, by librdkafka."""

import queue
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from typing import Any, Final

import orjson
from confluent_kafka import Consumer, KafkaException, TopicPartition

from operators.delivery.client import (
    CALL_TIMEOUT,
    METADATA_AGE,
    ConsumerRecord,
    Ends,
    GroupMetadata,
    Partitions,
    Rebalance,
    unknown_topic,
)
from operators.delivery.client import TopicPartition as Partition
from operators.delivery.error_codes import ends
from operators.delivery.kafka_python.records import SecondReader
from operators.delivery.librdkafka.connection import (
    connection,
    consumer_record,
    describe,
    error_of,
    failure,
    fetch,
    log,
    naming_failures,
    offsets,
    partitions_of,
)
from operators.delivery.tracker import Commit
from schemas.errors import FatalDelivery, RetriableDelivery
from schemas.settings import KafkaSettings

_COMMIT_WAIT: Final = 0.01
"""Seconds that a commit of another thread waits for a poll to end, where such commits happen."""

_STATISTICS: Final = 1000
"""Milliseconds from one statistics to the next."""

_FORGOTTEN: Final = 0.001

_FETCHED_KIB: Final = 4096
"""KiB fetched ahead of a partition at most, unless a single record is larger."""


@dataclass(frozen=True, slots=True)
class _Commit:
    """A commit that another thread asks for, and its outcome."""

    commits: Mapping[Partition, Commit]
    group: GroupMetadata
    done: Future[None] = field(default_factory=Future)


class LibrdkafkaConsumer:
    """A dynamic member of the group. It reads committed records and commits nothing by itself."""

    def __init__(self, settings: KafkaSettings, second: SecondReader | None) -> None:
        self._second = second
        self._consumer = Consumer(
            {
                **connection(settings),
                "group.id": settings.group_id,
                "enable.auto.commit": False,
                "enable.auto.offset.store": False,
                "auto.offset.reset": "earliest",
                "isolation.level": "read_committed",
                "session.timeout.ms": int(settings.session_timeout * 1000),
                "heartbeat.interval.ms": int(settings.heartbeat_interval * 1000),
                "max.poll.interval.ms": int(settings.max_poll_interval * 1000),
                "partition.assignment.strategy": "range",
                "queued.max.messages.kbytes": _FETCHED_KIB,
                "fetch.wait.max.ms": 500,
                "topic.metadata.refresh.interval.ms": int(METADATA_AGE * 1000),
                # A full queue is looked at again at once, not after a second.
                "fetch.queue.backoff.ms": 5,
                # Only there it tells the last stable offsets.
                "statistics.interval.ms": _STATISTICS,
                "stats_cb": self._note_stable,
                **settings.options_of_consumers,
            },
            logger=log,
        )
        self._stable: dict[Partition, int] = {}
        self._membership: GroupMetadata = None
        self._commits: queue.SimpleQueue[_Commit] = queue.SimpleQueue()
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

        if not partitions_of(self._consumer, topic, CALL_TIMEOUT):
            raise unknown_topic(topic)
        self._consumer.subscribe([topic], on_assign=assigned, on_revoke=revoked, on_lost=lost)

    def poll(self, timeout: float) -> list[ConsumerRecord]:
        self._commit_waiting()
        with naming_failures("poll"):
            messages = fetch(self._consumer, min(timeout, self._longest_poll))
        records = [consumer_record(message) for message in messages]
        return records if self._second is None else self._second.fill_headers(records)

    def committed(self, partitions: Sequence[Partition]) -> dict[Partition, Commit | None]:
        with naming_failures("committed offsets"):
            found = self._consumer.committed([TopicPartition(*partition) for partition in partitions], CALL_TIMEOUT)
        for each in found:
            if each.error is not None:
                raise failure("committed offsets", each.error)
        return {
            Partition(each.topic, each.partition): Commit(each.offset, each.metadata or "")
            if each.offset >= 0
            else None
            for each in found
        }

    def beginning(self, partition: Partition) -> int:
        with naming_failures("beginning offsets"):
            marks = self._consumer.get_watermark_offsets(TopicPartition(*partition), CALL_TIMEOUT)
        if marks is None:
            raise RetriableDelivery("beginning offsets: no answer")
        first: int = marks[0]
        return first

    def ends(self, partitions: Sequence[Partition]) -> dict[Partition, Ends]:
        marks = {each: self._consumer.get_watermark_offsets(TopicPartition(*each), cached=True) for each in partitions}
        lasts = {each: found[1] for each, found in marks.items() if found is not None and found[1] >= 0}
        return {each: Ends(min(self._stable.get(each, last), last), last) for each, last in lasts.items()}

    def positions(self, partitions: Sequence[Partition]) -> dict[Partition, int]:
        with naming_failures("positions"):
            found = self._consumer.position([TopicPartition(*partition) for partition in partitions])
        return {Partition(each.topic, each.partition): each.offset for each in found if each.offset >= 0}

    def start(self, starts: Mapping[Partition, int]) -> None:
        with naming_failures("assign"):
            self._forget_positions(list(starts))
            self._consumer.assign([TopicPartition(*partition, offset) for partition, offset in starts.items()])

    def _forget_positions(self, partitions: Sequence[Partition]) -> None:
        # The position from before an assignment is told for a moment behind it.
        self._consumer.assign([])
        limit = time.monotonic() + CALL_TIMEOUT
        while self.positions(partitions):
            if time.monotonic() > limit:
                raise RetriableDelivery("assign: a partition keeps its former position")
            time.sleep(_FORGOTTEN)

    def _note_stable(self, statistics: str) -> None:
        for name, topic in orjson.loads(statistics)["topics"].items():
            for number, partition in topic["partitions"].items():
                # It has none of a partition that it doesn't fetch.
                if (stable := partition["ls_offset"]) >= 0:
                    self._stable[Partition(name, int(number))] = stable

    def pause(self, partitions: Sequence[Partition]) -> None:
        self._consumer.pause([TopicPartition(*partition) for partition in partitions])

    def resume(self, partitions: Sequence[Partition]) -> None:
        self._consumer.resume([TopicPartition(*partition) for partition in partitions])

    def stable(self) -> bool:
        return self._membership is not None

    def group_metadata(self) -> GroupMetadata:
        return self._membership

    def commit(self, commits: Mapping[Partition, Commit], group: GroupMetadata) -> None:
        self._longest_poll = _COMMIT_WAIT
        asked = _Commit(commits, group)
        self._commits.put(asked)
        try:
            asked.done.result(CALL_TIMEOUT)
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
            asked = self._commits.get()
            if asked.group is not self._membership:
                asked.done.set_exception(RetriableDelivery("commit: the membership is over"))
                continue
            try:
                committed = self._consumer.commit(offsets=offsets(asked.commits), asynchronous=False)
                # It raises only what is wrong with all partitions.
                errors = [partition.error for partition in committed if partition.error is not None]
            except KafkaException as error:
                errors = [error_of(error)]
            if not errors:
                asked.done.set_result(None)
                continue
            ending = next((each for each in errors if ends(each.code())), None)
            asked.done.set_exception(
                failure("commit", errors[0]) if ending is None else FatalDelivery(describe("commit", ending))
            )


def _partitions(partitions: Sequence[TopicPartition]) -> list[Partition]:
    return [Partition(partition.topic, partition.partition) for partition in partitions]
