"""The source: a thread of its own reads messages for the flow while there is credit.

Rules:
- Only the consumer loop's thread calls the consumer; the engine's worker waits for nothing but the wake-up event.
- Records beyond the credit wait here. While AHEAD or more wait, until it is half as many, or when stopping, the
  partitions are paused and polling goes on, so that the member stays in its group.
- A newly assigned partition is read from the offset that the group has committed, never from an earlier position.
  Records of a partition that isn't, or no longer is, in the ledger are dropped: its owner reads them again.
- Before a partition is revoked, the answered messages are committed, within _LAST_COMMIT seconds. The next owner of the
  partition reads the others again.
- Stopping: no more is read; the source ends when all messages that were read are committed, or at `drain_timeout`. The
  next owner of the partitions reads the remaining messages. A drain without any time leaves them to it at once.
- A partition that ends in the marks of transactions has nothing that is unread: once all records are answered, the
  client's position is committed.
- A partition that ends below what was read of it has lost records, or was created again. Nothing tells which of its
  records are answered: that is a failure. One that has grown beyond this offset by then can't be told from a whole one.
- A failure of the consumer loop's thread, or of the sink's, ends the source and the process.
"""

import threading
import time
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from typing import Final, Self

import structlog
from bytewax.inputs import DynamicSource, StatelessSourcePartition

from operators.delivery.client import Consumer, ConsumerRecord, Rebalance, TopicPartition
from operators.delivery.ledger import Ledger
from operators.delivery.tracker import Commit, RepeatedOffset
from operators.runtime.event_loop import Wakeup
from operators.runtime.stage import KEY
from operators.telemetry.metrics import FlowMetrics
from operators.wire.message import Message, Origin
from schemas.errors import FatalDelivery, RetriableDelivery
from schemas.headers import MAX_HEADERS

log = structlog.stdlib.get_logger(__name__)

_PACE: Final = 0.015
_SPARSE: Final = 0.008
"""Seconds from one poll to the next while records come closer than _SPARSE to one another: then the flow gets lists of
them, and is not interrupted for each."""

MOST_AT_ONCE: Final = 64
"""Messages that the flow gets at a time at most: more would go through it in step, and leave it idle while all of them
wait for the same backend."""

BYTES_AT_ONCE: Final = 1 << 20
"""Bytes of values and headers after which no more come along: all else that the engine has to do waits meanwhile."""

AHEAD: Final = 512
"""Records that wait for credit at most, and those of one further poll. A client may drop what it has fetched when it is
paused, and the flow would wait for it to be fetched again."""

_IDLE_POLL: Final = 0.1
_SHORT_POLL: Final = 0.01
_FAILED_POLL: Final = 0.1
_RETRY: Final = 0.5
_LAST_COMMIT: Final = 0.5
"""Seconds that a rebalance may be delayed to commit answered messages, which the next owner then doesn't repeat."""

MOST_READ: Final = 1024
"""Messages that wait for the flow at most, where the credit allows more."""

LAG_INTERVAL: Final = 1.0
"""Seconds between two looks at the lag, and at positions for which no answer comes."""

_PAST: Final = datetime(2000, 1, 1, tzinfo=UTC)


