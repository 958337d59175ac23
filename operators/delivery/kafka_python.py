"""kafka-python behind the delivery protocol; its faults, found by experiment, stay in here.

- A poll whose time-out expires while the group forms can leave the member rebalancing for ever: the topic's metadata is
  waited for before subscribing, and `poll` waits at least JOIN_TIMEOUT while the group isn't stable.
- An eager rebalance keeps the position of a partition that comes back: the caller seeks on every assignment.
- The cooperative assignor lets a returning zombie claim its old partitions: only the range assignor is used.
- A partition that is paused while a poll has taken a part of its fetched records is parked, and read again only after
  another partition's fetch happened to come back empty: `poll` always takes everything.
- Listeners run on its I/O thread and must not block.
- After a failed transaction `abort_transaction` tells the two kinds apart: it succeeds where another try may, and
  raises where the producer is lost.
- The default `retry_backoff_ms` makes a transaction 74 ms instead of 10.
- A transactional call can wait for ever after the coordinator's connection broke: whoever calls watches the time.
- Out of the group, the metadata names no generation, and the broker would take such a commit unfenced: refused here.
- Unstable offsets are logged as errors at every retry, although waiting for them is what `read_committed` means.
"""

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import kafka
from kafka.consumer.subscription_state import ConsumerRebalanceListener
from kafka.coordinator.assignors.range import RangePartitionAssignor
from kafka.errors import KafkaError, MessageSizeTooLargeError
from kafka.structs import OffsetAndMetadata

from operators.delivery.client import Consumer, GroupMetadata, Outgoing, Record, RecordTooLarge, TopicPartition
from operators.delivery.tracker import Commit
from schemas.errors import FatalDelivery, RetriableDelivery
from schemas.settings import KafkaSettings

JOIN_TIMEOUT: Final = 3.0
"""Seconds of a poll while the group forms."""

_ALL: Final = 1_000_000
_FETCH_BYTES: Final = 4 * 1024 * 1024
"""What one fetch brings at most, and so what may wait in this process, unless a single record is larger."""

_LINGER_MS: Final = 1000
_RETRY_BACKOFF_MS: Final = 5
_MAX_REQUEST_SIZE: Final = 64 * 1024 * 1024
"""Sizes are bounded before they get here; the client's own bound would only hide the broker's answer."""


class _UnstableOffsets(logging.Filter):
    def filter(self, record: logging.LogRecord) -> bool:
        return "UnstableOffsetCommit" not in record.getMessage()


logging.getLogger("kafka.coordinator.consumer").addFilter(_UnstableOffsets())


@dataclass(frozen=True, slots=True)
class Dialect:
    """How to speak to a broker that isn't quite Kafka: options of kafka-python for any client, and for consumers."""

    every: Mapping[str, Any] = field(default_factory=dict)
    consumer: Mapping[str, Any] = field(default_factory=dict)


KAFKA: Final = Dialect()

EMBEDDED: Final = Dialect({"api_version": (2, 3)}, {"check_crcs": False, "fetch_max_wait_ms": 10})
"""The embedded broker's: it has every topic as soon as it is named, and no transactions."""


def connection(settings: KafkaSettings, dialect: Dialect) -> dict[str, Any]:
    """What every client of this broker is made with."""
    return {
        "bootstrap_servers": settings.bootstrap_servers.split(","),
        "client_id": settings.group_id,
        "request_timeout_ms": int(settings.request_timeout * 1000),
        **dialect.every,
    }


class _Listener(ConsumerRebalanceListener):
    def __init__(
        self,
        assigned: Callable[[Iterable[TopicPartition]], None],
        revoked: Callable[[Iterable[TopicPartition]], None],
    ) -> None:
        self._assigned = assigned
        self._revoked = revoked

    def on_partitions_assigned(self, assigned: Iterable[Any]) -> None:
        self._assigned([TopicPartition(*partition) for partition in assigned])

    def on_partitions_revoked(self, revoked: Iterable[Any]) -> None:
        self._revoked([TopicPartition(*partition) for partition in revoked])

    def on_partitions_lost(self, lost: Iterable[Any]) -> None:
        self.on_partitions_revoked(lost)


