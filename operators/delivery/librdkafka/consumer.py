"""A member of a consumer group, by librdkafka."""

import queue
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from typing import Any, Final

import orjson
from confluent_kafka import KafkaException, TopicPartition

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
    consumer_record,
    describe,
    error_of,
    failure,
    fetch,
    naming_failures,
    offsets,
    open_consumer,
    partitions_of,
)
from operators.delivery.tracker import Commit
from schemas.errors import DeliveryError, FatalDelivery, RetriableDelivery
from schemas.settings import KafkaSettings

_COMMIT_WAIT: Final = 0.01
"""Seconds that a commit of another thread waits for a poll to end, where such commits happen."""

_STATISTICS: Final = 1000
"""Milliseconds from one statistics to the next."""

_FORGOTTEN: Final = 0.001


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
                "statistics.interval.ms": _STATISTICS,
                "stats_cb": self._note_stable,
            },
        )
        self._stable: dict[Partition, int] = {}
        self._membership: GroupMetadata = None
        self._commits: queue.SimpleQueue[tuple[Future[None], Mapping[Partition, Commit], GroupMetadata]]
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

    def _commit(self, commits: Mapping[Partition, Commit], group: GroupMetadata) -> None:
        if group is not self._membership:
            raise RetriableDelivery("commit: the membership is over")
        try:
            committed = self._consumer.commit(offsets=offsets(commits), asynchronous=False)
            # It raises only what is wrong with all partitions.
            errors = [partition.error for partition in committed if partition.error is not None]
        except KafkaException as error:
            errors = [error_of(error)]
        if (ending := next((each for each in errors if ends(each.code())), None)) is not None:
            raise FatalDelivery(describe("commit", ending))
        if errors:
            raise failure("commit", errors[0])


def _partitions(partitions: Sequence[TopicPartition]) -> list[Partition]:
    return [Partition(partition.topic, partition.partition) for partition in partitions]
