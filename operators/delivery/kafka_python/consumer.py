"""Consumers by kafka-python: a member of a consumer group, and the reader of a topic, which joins none.

Of the reader:

- It counts the marks of transactions as read when it passes over them, but a poll that finds nothing else goes on
  waiting for a record: a caller that waits for a position polls for milliseconds.
- A broker answers a connection's requests one after the other, and a fetch waits there for records: one that asks for
  ends has a connection of its own.
"""

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Any

import kafka
from kafka.consumer.subscription_state import ConsumerRebalanceListener
from kafka.coordinator.assignors.range import RangePartitionAssignor
from kafka.errors import BrokerResponseError

from operators.delivery.client import (
    CALL_TIMEOUT,
    TAIL_METADATA_AGE,
    Commits,
    ConsumerRecord,
    Ends,
    GroupMetadata,
    Rebalance,
    TopicPartition,
    TopicReader,
    unknown_topic,
)
from operators.delivery.error_codes import ends
from operators.delivery.kafka_python.connection import close_consumer, naming_failures, offsets, open_consumer
from operators.delivery.kafka_python.records import ALL, consumer_records
from operators.delivery.tracker import Commit
from schemas.errors import DeliveryError, FatalDelivery, RetriableDelivery
from schemas.settings import KafkaSettings


def _of_no_unstable_offset(record: logging.LogRecord) -> bool:
    return "UnstableOffsetCommit" not in record.getMessage()


def quieten() -> None:
    """Have kafka-python log no error while offsets are unstable: their reader waits until they are stable."""
    logging.getLogger("kafka.coordinator.consumer").addFilter(_of_no_unstable_offset)


class _Listener(ConsumerRebalanceListener):
    def __init__(self, rebalance: Rebalance) -> None:
        self._rebalance = rebalance

    def on_partitions_assigned(self, assigned: Iterable[Any]) -> None:
        self._rebalance.assigned([TopicPartition(*partition) for partition in assigned])

    def on_partitions_revoked(self, revoked: Iterable[Any]) -> None:
        self._rebalance.revoked([TopicPartition(*partition) for partition in revoked])

    def on_partitions_lost(self, lost: Iterable[Any]) -> None:
        self._rebalance.lost([TopicPartition(*partition) for partition in lost])


class KafkaPythonConsumer:
    """A dynamic member of the group. It reads committed records and commits nothing by itself."""

    def __init__(self, settings: KafkaSettings) -> None:
        self._consumer = open_consumer(
            settings,
            {
                "group_id": settings.group_id,
                "isolation_level": "read_committed",
                "session_timeout_ms": int(settings.session_timeout * 1000),
                "heartbeat_interval_ms": int(settings.heartbeat_interval * 1000),
                "max_poll_interval_ms": int(settings.max_poll_interval * 1000),
                "partition_assignment_strategy": (RangePartitionAssignor,),
            },
        )
        self._stable: dict[TopicPartition, int] = {}
        fetcher = self._consumer._fetcher
        fetcher._parse_fetched_data = self._noting_stable(fetcher._parse_fetched_data)

    def subscribe(self, topic: str, rebalance: Rebalance) -> None:
        with naming_failures(f"metadata of {topic}"):
            known = self._consumer.partitions_for_topic(topic)
        if not known:
            raise unknown_topic(topic)
        self._consumer.subscribe([topic], listener=_Listener(rebalance))

    def poll(self, timeout: float) -> list[ConsumerRecord]:
        timeout = timeout if self.stable() else max(timeout, CALL_TIMEOUT)
        with naming_failures("poll"):
            fetched = self._consumer.poll(timeout_ms=int(timeout * 1000), max_records=ALL)
        if not self.stable():
            # A rebalance that outlasted this poll is gone on with by the next, if it's told to.
            self._consumer._coordinator.request_rejoin()
        return consumer_records(fetched)

    def committed(self, partitions: Sequence[TopicPartition]) -> dict[TopicPartition, Commit | None]:
        commits: dict[TopicPartition, Commit | None] = {}
        for partition in partitions:
            of = kafka.TopicPartition(*partition)
            with naming_failures("committed offsets"):
                committed = self._consumer.committed(of, metadata=True, timeout_ms=CALL_TIMEOUT * 1000)
            commits[partition] = Commit(committed.offset, committed.metadata or "") if committed else None
        return commits

    def beginning(self, partition: TopicPartition) -> int:
        kafka_partition = kafka.TopicPartition(*partition)
        with naming_failures("beginning offsets"):
            return int(self._consumer.beginning_offsets([kafka_partition])[kafka_partition])

    def ends(self, partitions: Sequence[TopicPartition]) -> dict[TopicPartition, Ends]:
        assigned = self._consumer.assignment()
        present = [each for each in partitions if each in assigned]
        marks = {each: self._consumer.highwater(kafka.TopicPartition(*each)) for each in present}
        lasts = {each: end for each, end in marks.items() if end is not None}
        return {each: Ends(min(self._stable.get(each, last), last), last) for each, last in lasts.items()}

    def positions(self, partitions: Sequence[TopicPartition]) -> dict[TopicPartition, int]:
        # The public method asks the broker where it has none.
        states = self._consumer._subscription.assignment
        present = {each: states.get(kafka.TopicPartition(*each)) for each in partitions}
        return {each: state.position.offset for each, state in present.items() if state and state.has_valid_position}

    def start(self, starts: Mapping[TopicPartition, int]) -> None:
        try:
            for partition, offset in starts.items():
                self._consumer.seek(kafka.TopicPartition(*partition), offset)
        except (ValueError, AssertionError) as error:
            raise RetriableDelivery("a partition is gone") from error

    def _noting_stable(self, parse: Callable[[Any], Any]) -> Callable[[Any], Any]:
        def parse_fetched_data(fetched: Any) -> Any:
            stable = fetched.partition_data.last_stable_offset
            # Brokers without transactions tell none.
            if stable is not None and stable >= 0:
                self._stable[TopicPartition(*fetched.topic_partition)] = stable
            return parse(fetched)

        return parse_fetched_data

    def fetch(self, partitions: Sequence[TopicPartition], *, wanted: bool) -> None:
        switch = self._consumer.resume if wanted else self._consumer.pause
        for partition in partitions:
            # One that was taken away has nothing to switch.
            with suppress(KeyError):
                switch(kafka.TopicPartition(*partition))

    def stable(self) -> bool:
        return bool(self._consumer.group_metadata().state == "<stable>")

    def group_metadata(self) -> GroupMetadata:
        return self._consumer.group_metadata()

    def commit(self, commits: Commits, group: GroupMetadata) -> None:
        present = self.group_metadata()
        if (present.member_id, present.generation_id) != (group.member_id, group.generation_id):
            raise RetriableDelivery("commit: the membership is over")
        with naming_failures("commit"):
            try:
                self._consumer.commit(offsets(commits), timeout_ms=CALL_TIMEOUT * 1000)
            except BrokerResponseError as error:
                if ends(error.errno):
                    raise FatalDelivery(f"commit: {error.message}") from error
                raise

    def close(self) -> None:
        close_consumer(self._consumer)