class KafkaPythonConsumer:
    """A dynamic member of the group that reads what is committed and commits nothing by itself."""

    def __init__(self, settings: KafkaSettings, dialect: Dialect) -> None:
        self._consumer = kafka.KafkaConsumer(
            **{
                "group_id": settings.group_id,
                "enable_auto_commit": False,
                "auto_offset_reset": "earliest",
                "isolation_level": "read_committed",
                "session_timeout_ms": int(settings.session_timeout * 1000),
                "heartbeat_interval_ms": int(settings.heartbeat_interval * 1000),
                "max_poll_interval_ms": int(settings.max_poll_interval * 1000),
                "fetch_max_bytes": _FETCH_BYTES,
                "partition_assignment_strategy": (RangePartitionAssignor,),
                "metrics_enabled": False,
                **connection(settings, dialect),
                **dialect.consumer,
            }
        )

    def subscribe(
        self,
        topic: str,
        assigned: Callable[[Iterable[TopicPartition]], None],
        revoked: Callable[[Iterable[TopicPartition]], None],
    ) -> None:
        """Join the group once the topic is known. Raises RetriableDelivery while it isn't."""
        try:
            known = self._consumer.partitions_for_topic(topic)
        except KafkaError as error:
            raise RetriableDelivery(f"metadata of {topic}: {type(error).__name__}") from error
        if not known:
            raise RetriableDelivery(f"topic {topic} doesn't exist")
        self._consumer.subscribe([topic], listener=_Listener(assigned, revoked))

    def poll(self, timeout: float) -> list[Record]:
        """All records that have been fetched; waits longer while the group forms. Raises RetriableDelivery."""
        patience = timeout if self.stable() else max(timeout, JOIN_TIMEOUT)
        try:
            fetched = self._consumer.poll(timeout_ms=int(patience * 1000), max_records=_ALL)
        except KafkaError as error:
            raise RetriableDelivery(f"poll: {type(error).__name__}") from error
        return [
            Record(
                TopicPartition(*partition),
                record.offset,
                record.key,
                record.value,
                tuple((name, value or b"") for name, value in record.headers),
                record.timestamp / 1000,
            )
            for partition, records in fetched.items()
            for record in records
        ]

    def committed(self, partitions: Sequence[TopicPartition]) -> dict[TopicPartition, Commit | None]:
        """What the group has committed, metadata included. Raises RetriableDelivery."""
        commits: dict[TopicPartition, Commit | None] = {}
        for partition in partitions:
            try:
                committed = self._consumer.committed(
                    kafka.TopicPartition(*partition), metadata=True, timeout_ms=JOIN_TIMEOUT * 1000
                )
            except KafkaError as error:
                raise RetriableDelivery(f"committed offsets: {type(error).__name__}") from error
            commits[partition] = Commit(committed.offset, committed.metadata or "") if committed else None
        return commits

    def beginning(self, partition: TopicPartition) -> int:
        """The first offset that the partition still holds. Raises RetriableDelivery."""
        kafka_partition = kafka.TopicPartition(*partition)
        try:
            offset: int = self._consumer.beginning_offsets([kafka_partition])[kafka_partition]
        except KafkaError as error:
            raise RetriableDelivery(f"beginning offsets: {type(error).__name__}") from error
        return offset

    def seek(self, partition: TopicPartition, offset: int) -> None:
        """Read on from `offset`. Raises RetriableDelivery if the partition was taken away meanwhile."""
        try:
            self._consumer.seek(kafka.TopicPartition(*partition), offset)
        except (ValueError, AssertionError) as error:
            raise RetriableDelivery("the partition is gone") from error

    def pause(self, partitions: Sequence[TopicPartition]) -> None:
        """Stop fetching those of `partitions` that are still assigned."""
        for partition in partitions:
            try:
                self._consumer.pause(kafka.TopicPartition(*partition))
            except KeyError:
                continue

    def resume(self, partitions: Sequence[TopicPartition]) -> None:
        """Fetch those of `partitions` that are still assigned."""
        for partition in partitions:
            try:
                self._consumer.resume(kafka.TopicPartition(*partition))
            except KeyError:
                continue

    def stable(self) -> bool:
        """Whether the member has joined and no rebalance is under way."""
        return bool(self._consumer.group_metadata().state == "<stable>")

    def group_metadata(self) -> GroupMetadata:
        """The member's id and generation."""
        return self._consumer.group_metadata()

    def commit(self, commits: Mapping[TopicPartition, Commit]) -> None:
        """Commit offsets outside a transaction. Raises RetriableDelivery."""
        try:
            self._consumer.commit(_offsets(commits), timeout_ms=JOIN_TIMEOUT * 1000)
        except KafkaError as error:
            raise RetriableDelivery(f"commit: {type(error).__name__}") from error

    def close(self) -> None:
        """Leave the group."""
        self._consumer.close(autocommit=False, timeout_ms=JOIN_TIMEOUT * 1000)


