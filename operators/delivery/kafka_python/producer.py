"""Producers, in transactions or acknowledged, by kafka-python."""

from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any, Final

import kafka
from kafka import errors
from kafka.net.compat import KafkaNetClient

from operators.delivery.client import CALL_TIMEOUT, Commits, GroupMetadata, ProducerRecord, RecordRefused, find_refusal
from operators.delivery.error_codes import FENCED, RefusalCode, curing, ends, refusal_code
from operators.delivery.kafka_python.connection import connection, describe, further_options, offsets
from schemas.errors import FatalDelivery, Fenced, RetriableDelivery
from schemas.settings import KafkaSettings

_LINGER_MS: Final = 1000
_CLOSE_TIMEOUT: Final = 1
_ANSWERS: Final = 256
"""The latest answers of brokers in which the cause of a failure is looked for."""


class _Requests(KafkaNetClient):
    """Notes the first request that got no answer, and lets the client's thread sleep while records are gathered.

    It keeps the latest answers: an error of the client may hide the broker's code for it.
    """

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.unanswered: str | None = None
        self.gathering = False
        self.answers: deque[tuple[str, Any]] = deque(maxlen=_ANSWERS)

    def wakeup(self) -> None:
        """Wake the client's thread: for each partition alone it would take the interpreter, and ask the broker."""
        if not self.gathering:
            super().wakeup()

    def send(self, node_id: Any, request: Any, **options: Any) -> Any:
        answer = super().send(node_id, request, **options)
        answer.add_errback(self._note, request.name)
        answer.add_callback(self._keep, request.name)
        return answer

    def ends(self) -> str | None:
        """The first error among the answers that no further try mends, by its name; None: there is none."""
        codes = (code for name, code in self._errors() if ends(code) and not _is_refusal(name, code))
        return next((curing(errors.for_code(code).message or str(code), code) for code in codes), None)

    def refuses(self) -> RefusalCode | None:
        return next((RefusalCode(code) for name, code in self._errors() if _is_refusal(name, code)), None)

    def _errors(self) -> Iterator[tuple[str, int]]:
        return ((name, code) for name, answer in list(self.answers) for code in _codes(answer.to_dict()))

    def _keep(self, request: str, answer: Any) -> None:
        self.answers.append((request, answer))

    def _note(self, request: str, error: Exception) -> None:
        # Not ready: the request was not sent.
        if self.unanswered is None and not isinstance(error, errors.NodeNotReadyError):
            self.unanswered = f"{request}: {type(error).__name__}"


class _Sending:
    def __init__(self, settings: KafkaSettings, max_batch: int, timeout: float, own: Mapping[str, Any]) -> None:
        self._timeout = timeout
        self._config = {
            "acks": "all",
            "compression_type": settings.compression,
            "linger_ms": _linger_ms(settings),
            "batch_size": min(16_384, max_batch),
            "retry_backoff_ms": 5,
            # Sizes are bounded before they get here; the client's own bound would only hide the broker's answer.
            "max_request_size": 64 * 1024 * 1024,
            "metrics_enabled": False,
            "bootstrap_timeout_ms": int(CALL_TIMEOUT * 1000),
            **connection(settings),
            **further_options(settings.options_of_producers, kafka.KafkaProducer),
            **own,
        }
        self._records: Sequence[ProducerRecord] = ()
        self._failures: list[tuple[ProducerRecord, int | None]] = []
        self._failed: Any = None
        self._producer = self._make()

    def close(self) -> None:
        try:
            self._producer.close(timeout=_CLOSE_TIMEOUT)
        except errors.KafkaTimeoutError:
            # It waits for its records first, and does not end where that takes longer.
            self._producer._sender.force_close()
            self._producer.close(timeout=_CLOSE_TIMEOUT)

    def _make(self) -> Any:
        try:
            return kafka.KafkaProducer(**self._config, kafka_client=self._connect)
        except errors.KafkaError as error:
            # What found no broker leaves its sockets behind.
            self._requests.close()
            raise _failure(",".join(self._config["bootstrap_servers"]), error) from error

    def _connect(self, **options: Any) -> _Requests:
        self._requests = _Requests(**options)
        return self._requests

    def _send(self, records: Sequence[ProducerRecord]) -> None:
        """Send the records, and wait for the acknowledgement of each. Raises KafkaError."""
        self._records, self._failures, self._failed = records, [], None
        sent = []
        self._requests.answers.clear()
        # Waits for the topics' metadata, if they are not there.
        known = {topic: self._producer.partitions_for(topic) for topic in {record.topic for record in records}}
        if any(record.partition is not None and record.partition not in known[record.topic] for record in records):
            # The topic has grown; the next producer will know it.
            raise errors.UnknownTopicOrPartitionError
        self._requests.gathering = True
        try:
            for record in records:
                place = {"partition": record.partition, "timestamp_ms": record.timestamp_ms}
                content = {"key": record.key, "value": record.value, "headers": list(record.headers)}
                future = self._producer.send(record.topic, **content, **place)
                future.add_errback(partial(self._note, record, future))
                sent.append(future)
        finally:
            self._requests.gathering = False
        self._producer.flush(self._timeout)
        for future in sent:
            if not future.succeeded():
                raise future.exception or errors.KafkaTimeoutError("a record was not acknowledged")

    def _note(self, record: ProducerRecord, future: Any, error: Exception) -> None:
        # Batches that are given up because of a refused one fail after it, with the same error.
        if self._failed is None:
            self._failed = future._produce_future
        if future._produce_future is self._failed:
            self._failures.append((record, getattr(error, "errno", None)))

    def _failure(self, what: str, error: errors.KafkaError) -> Exception:
        """The error to raise for this one: RecordRefused, RetriableDelivery or FatalDelivery."""
        if (named := find_refusal(self._failures)) is not None:
            return named
        if (hidden := self._requests.refuses()) is not None:
            # The client divides a batch that is too large, and another of its batches may fail before the parts.
            return RecordRefused(self._records, hidden)
        if (code := self._requests.ends()) is not None:
            return FatalDelivery(f"{what}: {code}")
        return RetriableDelivery(describe(what, error))