@dataclass(eq=False)
class ConsumerLoop:
    """Reads messages while there is credit. The process calls `start`, `stop` and `close`."""

    consumer: Consumer
    ledger: Ledger
    topic: str
    wakeup: Wakeup
    drain_timeout: float
    metrics: FlowMetrics
    moved_at: float = field(default_factory=time.monotonic, init=False)
    """Time of the engine's last call of `take`, on the monotonic clock."""
    at_end: tuple[float, frozenset[Origin]] = field(default=(0.0, frozenset()), init=False)
    """The last messages of the partitions that are read to their ends, and the Unix time at which they were found so.
    """

    def __post_init__(self) -> None:
        self._lag = Lag(self.consumer, self.ledger, self.metrics)
        self._passed_at = 0.0
        self._last: dict[TopicPartition, Origin] = {}
        self._read: deque[Message] = deque()
        self._ahead: deque[ConsumerRecord] = deque()
        self._lock = threading.Lock()
        self._assigned: dict[TopicPartition, int] = {}
        self._assignments = 0
        self._paused: bool | None = None
        # A failed poll may have moved the client's positions past records that it didn't return.
        self._misplaced = False
        self._read_at = 0.0
        self._stop_at: float | None = None
        self._closing = self._drained = False
        self._failure: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name="consumer loop", daemon=True)

    def start(
        self, flush: Callable[[float], None], advance: Callable[[], None], arrived: Callable[[], None] = lambda: None
    ) -> None:
        """Join the group and read; `flush` commits the answered messages, within the given seconds, and `advance` soon
        the positions for which no answer comes. `arrived` is called whenever messages have been read, before the flow
        gets them. The last two must not block.
        """
        self._flush, self._advance, self._arrived = flush, advance, arrived
        self._thread.start()

    def stop(self) -> None:
        """Read no more; the source ends once all messages read are committed. From any thread."""
        if self._stop_at is None:
            self._stop_at = time.monotonic() + self.drain_timeout
        self.wakeup.set()

    def fail(self, error: BaseException) -> None:
        """End the source with `error`. From any thread."""
        self._failure = self._failure or error
        self.wakeup.set()

    def check(self) -> None:
        """Raise FatalDelivery if a failure has ended the source. An exception in the engine's worker is a panic of the
        engine's, which would print its own stack.
        """
        if self._failure is not None:
            raise FatalDelivery(str(self._failure)) from self._failure

    def close(self) -> None:
        """Leave the group and end the thread."""
        self._closing = True
        if self._thread.is_alive():
            self._thread.join()
        self.consumer.close()

    def take(self) -> list[Message]:
        """The messages read since the last call; of many the first ones, and the wake-up event is set for the others.

        Raises StopIteration at the end, and after a failure, which `check` raises.
        """
        self.moved_at = time.monotonic()
        if self._failure is not None or self._drained:
            raise StopIteration
        messages: list[Message] = []
        left = BYTES_AT_ONCE
        # The one that goes over the bound goes along: a large one must go at some time.
        while self._read and len(messages) < MOST_AT_ONCE and left > 0:
            messages.append(self._read.popleft())
            left -= messages[-1].size
        if self._read:
            self.wakeup.set()
        return messages

    def _run(self) -> None:
        try:
            while not self._closing and not self._subscribe():
                time.sleep(_RETRY)
            while not self._closing:
                self._poll_once()
        except Exception as error:  # noqa: BLE001  the source raises it in the worker
            log.error("consumer loop failed", error=type(error).__name__)
            self.fail(error)

    def _subscribe(self) -> bool:
        if self._stop_at is not None:
            self._finish_if_drained()
            return False
        rebalance = Rebalance(self._on_assigned, self._on_revoked, partial(self._end, "lost"))
        try:
            self.consumer.subscribe(self.topic, rebalance)
        except RetriableDelivery as error:
            log.warning("consumer cannot subscribe", topic=self.topic, reason=str(error), retry_in_s=_RETRY)
            return False
        return True

    def _poll_once(self) -> None:
        began = time.monotonic()
        self._take_over()
        self._find_place()
        wanted = self._stop_at is None and len(self._ahead) < (AHEAD // 2 if self._paused else AHEAD)
        if self._paused is None or self._paused is wanted:
            self.consumer.fetch(self.ledger.partitions, wanted=wanted)
            self._paused = not wanted
        try:
            self._ahead += self.consumer.poll(_IDLE_POLL if wanted and not self._ahead else _SHORT_POLL)
        except RetriableDelivery as error:
            log.warning("consumer cannot poll", reason=str(error), retry_in_s=_FAILED_POLL)
            self._misplaced = True
            time.sleep(_FAILED_POLL)
        if self._misplaced:
            # These are read again once the client's positions are right.
            self._ahead.clear()
        now = time.monotonic()
        self._lag.report(now)
        if messages := self._messages():
            self.metrics.received.inc(len(messages))
            self._arrived()
            self._read.extend(messages)
            self.wakeup.set()
            dense = len(messages) > 1 or now - self._read_at < _SPARSE
            self._read_at = now
        else:
            dense = bool(self._ahead)
        self._pass_over(now)
        self._finish_if_drained()
        left = began + _PACE - time.monotonic()
        if dense and left > 0:
            time.sleep(left)

    def _pass_over(self, now: float) -> None:
        # Of what waits here the ledger doesn't know yet.
        if self._ahead or self._misplaced or now - self._passed_at < LAG_INTERVAL:
            return
        self._passed_at = now
        positions = self.consumer.positions(self.ledger.partitions)
        ends = self.consumer.ends([*positions])
        ended = (each for each, position in positions.items() if each in ends and position >= ends[each].last)
        self.at_end = time.time(), frozenset(self._last[each] for each in ended if each in self._last)
        if self.ledger.pass_over(positions):
            self._advance()

    def _find_place(self) -> None:
        if not self._misplaced:
            return
        try:
            self.consumer.start(self.ledger.next_offsets())
        except RetriableDelivery as error:
            log.warning("consumer cannot move to its offsets", reason=str(error))
        else:
            self._misplaced = False
            # A client may keep a partition paused over this, or not.
            self._paused = None

    def _finish_if_drained(self) -> None:
        if self._stop_at is None or self._drained or self._read:
            return
        in_flight = self.ledger.in_flight if self.drain_timeout else 0
        late = time.monotonic() >= self._stop_at
        if in_flight and late:
            log.warning("drain timed out", queries_left=in_flight)
        if not in_flight or late:
            self._drained = True
            self.metrics.drains["timed_out" if in_flight else "complete",].inc()
            self.wakeup.set()

    def _messages(self) -> list[Message]:
        received, clock = time.time(), time.monotonic()
        messages: list[Message] = []
        room = MOST_READ - len(self._read)
        while self._ahead and self._stop_at is None and self.ledger.credit > 0 and len(messages) < room:
            record = self._ahead.popleft()
            try:
                epoch = self.ledger.see(record.partition, record.offset)
            except RepeatedOffset:
                self._check_end(record.partition)
                where = record.partition._asdict()
                log.warning("partition repeats an offset: its first record counts", **where, offset=record.offset)
                continue
            if epoch is not None:
                origin = Origin(record.partition.topic, record.partition.partition, record.offset, epoch)
                self._last[record.partition] = origin
                legible = record.headers is not None and len(record.headers) <= MAX_HEADERS
                headers, sent = record.headers or () if legible else (), record.timestamp
                messages.append(Message(origin, record.key, record.value, headers, sent, received, clock, legible))
        return messages

    def _check_end(self, partition: TopicPartition) -> None:
        heard, read = self.consumer.ends([partition]).get(partition), self.ledger.next_offsets().get(partition)
        if heard is not None and read is not None and heard.last < read:
            raise FatalDelivery(
                f"{partition.topic}-{partition.partition}: ends at offset {heard.last}, and was read up to {read}:"
                " records were lost, or the topic was created again. Set the group's offset to the first new record"
                " (kafka-consumer-groups --reset-offsets), then start again"
            )

    def _on_assigned(self, partitions: Iterable[TopicPartition]) -> None:
        self.metrics.rebalances["assigned",].inc()
        with self._lock:
            self._assignments += 1
            self._assigned |= dict.fromkeys(partitions, self._assignments)

    def _on_revoked(self, partitions: Iterable[TopicPartition]) -> None:
        self._flush(_LAST_COMMIT)
        self._end("revoked", partitions)

    def _end(self, how: str, partitions: Iterable[TopicPartition]) -> None:
        self.metrics.rebalances[how,].inc()
        with self._lock:
            for partition in partitions:
                self._assigned.pop(partition, None)
            self.ledger.revoke(partitions)

    def _take_over(self) -> None:
        with self._lock:
            assigned = dict(self._assigned)
        if not assigned:
            return
        try:
            committed = self.consumer.committed(list(assigned))
            starts = {
                partition: commit if commit is not None else Commit(self.consumer.beginning(partition), "")
                for partition, commit in committed.items()
            }
        except RetriableDelivery as error:
            log.warning("consumer cannot read committed offsets", reason=str(error))
            return
        with self._lock:
            # A revocation meanwhile has ended an assignment: its committed offsets are out of date.
            taken = [partition for partition in starts if self._assigned.get(partition) == assigned[partition]]
            for partition in taken:
                del self._assigned[partition]
                self.ledger.assign(partition, starts[partition])
        self._ahead.clear()
        self._misplaced = True
        log.info("consumer took over partitions", partitions=len(taken))


@dataclass(eq=False)
class Lag:
    """Reports the unread records to the metrics, and those that can't be read yet because a transaction is open.

    Source: the partitions' ends that the client last heard of. For the consumer's thread.
    """

    consumer: Consumer
    ledger: Ledger
    metrics: FlowMetrics
    _measured: set[TopicPartition] = field(default_factory=set, init=False)
    _looked_at: float = field(default=0.0, init=False)

    def report(self, now: float) -> None:
        """Tell the lag, if it is time; `now` is on the monotonic clock. What isn't assigned any more has none."""
        if now - self._looked_at < LAG_INTERVAL:
            return
        self._looked_at = now
        ends, committed = self.consumer.ends(self.ledger.partitions), self.ledger.positions()
        known = {each: end for each, end in ends.items() if each in committed}
        for partition, end in known.items():
            labels = partition.topic, str(partition.partition)
            self.metrics.lag[labels].set(max(0, end.stable - committed[partition]))
            self.metrics.unstable[labels].set(max(0, end.last - end.stable))
        for partition in self._measured - known.keys():
            labels = partition.topic, str(partition.partition)
            self.metrics.lag.remove(*labels)
            self.metrics.unstable.remove(*labels)
        self._measured = set(known)


KeyedMessages = tuple[str, list[Message]]
"""A batch of messages, by its key."""


@dataclass(frozen=True)
class MessageSource(DynamicSource[KeyedMessages], StatelessSourcePartition[KeyedMessages]):
    """A source of keyed batches: at each wake-up the messages read, perhaps none. It is its own only partition."""

    loop: ConsumerLoop

    def build(self, step_id: str, worker_index: int, worker_count: int) -> Self:  # noqa: ARG002
        if worker_count != 1:
            raise FatalDelivery(f"{worker_count} workers in one process: expected 1; start more processes instead")
        return self

    def next_batch(self) -> list[KeyedMessages]:
        woken = self.loop.wakeup.wait()
        messages = self.loop.take()
        return [(KEY, messages)] if woken or messages else []

    def next_awake(self) -> datetime:
        return _PAST
