"""The sink: results, dead letters and the offsets that they answer are committed together, on a thread of its own.

Rules:
- The engine's worker only queues records; it never waits for a broker.
- A transaction starts at once if the last one began at least `interval` ago, and ended at least SETTLES ago; else
  records queue until then. Where more than COMMON records a second come, the interval is longer in the same ratio, up
  to LONGEST: a transaction costs the same for one record as for many.
- Each try asks the ledger again what may be committed: records of epochs that have ended are dropped.
- Positions that move on without an answer go with the next transaction, or have one of their own.
- All records of a message are delivered together, always.
- A record that the broker refuses for itself takes its next form (`operators.delivery.way_out`), and the others are
  tried again. Where it isn't said which of several it is, each half of the messages is tried alone.
- A record for a place that its query chose, and that can't take it, gives way to others before the transaction
  (`operators.delivery.topics`).
- Dead letters are logged once they are durable: those of one topic, class and stage in one line, with their number and
  the place of the first. No line quotes a message: the reason is in the letter.
- A retriable failure is retried without end, but not once the sink is closed: what is left then was not committed, and
  is read again. Any other failure ends the process.
- Before partitions are revoked, and at the end, the producer concludes: it commits their offsets for the last time.
"""

import math
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Final, Self

import structlog
from bytewax.outputs import DynamicSink, StatelessSinkPartition

from operators.delivery.client import Consumer, Producer, RecordRefused
from operators.delivery.ledger import Ledger, Transaction
from operators.delivery.output_record import OutputRecord, RecordForm, by_message, own_field
from operators.delivery.topics import ReplyTopics
from operators.delivery.way_out import WayOut
from operators.runtime.batching.policy import by_key, divide
from operators.telemetry.metrics import FlowMetrics
from operators.wire.message import Trace
from schemas.errors import RetriableDelivery

log = structlog.stdlib.get_logger(__name__)

SETTLES: Final = 0.003
"""Seconds. The broker answers the end of a transaction before it has written it everywhere, and refuses the next one
until then; librdkafka tries again after 20 ms."""

COMMON: Final = 100.0
"""Records a second."""

LONGEST: Final = 0.06
"""Seconds."""

_RETRY: Final = 0.1