class KafkaPythonReader(TopicReader):
    """One consumer that reads, and one that asks for offsets."""

    def __init__(self, settings: KafkaSettings, topic: str, isolation: str, timeout: float, *, from_end: bool) -> None:
        longest = int(timeout * 1000)
        own = {"isolation_level": isolation, "request_timeout_ms": longest, "bootstrap_timeout_ms": longest}
        self._reading = open_consumer(settings, own)
        try:
            self._metadata = open_consumer(settings, {"group_id": settings.group_id, **own}, TAIL_METADATA_AGE)
        except DeliveryError:
            close_consumer(self._reading)
            raise
        super().__init__(settings, topic, timeout, from_end=from_end)

    def poll(self, timeout: float) -> list[ConsumerRecord]:
        with naming_failures(f"poll of {self.topic}"):
            fetched = self._reading.poll(timeout_ms=int(timeout * 1000), max_records=ALL)
            for number in self._positions:
                position = self._reading.position(self._partition(number), timeout_ms=0)
                # There is none while a position that the log has no more is put right.
                if position is not None:
                    self._positions[number] = position
        return consumer_records(fetched)

    def seek(self, partition: int, offset: int) -> None:
        self._reading.seek(self._partition(partition), offset)
        self._positions[partition] = offset

    def close(self) -> None:
        close_consumer(self._reading)
        close_consumer(self._metadata)

    def _partitions(self, timeout: float) -> set[int]:  # noqa: ARG002  its metadata are never old
        with _reading_offsets(f"partitions of {self.topic}"):
            known: set[int] = self._metadata.partitions_for_topic(self.topic) or set()
        return known

    def _offsets(self, partitions: Iterable[int], timeout: float, *, from_end: bool) -> dict[int, int]:
        asked = [self._partition(number) for number in partitions]
        with _reading_offsets(f"end offsets of {self.topic}" if from_end else f"partitions of {self.topic}"):
            ask = self._metadata.end_offsets if from_end else self._metadata.beginning_offsets
            return {each.partition: offset for each, offset in ask(asked, timeout_ms=timeout * 1000).items()}

    def _committed(self) -> dict[int, int]:
        with _reading_offsets(f"committed offsets of {self.topic}"):
            found = {number: self._metadata.committed(self._partition(number)) for number in self._positions}
        return {number: offset for number, offset in found.items() if offset is not None}

    def _read_from(self, starts: Mapping[int, int]) -> None:  # noqa: ARG002  assigning forgets the other positions
        partitions = [self._partition(number) for number in self._positions]
        # It never polls: only what is assigned stays in its metadata.
        self._metadata.assign(partitions)
        self._reading.assign(partitions)
        for number, position in self._positions.items():
            self._reading.seek(self._partition(number), position)

    def _partition(self, number: int) -> Any:
        return kafka.TopicPartition(self.topic, number)


@contextmanager
def _reading_offsets(what: str) -> Iterator[None]:
    with naming_failures(what):
        try:
            yield
        except KeyError as error:
            # A partition was left out of the answer.
            raise RetriableDelivery(f"{what}: {type(error).__name__}") from error