class KafkaPythonTransactions(_Sending):
    """Records and offsets in one transaction."""

    def __init__(self, settings: KafkaSettings, transactional_id: str, max_batch: int) -> None:
        timeout = int(settings.transaction_request_timeout * 1000)
        own = {
            "transactional_id": transactional_id,
            "transaction_timeout_ms": int(settings.transaction_timeout * 1000),
            "delivery_timeout_ms": timeout,
            "request_timeout_ms": timeout - _linger_ms(settings),
            "max_block_ms": timeout,
        }
        self._id = transactional_id
        self._unfit: str | None = None
        super().__init__(settings, max_batch, settings.transaction_request_timeout, own)
        try:
            self._producer.init_transactions()
        except errors.KafkaError as error:
            self.close()
            # The client hides most of the broker's codes here.
            code = self._requests.ends()
            failed = FatalDelivery(f"init_transactions: {code}") if code else _failure("init_transactions", error)
            raise failed from error

    def retirement(self) -> str | None:
        return self._unfit or self._requests.unanswered

    def deliver(self, records: Sequence[ProducerRecord], commits: Commits, group: GroupMetadata) -> None:
        if group.generation_id < 0:
            # The broker takes offsets without a generation, and does not fence them.
            raise RetriableDelivery("not a member of the group")
        committing = False
        try:
            self._producer.begin_transaction()
            self._send(records)
            self._producer.send_offsets_to_transaction(offsets(commits), group)
            committing = True
            self._producer.commit_transaction()
        except errors.KafkaError as error:
            # What a failure leaves in the producer's queues and sequence numbers disturbs its later sends.
            self._unfit = f"a transaction failed: {type(error).__name__}"
            self._abort(error, committing=committing)
            raise self._failure("transaction", error) from error

    def _abort(self, cause: errors.KafkaError, *, committing: bool) -> None:
        try:
            # The client's own call waits without end for a partition of a topic that was made again with fewer.
            aborted = self._producer._transaction_manager.begin_abort()
            self._producer._sender.wakeup()
            if not aborted.wait(timeout_ms=CALL_TIMEOUT * 1000):
                raise errors.KafkaTimeoutError("the transaction's end was not acknowledged")
        except errors.KafkaError as error:
            if getattr(self._producer._transaction_manager.last_error, "errno", None) in FENCED:
                raise Fenced(self._id) from cause
            # Else the initialisation of the next producer aborts it.
            if committing:
                code = self._requests.ends() or type(cause).__name__
                raise FatalDelivery(f"transaction: {code}, abort: {type(error).__name__}") from cause


class KafkaPythonProducer(_Sending):
    """Records without a transaction, each acknowledged by all in-sync replicas."""

    def __init__(self, settings: KafkaSettings, max_batch: int) -> None:
        timeout = int(settings.request_timeout * 1000)
        # A record needs more time than one request for it: the client's default is too short for a long one.
        longest = max(kafka.KafkaProducer.DEFAULT_CONFIG["delivery_timeout_ms"], timeout + _linger_ms(settings))
        own = {"enable_idempotence": True, "max_block_ms": timeout, "delivery_timeout_ms": longest}
        self._unfit = False
        super().__init__(settings, max_batch, settings.request_timeout, own)

    def send(self, records: Sequence[ProducerRecord]) -> None:
        if self._unfit:
            # What a failure leaves in queues and sequence numbers disturbs later sends, and of a topic that was made
            # again with fewer partitions the client waits for all that it had.
            self.close()
            self._producer, self._unfit = self._make(), False
        try:
            self._send(records)
        except errors.KafkaError as error:
            self._unfit = True
            what = f"produce to {', '.join(sorted({record.topic for record in records}))}"
            raise self._failure(what, error) from error


def _linger_ms(settings: KafkaSettings) -> int:
    # The client wants time for a request after it.
    return min(_LINGER_MS, int(settings.transaction_request_timeout * 500))


def _failure(what: str, error: errors.KafkaError) -> RetriableDelivery | FatalDelivery:
    kind = RetriableDelivery if isinstance(error, errors.RetriableError) else FatalDelivery
    return kind(describe(what, error))


def _is_refusal(request: str, code: int) -> bool:
    return request.startswith("Produce") and refusal_code(code) is not None


def _codes(value: Any) -> Iterator[int]:
    if isinstance(value, dict):
        for name, inner in value.items():
            if name.endswith("error_code"):
                yield inner
            else:
                yield from _codes(inner)
    elif isinstance(value, list | tuple):
        for inner in value:
            yield from _codes(inner)
