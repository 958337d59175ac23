"""Producers, in transactions or acknowledged, by librdkafka."""

import contextlib
import warnings
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Final

from confluent_kafka import KafkaError, KafkaException, Producer

from operators.delivery.client import CALL_TIMEOUT, Commits, GroupMetadata, ProducerRecord, RecordRefused, find_refusal
from operators.delivery.error_codes import FENCED, ends
from operators.delivery.librdkafka.connection import (
    Connections,
    connection,
    describe,
    failure,
    kafka_error,
    log,
    naming_failures,
    offsets,
)
from schemas.errors import FatalDelivery, Fenced, RetriableDelivery
from schemas.settings import KafkaSettings

_DEFAULT_LEVEL: Final = -1
_FENCED: Final = FENCED | {KafkaError._FENCED}
_UNKNOWN: Final = (KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError._UNKNOWN_PARTITION, KafkaError._UNKNOWN_TOPIC)
_STALE: Final = frozenset((*_UNKNOWN, KafkaError._MSG_TIMED_OUT, KafkaError._TIMED_OUT))
"""The errors about a topic that was made again or has grown: a client keeps what it knew of it for minutes."""

_NOW: Final = 0
_BY_KEY: Final = -1


class _Sending:
    def __init__(self, settings: KafkaSettings, max_batch: int, own: Mapping[str, Any], logger: Any = log) -> None:
        config = {
            **connection(settings),
            "acks": "all",
            # The broker answers `concurrent transactions` while the last one's end is being written: by default a tenth
            # of a second would be waited for that at each transaction.
            "retry.backoff.ms": 5,
            "enable.idempotence": True,
            "compression.type": settings.compression or "none",
            # By gzip's default, 6, a result takes twice the CPU time, and an eighth fewer bytes.
            "compression.level": 1 if settings.compression == "gzip" else _DEFAULT_LEVEL,
            # A transaction's records are flushed by its commit: until then they gather into batches.
            "linger.ms": 1000,
            "batch.size": min(1_000_000, max_batch),
            # Sizes are bounded before they get here; the client's own bound would only hide the broker's answer.
            "message.max.bytes": 1_000_000_000,
            "queue.buffering.max.kbytes": 2_097_151,
            **settings.options_of_producers,
            **own,
        }
        self._producer = Producer(config, logger=logger)
        self._failures: list[tuple[ProducerRecord, KafkaError]] = []

    def close(self) -> None:
        # A client that was given up says so again; a line that it logs behind that makes a SystemError of it.
        with contextlib.suppress(KafkaException, SystemError), warnings.catch_warnings(action="ignore"):
            self._producer.close()

    def _send(self, records: Sequence[ProducerRecord]) -> None:
        self._failures = []
        for record in records:
            self._producer.produce(
                record.topic,
                record.value,
                record.key,
                headers=list(record.headers),
                on_delivery=partial(self._note, record),
                timestamp=record.timestamp_ms if record.timestamp_ms is not None else _NOW,
                partition=record.partition if record.partition is not None else _BY_KEY,
            )

    def _note(self, record: ProducerRecord, error: KafkaError | None, _: Any) -> None:
        if error is not None:
            self._failures.append((record, error))

    def _refusal(self) -> RecordRefused | None:
        return find_refusal((record, error.code()) for record, error in self._failures)

    def _ending(self, *others: KafkaError) -> KafkaError | None:
        """The first error that no further try mends, of the records' and others."""
        return next((each for each in (*others, *(error for _, error in self._failures)) if ends(each.code())), None)