@dataclass(eq=False)
class Delivery:
    """The sink's thread. `start` and `close` are called by the process.

    `interval`: seconds from the begin of a transaction to the next one's; `failed` hears why the thread has ended.
    """

    producer: Producer
    consumer: Consumer
    ledger: Ledger
    way_out: WayOut
    interval: float
    failed: Callable[[BaseException], None]
    metrics: FlowMetrics
    reply_topics: ReplyTopics

    def __post_init__(self) -> None:
        self._queue: deque[OutputRecord] = deque()
        self._changed = threading.Condition()
        self._closing = self._advancing = self._flushing = False
        self._thread = threading.Thread(target=self._run, name="delivery", daemon=True)
        # Infinite: no try is under way, and none has failed since all was committed.
        self._began = self._failing = math.inf

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def enqueue(self, output_records: Sequence[OutputRecord]) -> None:
        """Queue output records. From any thread."""
        with self._changed:
            self._queue.extend(output_records)
            self._changed.notify_all()

    def advance(self) -> None:
        """Commit the positions of the ledger that move on without an answer. From any thread."""
        with self._changed:
            self._advancing = True
            self._changed.notify_all()

    def flush(self, timeout: float) -> None:
        """Deliver the queued records at once, and conclude; returns then, or after `timeout` seconds.

        Returns at once if the thread does not run.
        """
        if not self._thread.is_alive():
            return
        with self._changed:
            self._flushing = True
            self._changed.notify_all()
            self._changed.wait_for(lambda: not self._flushing, timeout)
            self._flushing = False

    def stuck_for(self) -> float:
        """Seconds since the present try began; 0 between tries."""
        return max(0.0, time.monotonic() - self._began)

    def failing_for(self) -> float:
        """Seconds since the first of the tries that failed after the last one that committed all there was; else 0."""
        return max(0.0, time.monotonic() - self._failing)

    def close(self) -> None:
        """Deliver the queued records, if that is possible now, then end the thread."""
        with self._changed:
            self._closing = True
            self._changed.notify_all()
        if self._thread.is_alive():
            self._thread.join()
        self.producer.close()

    def _run(self) -> None:
        began = ended = -math.inf
        interval = self.interval
        waiting: list[OutputRecord] = []
        try:
            while True:
                with self._changed:
                    self._changed.wait_for(lambda: self._due or self._ending)
                    if self._due:
                        # More records queue until the interval has passed.
                        left = max(began + interval, ended + SETTLES) - time.monotonic()
                        self._changed.wait_for(lambda: self._ending, left)
                    answers = waiting + list(self._queue)
                    self._queue.clear()
                    advancing, self._advancing = self._advancing, False
                if answers or advancing:
                    before, began = began, time.monotonic()
                    interval = stretch(self.interval, len(answers) / (began - before))
                    waiting = self._deliver(answers)
                    ended = time.monotonic()
                with self._changed:
                    if self._queue or not self._ending:
                        continue
                self._conclude()
                with self._changed:
                    self._flushing = False
                    self._changed.notify_all()
                    if self._closing:
                        return
        except Exception as error:  # noqa: BLE001  the process ends with it
            log.error("delivery failed", error=type(error).__name__, reason=str(error))
            self.failed(error)

    @property
    def _due(self) -> bool:
        return bool(self._queue) or self._advancing

    @property
    def _ending(self) -> bool:
        return self._closing or self._flushing

    def _conclude(self) -> None:
        standing = self.ledger.standing(self.consumer.group_metadata)
        try:
            self.producer.conclude(standing.commits, standing.group)
        except RetriableDelivery as error:
            log.warning("last commit failed", reason=str(error))

    def _deliver(self, answers: Sequence[OutputRecord]) -> list[OutputRecord]:
        while True:
            if (prepared := self._prepare(answers)) is None:
                if self._closing:
                    return []
                continue
            answers = prepared
            transaction = self.ledger.committable(answers, self.consumer.group_metadata)
            if transaction.dropped:
                self._abandon(transaction.dropped)
                answers = [*transaction.records, *transaction.waiting]
            if not transaction.moves:
                # What failed is another replica's now.
                self._failing = math.inf
                return list(transaction.waiting)
            began = self._began = time.monotonic()
            committed = False
            try:
                self.producer.deliver(compact(transaction.records), transaction.commits, transaction.group)
            except RecordRefused as error:
                if len(error.records) > 1 and len(messages := by_message(answers)) > 1:
                    halves = [[record for each in half for record in each] for half in divide(messages)]
                    return [waiting for half in halves for waiting in self._deliver(half)]
                for refused in error.records:
                    reason, remedy = error.refusal.name, error.refusal.remedy
                    log.error("topic refused a record", topic=refused.topic, reason=reason, remedy=remedy)
                answers = self.way_out.fall_back(answers, dict.fromkeys(map(id, error.records), error.refusal))
            except RetriableDelivery as error:
                log.warning("transaction failed", reason=str(error), retry_in_s=_RETRY)
                self.reply_topics.invalidate()
                if self._closing:
                    return []
                time.sleep(_RETRY)
            else:
                committed = True
                self._confirm(transaction)
                return list(transaction.waiting)
            finally:
                self._began = math.inf
                self._failing = math.inf if committed else min(self._failing, began)
                self.metrics.transactions["committed" if committed else "failed",].inc()
                self.metrics.transaction_duration.observe(time.monotonic() - began)

    def _prepare(self, answers: Sequence[OutputRecord]) -> Sequence[OutputRecord] | None:
        """The records, with others in place of those that have nowhere to go; None while the broker doesn't answer."""
        began = self._began = time.monotonic()
        try:
            self.producer.prepare()
            misplaced = self.reply_topics.find_refusals(answers)
        except RetriableDelivery as error:
            self._failing = min(self._failing, began)
            log.warning("producer is not ready", reason=str(error), retry_in_s=_RETRY)
            time.sleep(_RETRY)
            return None
        finally:
            self._began = math.inf
        return self.way_out.fall_back(answers, misplaced) if misplaced else answers

    def _abandon(self, answers: Sequence[OutputRecord]) -> None:
        log.info("records are left to the new owner of their partitions, which answers them", records=len(answers))
        self.metrics.abandoned.inc(len(by_message(answers)))
        for trace in _traces(answers):
            trace.abandoned()

    def _confirm(self, transaction: Transaction) -> None:
        self.ledger.confirm(transaction)
        for trace in _traces(transaction.records):
            trace.sent()
        self._note_dead_letters(transaction.records)
        # Only watermarks compact: they stand for an event that is applied.
        if applied := {record.origin for record in transaction.records if record.compacts}:
            self.metrics.applied.inc(len(applied))

    def _note_dead_letters(self, records: Iterable[OutputRecord]) -> None:
        dead = [(record, cause) for record in records if (cause := record.dead_letter) is not None]
        for (_, kind, stage), alike in by_key(dead, lambda each: (each[0].origin.topic, *each[1][:2])).items():
            record, cause = alike[0]
            fields: dict[str, object] = {"class": kind.value, "stage": stage, **record.origin.log_fields}
            if record.trace is not None and record.trace.trace_id is not None:
                fields["trace_id"] = record.trace.trace_id
            log.warning("dead letters", **fields, field=own_field(cause.field), count=len(alike))
            self.metrics.dead_letters[kind.value, stage].inc(len(alike))


def stretch(interval: float, rate: float) -> float:
    """The seconds from one transaction to the next where `rate` records a second come."""
    return max(interval, min(interval * (rate / COMMON), LONGEST))


_NOT_ALL_SENT: Final = (RecordForm.WATERMARK, RecordForm.NOTHING)


def compact(records: Sequence[OutputRecord]) -> Sequence[OutputRecord]:
    """All records with something to say, but of those that compact only the one with the highest offset for each topic
    and key.
    """
    sent = [each for each in records if each.form not in _NOT_ALL_SENT]
    if len(sent) == len(records):
        return records
    compacting = sorted([each for each in records if each.compacts], key=lambda each: each.origin.offset)
    return sent + list({(each.topic, each.key): each for each in compacting}.values())


def _traces(records: Iterable[OutputRecord]) -> Iterable[Trace]:
    return dict.fromkeys(record.trace for record in records if record.trace is not None)


@dataclass(frozen=True)
class DeliverySink(DynamicSink[list[OutputRecord]], StatelessSinkPartition[list[OutputRecord]]):
    """The dataflow's sink, and its only partition: takes lists of output records."""

    delivery: Delivery

    def build(self, step_id: str, worker_index: int, worker_count: int) -> Self:  # noqa: ARG002
        return self

    def write_batch(self, items: list[list[OutputRecord]]) -> None:
        self.delivery.enqueue([output_record for batch in items for output_record in batch])
