"""Producers, in transactions or acknowledged, by kafka-python."""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, Final

import kafka
from kafka.errors import KafkaError, KafkaTimeoutError, MessageSizeTooLargeError

from operators.delivery.client import Consumer, GroupMetadata, Outgoing, RecordTooLarge, TopicPartition
from operators.delivery.kafka_python.connection import Dialect, connection, offsets
from operators.delivery.tracker import Commit
from schemas.errors import FatalDelivery, RetriableDelivery
from schemas.settings import KafkaSettings

_BATCH_SIZE: Final = 16_384
_LINGER_MS: Final = 1000
_RETRY_BACKOFF_MS: Final = 5
_MAX_REQUEST_SIZE: Final = 64 * 1024 * 1024
"""Sizes are bounded before they get here; the client's own bound would only hide the broker's answer."""


class _Sending:
    def __init__(self, settings: KafkaSettings, max_batch: int, dialect: Dialect, own: Mapping[str, Any]) -> None:
        self._config = {
            "acks": "all",
            "compression_type": settings.compression,
            "linger_ms": _LINGER_MS,
            "batch_size": min(_BATCH_SIZE, max_batch),
            "retry_backoff_ms": _RETRY_BACKOFF_MS,
            "max_request_size": _MAX_REQUEST_SIZE,
            "metrics_enabled": False,
            **connection(settings, dialect),
            **own,
        }
        self._sent: list[Any] = []
        self._refused: dict[int, Outgoing] = {}
        self._producer = self._made()

    def close(self) -> None:
        """Release connections; what is under way is lost."""
        self._producer.close(timeout=1)

    def _made(self) -> Any:
        return kafka.KafkaProducer(**self._config)

    def _send(self, records: Sequence[Outgoing]) -> None:
        self._sent, self._refused = [], {}
        for record in records:
            future = self._producer.send(
                record.topic,
                key=record.key,
                value=record.value,
                headers=list(record.headers),
                timestamp_ms=record.timestamp_ms,
            )
            future.add_errback(partial(self._note, record))
            self._sent.append(future)

    def _renew(self) -> None:
        # What a failure leaves in the producer's queues and sequence numbers disturbs its later sends.
        self.close()
        self._producer = self._made()

    def _raise_failed(self) -> None:
        for future in self._sent:
            if not future.succeeded():
                raise future.exception or KafkaTimeoutError("a record was not acknowledged")

    def _note(self, record: Outgoing, error: Exception) -> None:
        # Records that are given up because of a refused one fail after it, with the same error.
        if isinstance(error, MessageSizeTooLargeError):
            self._refused.setdefault(id(error), record)


class TransactionalProducer(_Sending):
    """Records and offsets in one transaction."""

    def __init__(self, settings: KafkaSettings, transactional_id: str, max_batch: int, dialect: Dialect) -> None:
        """Fence the predecessor of the same id. Raises FatalDelivery if the broker has no transactions for us."""
        self._timeout = settings.transaction_timeout
        own = {
            "transactional_id": transactional_id,
            "transaction_timeout_ms": int(settings.transaction_timeout * 1000),
            # No record may be tried for longer than its transaction lasts.
            "delivery_timeout_ms": int(settings.transaction_timeout * 1000),
            "request_timeout_ms": int(min(settings.request_timeout, settings.transaction_timeout) * 1000) - _LINGER_MS,
        }
        super().__init__(settings, max_batch, dialect, own)

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
            self._producer.flush(self._timeout)
            self._raise_failed()
            self._producer.send_offsets_to_transaction(offsets(commits), group)
            self._producer.commit_transaction()
        except KafkaError as error:
            self._abort(error)
            self._renew()
            if refused := list(self._refused.values()):
                raise RecordTooLarge(refused) from error
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

    def __init__(self, settings: KafkaSettings, consumer: Consumer, max_batch: int, dialect: Dialect) -> None:
        super().__init__(settings, max_batch, dialect, {"enable_idempotence": True})
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
            if refused := list(self._refused.values()):
                self._renew()
                raise RecordTooLarge(refused)
            self._raise_failed()
        except KafkaError as error:
            raise RetriableDelivery(f"produce: {type(error).__name__}") from error
        self._consumer.commit(commits)