class LibrdkafkaTransactions(_Sending):
    """Records and offsets in one transaction."""

    def __init__(self, settings: KafkaSettings, transactional_id: str, max_batch: int) -> None:
        timeout = self._timeout = settings.transaction_request_timeout
        own = {
            "transactional.id": transactional_id,
            "transaction.timeout.ms": int(settings.transaction_timeout * 1000),
            "socket.timeout.ms": int(timeout * 1000),
            "message.timeout.ms": int(timeout * 1000),
            # Says of each connection that it broke; without it, only of the first in half a minute.
            "debug": "broker",
        }
        self._id = transactional_id
        self._connections = Connections()
        self._unfit: str | None = None
        super().__init__(settings, max_batch, own, self._connections)
        try:
            # Without a connection yet, it would look for its coordinator only half a second later. Many brokers create
            # a topic that they are asked for: none is named.
            self._producer.list_topics(timeout=CALL_TIMEOUT)
        except KafkaException as error:
            self.close()
            raise RetriableDelivery(f"metadata: {kafka_error(error).name()}") from error
        try:
            self._producer.init_transactions(timeout)
        except KafkaException as error:
            self.close()
            reason = kafka_error(error)
            passing = reason.retriable() or (reason.code() > 0 and not ends(reason.code()))
            kind = RetriableDelivery if passing else FatalDelivery
            raise kind(describe("init_transactions", reason)) from error

    def retirement(self) -> str | None:
        # What its threads have to log is handed over by this.
        self._producer.poll(0)
        return self._unfit or self._connections.broke

    def deliver(self, records: Sequence[ProducerRecord], commits: Commits, group: GroupMetadata) -> None:
        if group is None:
            # The broker takes offsets without a generation, and does not fence them.
            raise RetriableDelivery("not a member of the group")
        try:
            self._producer.begin_transaction()
            self._send(records)
            self._producer.send_offsets_to_transaction(offsets(commits), group, self._timeout)
            self._insisting(self._producer.commit_transaction)
        except KafkaException as error:
            reason = self._reason(kafka_error(error))
            if reason.code() in _FENCED:
                # Of a transaction's offsets it says that they can be sent again.
                raise self._fatal(reason) from error
            if reason.code() in _STALE:
                self._unfit = f"a topic is not as this producer knows it: {reason.name()}"
            if reason.code() == KafkaError._UNKNOWN_PARTITION and not reason.txn_requires_abort():
                self._abort(reason)
                raise RetriableDelivery(f"transaction: {reason.name()}") from error
            if reason.retriable() and not reason.txn_requires_abort():
                # Called again, it may never return. The initialisation of the next producer aborts the transaction.
                self._unfit = f"a transaction's offsets were not taken: {reason.name()}"
                raise RetriableDelivery(f"transaction: {reason.name()}") from error
            if reason.fatal() or not reason.txn_requires_abort():
                raise self._fatal(reason) from error
            self._abort(reason)
            if (refusal := self._refusal()) is not None:
                # The sequence of its partition has a hole that the next transaction would fail by.
                self._unfit = f"a record was refused: {refusal.refusal.name}"
                raise refusal from error
            if (ending := self._ending(reason)) is not None:
                raise self._fatal(ending) from error
            raise RetriableDelivery(f"transaction: {reason.name()}") from error

    def _reason(self, said: KafkaError) -> KafkaError:
        """Why the transaction failed; of one that failed meanwhile a call may only say that it did."""
        if said.code() == KafkaError._STATE and said.txn_requires_abort():
            try:
                self._producer.commit_transaction(CALL_TIMEOUT)
            except KafkaException as error:
                return kafka_error(error)
        return said

    def _abort(self, cause: KafkaError) -> None:
        try:
            self._insisting(self._producer.abort_transaction)
        except KafkaException as error:
            raise self._fatal(cause, f", abort: {kafka_error(error).name()}") from error

    def _fatal(self, reason: KafkaError, more: str = "") -> FatalDelivery:
        if reason.code() in _FENCED:
            return Fenced(self._id)
        return FatalDelivery(describe("transaction", reason) + more)

    def _insisting(self, call: Callable[[float], Any]) -> None:
        while True:
            try:
                call(CALL_TIMEOUT)
            except KafkaException as error:
                reason = kafka_error(error)
                if reason.fatal() or reason.txn_requires_abort() or not reason.retriable():
                    raise
                log.warning("transaction: %s; calling again", reason.name())
            else:
                return


class LibrdkafkaProducer(_Sending):
    """Records without a transaction, each acknowledged by all in-sync replicas."""

    def __init__(self, settings: KafkaSettings, max_batch: int) -> None:
        # What is queued is bounded by its size, however many records that is.
        own = {"message.timeout.ms": int(settings.request_timeout * 1000), "queue.buffering.max.messages": 0}
        super().__init__(settings, max_batch, own)

    def send(self, records: Sequence[ProducerRecord]) -> None:
        what = f"produce to {', '.join(sorted({record.topic for record in records}))}"
        with naming_failures(what):
            self._send(records)
            self._producer.flush()
        if (refusal := self._refusal()) is not None:
            raise refusal
        if (ending := self._ending()) is not None:
            raise FatalDelivery(describe(what, ending))
        if self._failures:
            worst = max((error for _, error in self._failures), key=KafkaError.fatal)
            if worst.code() == KafkaError._MSG_TIMED_OUT:
                cure = "if the topic does not exist, `rankstream topics` creates it"
                raise RetriableDelivery(f"{what}: no acknowledgement in time; {cure}")
            raise failure(what, worst)