def _offsets(commits: Mapping[TopicPartition, Commit]) -> dict[Any, Any]:
    return {
        kafka.TopicPartition(*partition): OffsetAndMetadata(commit.offset, commit.metadata, -1)
        for partition, commit in commits.items()
    }


class _Sending:
    def __init__(self, settings: KafkaSettings, dialect: Dialect, own: Mapping[str, Any]) -> None:
        self._config = {
            "acks": "all",
            "compression_type": settings.compression,
            "linger_ms": _LINGER_MS,
            "retry_backoff_ms": _RETRY_BACKOFF_MS,
            "max_request_size": _MAX_REQUEST_SIZE,
            "metrics_enabled": False,
            **own,
            **connection(settings, dialect),
        }
        self._sent: list[tuple[Outgoing, Any]] = []
        self._producer = self._made()

    def close(self) -> None:
        """Release connections; what is under way is lost."""
        self._producer.close(timeout=1)

    def _made(self) -> Any:
        return kafka.KafkaProducer(**self._config)

    def _send(self, records: Sequence[Outgoing]) -> None:
        self._sent = []
        for record in records:
            future = self._producer.send(
                record.topic,
                key=record.key,
                value=record.value,
                headers=list(record.headers),
                timestamp_ms=record.timestamp_ms,
            )
            self._sent.append((record, future))

    def _raise_refused(self, cause: KafkaError | None) -> None:
        refused = [
            record
            for record, future in self._sent
            if future.is_done and isinstance(future.exception, MessageSizeTooLargeError)
        ]
        if refused:
            # What a refusal leaves in the producer's queues disturbs its later sends: start afresh.
            self.close()
            self._producer = self._made()
            raise RecordTooLarge(refused) from cause


class TransactionalProducer(_Sending):
    """Records and offsets in one transaction."""

    def __init__(self, settings: KafkaSettings, transactional_id: str, dialect: Dialect) -> None:
        """Fence the predecessor of the same id. Raises FatalDelivery if the broker has no transactions for us."""
        own = {
            "transactional_id": transactional_id,
            "transaction_timeout_ms": int(settings.transaction_timeout * 1000),
        }
        super().__init__(settings, dialect, own)

    def deliver(
        self, records: Sequence[Outgoing], commits: Mapping[TopicPartition, Commit], group: GroupMetadata
    ) -> None:
        """Produce and commit in one transaction."""
        if group.generation_id < 0:
            # The broker takes offsets of nobody's generation without fencing them.
            raise RetriableDelivery("not a member of the group")
        try:
            self._producer.begin_transaction()
            self._send(records)
            self._producer.send_offsets_to_transaction(_offsets(commits), group)
            self._producer.commit_transaction()
        except KafkaError as error:
            self._abort(error)
            self._raise_refused(error)
            raise RetriableDelivery(f"transaction: {type(error).__name__}") from error

    def _made(self) -> Any:
        producer = super()._made()
        try:
            producer.init_transactions()
        except KafkaError as error:
            raise FatalDelivery(f"init_transactions: {type(error).__name__}") from error
        return producer

    def _abort(self, cause: KafkaError) -> None:
        try:
            self._producer.abort_transaction()
        except KafkaError as error:
            raise FatalDelivery(f"transaction: {type(cause).__name__}, abort: {type(error).__name__}") from cause


class AcknowledgedProducer(_Sending):
    """Records first, then offsets: for brokers without transactions, where a crash in between answers twice."""

    def __init__(self, settings: KafkaSettings, consumer: Consumer, dialect: Dialect) -> None:
        super().__init__(settings, dialect, {"enable_idempotence": True})
        self._consumer = consumer

    def deliver(
        self,
        records: Sequence[Outgoing],
        commits: Mapping[TopicPartition, Commit],
        group: GroupMetadata,  # noqa: ARG002  the consumer knows its own
    ) -> None:
        """Produce, wait for every acknowledgement, then commit."""
        try:
            self._send(records)
            self._producer.flush()
            self._raise_refused(None)
            for _, future in self._sent:
                future.get(timeout=JOIN_TIMEOUT)
        except KafkaError as error:
            raise RetriableDelivery(f"produce: {type(error).__name__}") from error
        self._consumer.commit(commits)
