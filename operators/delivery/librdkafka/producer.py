"""Producers, in transactions or acknowledged, by librdkafka."""

import contextlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from confluent_kafka import KafkaError, KafkaException, Producer

from operators.delivery.client import Consumer, GroupMetadata, Outgoing, RecordTooLarge, TopicPartition
from operators.delivery.librdkafka.connection import PATIENCE, connection, error_of, log, offsets
from operators.delivery.tracker import Commit
from schemas.errors import FatalDelivery, RetriableDelivery
from schemas.settings import KafkaSettings

_LARGEST: Final = 1_000_000_000
"""Sizes are bounded before they get here; the client's own bound would only hide the broker's answer."""

_MOST_QUEUED_KIB: Final = 2_097_151
_RETRY_BACKOFF_MS: Final = 5
"""The broker answers `concurrent transactions` while the last one's end is being written: by default a tenth of a
second would be waited for that at each transaction."""

_BATCH_SIZE: Final = 1_000_000
_NOW: Final = 0
_LINGER_MS: Final = 1000
"""A transaction's records are flushed by its commit: until then they gather into batches."""


class _Sending:
    def __init__(self, settings: KafkaSettings, max_batch: int, own: Mapping[str, Any]) -> None:
        self._config = {
            **connection(settings),
            "acks": "all",
            "retry.backoff.ms": _RETRY_BACKOFF_MS,
            "enable.idempotence": True,
            "compression.type": settings.compression or "none",
            "linger.ms": _LINGER_MS,
            "batch.size": min(_BATCH_SIZE, max_batch),
            "message.max.bytes": _LARGEST,
            "queue.buffering.max.kbytes": _MOST_QUEUED_KIB,
            **own,
        }
        self._producer = self._made()
        self._refused: list[Outgoing] = []
        self._failures: list[KafkaError] = []

    def close(self) -> None:
        """Release connections; what is under way is lost."""
        # One that was fenced says so once more.
        with contextlib.suppress(KafkaException):
            self._producer.close()

    def _made(self) -> Producer:
        return Producer(self._config, logger=log)

    def _send(self, records: Sequence[Outgoing]) -> None:
        self._refused, self._failures = [], []
        for record in records:
            self._producer.produce(
                record.topic,
                record.value,
                record.key,
                headers=list(record.headers),
                on_delivery=self._noted(record),
                timestamp=record.timestamp_ms if record.timestamp_ms is not None else _NOW,
            )

    def _noted(self, record: Outgoing) -> Callable[[KafkaError | None, Any], None]:
        def note(error: KafkaError | None, _: Any) -> None:
            if error is None:
                return
            self._failures.append(error)
            if error.code() == KafkaError.MSG_SIZE_TOO_LARGE:
                self._refused.append(record)

        return note


class TransactionalProducer(_Sending):
    """Records and offsets in one transaction."""

    def __init__(self, settings: KafkaSettings, transactional_id: str, max_batch: int) -> None:
        """Fence the predecessor of the same id. Raises FatalDelivery if the broker has no transactions for us."""
        self._patience = settings.request_timeout
        own = {
            "transactional.id": transactional_id,
            "transaction.timeout.ms": int(settings.transaction_timeout * 1000),
            # No request may outlive its transaction.
            "socket.timeout.ms": int(min(settings.request_timeout, settings.transaction_timeout) * 1000),
        }
        super().__init__(settings, max_batch, own)

    def deliver(
        self, records: Sequence[Outgoing], commits: Mapping[TopicPartition, Commit], group: GroupMetadata
    ) -> None:
        """Produce and commit in one transaction."""
        if group is None:
            # The broker takes offsets of nobody's generation without fencing them.
            raise RetriableDelivery("not a member of the group")
        try:
            self._producer.begin_transaction()
            self._send(records)
            self._insisting(self._producer.send_offsets_to_transaction, offsets(commits), group)
            self._insisting(self._producer.commit_transaction)
        except KafkaException as error:
            reason = error_of(error)
            if reason.fatal() or not reason.txn_requires_abort():
                raise FatalDelivery(f"transaction: {reason.name()}") from error
            self._abort(reason)
            if self._refused:
                # The sequence of its partition has a hole that the next transaction would fail by: start afresh.
                self.close()
                self._producer = self._made()
                raise RecordTooLarge(self._refused) from error
            raise RetriableDelivery(f"transaction: {reason.name()}") from error

    def _made(self) -> Producer:
        producer = super()._made()
        try:
            producer.init_transactions(self._patience)
        except KafkaException as error:
            raise FatalDelivery(f"init_transactions: {error_of(error).name()}") from error
        return producer

    def _abort(self, cause: KafkaError) -> None:
        try:
            self._insisting(self._producer.abort_transaction)
        except KafkaException as error:
            raise FatalDelivery(f"transaction: {cause.name()}, abort: {error_of(error).name()}") from error

    def _insisting(self, call: Callable[..., Any], *arguments: Any) -> None:
        while True:
            try:
                call(*arguments, PATIENCE)
            except KafkaException as error:
                reason = error_of(error)
                if reason.fatal() or reason.txn_requires_abort() or not reason.retriable():
                    raise
                log.warning("transaction: %s; calling again", reason.name())
            else:
                return


class AcknowledgedProducer(_Sending):
    """Records first, then offsets: for brokers without transactions, where a crash in between answers twice."""

    def __init__(self, settings: KafkaSettings, consumer: Consumer, max_batch: int) -> None:
        super().__init__(settings, max_batch, {"message.timeout.ms": int(settings.request_timeout * 1000)})
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
        except KafkaException as error:
            raise RetriableDelivery(f"produce: {error_of(error).name()}") from error
        if self._refused:
            raise RecordTooLarge(self._refused)
        if self._failures:
            fatal = [error for error in self._failures if error.fatal()]
            if fatal:
                raise FatalDelivery(f"produce: {fatal[0].name()}")
            raise RetriableDelivery(f"produce: {self._failures[0].name()}")
        self._consumer.commit(commits)
