"""Table readers: a replica follows a compacted topic, and has what it says as a table, as Kafka Streams' GlobalKTable.

The watermarks let its caches serve only fresh answers, and rules decide what queries find.

Rules:
- Records committed before a call of `caught_up` are in the table when it returns: the reader requests the topic's end
  offsets after the call began, and reads everything below them. A request that began before the call doesn't count.
- All calls that begin during one request share the next one, so a call waits for two requests at most.
- `ask` has the ends requested before anybody waits for them: whoever began before that request needn't call at all.
  While no namespace has a watermark, nothing is cached that one could tell of, and no ends are requested for `ask`.
- Nobody asks for rules: their reader requests the ends every second, so that it knows of a broker that is down. No
  query is read before it has reached them once. Rules that were read stay in force while it is behind.
- No call waits for a broker that is down: after a failure every call fails at once, until the reader, which tries again
  every _RETRY seconds, has reached the ends again. The same holds before the topic is read for the first time.
- Unless asked, the reader of watermarks requests no ends. New records are applied every _IDLE seconds.
- A topic that ends below the positions read was created again and is read again, as it is after _AGAIN seconds of
  failures. A new topic that has already grown beyond those positions can't be told from the old one. The watermarks of
  the old topic stay: one that returned to an earlier value would make its cached answers valid again.
- Added partitions are read from their beginning, at most TAIL_METADATA_AGE seconds after they were added. Records that
  a producer writes there earlier are missed until then.
- Of the replicas, which all read the topic of rules, the member that has the first partition of the queries makes a
  broken rule a dead letter. The others keep theirs for _HELD seconds, in which they may take that partition over:
  so there is one at least, and a second one has the same place in its headers.
"""

import asyncio
import contextlib
import math
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import ClassVar, Final, Generic, TypeVar

import structlog
from typing_extensions import override

from operators.caching.watermark_table import WatermarkTable
from operators.delivery.client import ConsumerRecord, PlainProducer, RecordRefused, TopicReader
from operators.delivery.output_record import OutputRecord, own_field
from operators.delivery.way_out import WayOut, dead_letter
from operators.query.rules import RuleSet, RuleTable
from operators.wire.message import Message, Origin
from schemas.errors import (
    BackendTimeout,
    BackendUnavailable,
    DeadlinePassed,
    FatalDelivery,
    InputError,
    RankstreamError,
    RetriableDelivery,
)

log = structlog.stdlib.get_logger(__name__)

_IDLE: Final = 0.25
_RETRY: Final = 0.5
_AGAIN: Final = 10.0
_POLL: Final = 0.002
_LONG_POLL: Final = 0.1
"""Seconds: a poll may wait for a record although only a transaction's markers are left before the end. The long poll is
for when all calls have timed out."""

_CLOSE_TIMEOUT: Final = 5.0
_CREATED_AGAIN: Final = "the topic was created again"

_HELD: Final = 60.0
"""Seconds: more than a group takes to give the partitions of a dead member to others."""

_MOST: Final = 1000
"""Dead letters that wait at most: further records are counted and logged alone."""

_Outcome = asyncio.Future[str | None]
"""None, or why the request failed; all calls that share a request wait for the same future."""


Table = TypeVar("Table", WatermarkTable, RuleTable)
"""A table, to which the records of its topic are applied one after another; invalid ones change nothing."""

Broken = Callable[[ConsumerRecord, InputError], None]


class TableReader(Generic[Table]):
    """Reads a topic into a table on a thread of its own. The process calls `start` and `close`.

    `name` is that of the topic's role, `behind_means` what follows for queries while the reader is behind. `every`: how
    many seconds may go by until the ends are requested.
    """

    name: ClassVar[str]
    behind_means: ClassVar[str]
    every: ClassVar[float] = math.inf

    def __init__(
        self, tail: Callable[[], TopicReader], timeout: float, table: Table, broken: Broken = lambda *_: None
    ) -> None:
        """`timeout`: how many seconds a call waits at most. `broken` hears of the invalid records that came since the
        topic was first read.
        """
        self._tail = tail
        self._timeout = timeout
        self._table: Table = table
        self._broken = broken
        self._last: dict[int, int] = {}
        self.refused = 0
        """Invalid records."""
        self._reading = threading.Lock()
        self._calls = threading.Lock()
        self._present: _Outcome | None = None
        self._next: _Outcome | None = None
        self._asked = threading.Event()
        self._closing = threading.Event()
        self.behind = True
        """True if the reader has failed to read the topic since it last reached its end."""
        self._reached = threading.Event()
        self._since = -math.inf
        self._warned = False
        self._thread = threading.Thread(target=self._run, name=self.name, daemon=True)

    def start(self) -> None:
        """Begin to read."""
        self._thread.start()

    def close(self) -> None:
        """End the thread; calls fail from now on."""
        self._closing.set()
        self._asked.set()
        if self._thread.is_alive():
            self._thread.join(_CLOSE_TIMEOUT)

    def wait(self, timeout: float) -> None:
        """Return once the ends were reached since the start. Raises FatalDelivery after `timeout` seconds."""
        if not self._reached.wait(timeout):
            raise FatalDelivery(f"{self.name}: the topic was not read to its end in {timeout:g} s")

    def ask(self) -> None:
        """Have the ends requested now. From any thread."""
        self._asked.set()

    def read_since(self, moment: float) -> bool:
        """True if all records are read that were in the topic at this moment of the monotonic clock."""
        return self._since >= moment and not self.behind

    async def caught_up(self, timeout: float) -> None:
        """Return once all records are read that were in the topic at the time of the call; on one event loop only.

        Raises BackendTimeout after the reader's own timeout, DeadlinePassed if `timeout` seconds are less and have
        passed, and BackendUnavailable if the broker doesn't answer, or at once if the reader is behind since a failure.
        """
        with self._calls:
            if self.behind:
                raise BackendUnavailable(f"{self.name}: the reader is behind since a failure")
            if self._next is None:
                self._next = asyncio.get_running_loop().create_future()
                self._asked.set()
            outcome = self._next
        done, _ = await asyncio.wait([outcome], timeout=min(timeout, self._timeout))
        if not done:
            if timeout < self._timeout:
                raise DeadlinePassed(f"{self.name}: not read in time")
            self.behind = True
            raise BackendTimeout(f"{self.name}: not read in time")
        if (reason := outcome.result()) is not None:
            raise BackendUnavailable(f"{self.name}: {reason}")

    def _run(self) -> None:
        while not self._closing.is_set():
            try:
                with contextlib.closing(self._tail()) as tail:
                    self._follow(tail)
            except Exception as error:  # noqa: BLE001  said in the log; no other part needs this thread
                self._fail(str(error) if isinstance(error, RankstreamError) else type(error).__name__)
                self._closing.wait(_RETRY)
        self._fail("closed")

    def _follow(self, tail: TopicReader) -> None:
        heard = time.monotonic()
        while not self._closing.is_set():
            self._wait(tail)
            began = time.monotonic()
            try:
                ends = tail.ends(self._timeout)
            except RetriableDelivery as error:
                if time.monotonic() - heard > _AGAIN:
                    raise
                self._fail(str(error))
                self._closing.wait(_RETRY)
            else:
                self._read(tail, ends)
                self._since = began
                self.behind = False
                self._reached.set()
                if self._warned:
                    log.info(f"reader of {self.name} caught up")
                self._warned = False
                _complete(self._present, None)
                heard = time.monotonic()

    def _wait(self, tail: TopicReader) -> None:
        """Return when the ends are asked for, or at once while the reader is behind."""
        until = time.monotonic() + self.every
        while not self.behind and not self._asked.wait(_IDLE) and time.monotonic() < until:
            self._poll(tail, 0)
        self._asked.clear()
        with self._calls:
            self._present, self._next = self._next, None

    def _read(self, tail: TopicReader, ends: dict[int, int]) -> None:
        """Read up to the ends, however long it takes; calls fail while it takes longer than the timeout."""
        began = moved = time.monotonic()
        positions = tail.positions()
        if any(end < positions[number] for number, end in ends.items()):
            raise RetriableDelivery(_CREATED_AGAIN)
        wait = 0.0
        while any(positions[number] < end for number, end in ends.items()):
            if self._closing.is_set():
                raise RetriableDelivery("closed")
            self._poll(tail, wait)
            before, positions = positions, tail.positions()
            now = time.monotonic()
            if positions != before:
                moved = now
            wait = _POLL if now - moved < self._timeout else _LONG_POLL
            if now - began > self._timeout:
                self.behind = True
            if now - moved > _AGAIN:
                raise RetriableDelivery("no record was read although the topic has more")

    def _poll(self, tail: TopicReader, wait: float) -> None:
        """Apply new records. Raises RetriableDelivery, also if a position went back."""
        before = tail.positions()
        records = tail.poll(wait)
        after = tail.positions()
        # Clients move a position beyond the end of its log back to that end, and skip the records below.
        back = any(after[number] < offset for number, offset in before.items())
        if back or any(record.offset < before[record.partition.partition] for record in records):
            raise RetriableDelivery(_CREATED_AGAIN)
        refused = list[tuple[ConsumerRecord, InputError]]()
        for record in records:
            # One lock for each record, so that a call of `of` doesn't wait for all of them.
            try:
                with self._reading:
                    self._table.put(record.key or b"", record.value)
            except InputError as error:
                refused.append((record, error))
        if refused:
            self._refuse(refused)

    def _refuse(self, refused: Sequence[tuple[ConsumerRecord, InputError]]) -> None:
        self.refused += len(refused)
        first, wrong = refused[0]
        said = {**first.partition._asdict(), "offset": first.offset, "class": wrong.kind.value}
        said |= {"records": len(refused), "field": own_field(wrong.field)}
        log.warning(f"reader of {self.name} ignored invalid records", **said)
        for record, error in refused:
            number = record.partition.partition
            # After failures the topic is read again.
            if self._reached.is_set() and record.offset > self._last.get(number, -1):
                self._broken(record, error)
            self._last[number] = max(record.offset, self._last.get(number, -1))

    def _fail(self, reason: str) -> None:
        with self._calls:
            self.behind = True
            waiting, self._next = self._next, None
        if not self._warned and not self._closing.is_set():
            log.warning(f"reader of {self.name} is behind: {self.behind_means}", reason=reason)
        self._warned = True
        _complete(self._present, reason)
        _complete(waiting, reason)


class WatermarkReader(TableReader[WatermarkTable]):
    """Reads the watermarks topic."""

    name = "watermarks"
    behind_means = "caches are bypassed"

    def of(self, collection: str, namespace: str) -> tuple[str, ...]:
        """A namespace's watermark as far as it was read: `partition:offset` by documents partition. From any thread."""
        with self._reading:
            return self._table.of(collection, namespace)

    @property
    def generation(self) -> int:
        """The number of times that a namespace's offset went back: earlier answers may be of other documents."""
        with self._reading:
            return self._table.generation

    @override
    def ask(self) -> None:
        """Have the ends requested now, if any watermark is known. From any thread."""
        if self._table:
            self._asked.set()


class RuleReader(TableReader[RuleTable]):
    """Reads the rules topic."""

    name = "rules"
    behind_means = "those that were read stay in force"
    every = 1.0

    def of(self, namespace: str) -> Sequence[RuleSet]:
        """The rules for a namespace as far as they were read, as `RuleTable.of`. From any thread."""
        with self._reading:
            return self._table.of(namespace)


@dataclass(eq=False)
class BrokenRules:
    """The dead letters of broken rules that wait; `writes` is true while this replica writes them."""

    producer: Callable[[], PlainProducer]
    way_out: WayOut
    writes: Callable[[], bool]
    _waiting: deque[OutputRecord] = field(default_factory=deque, init=False)

    def add(self, record: ConsumerRecord, error: InputError) -> None:
        """Keep a record that is no rule. From any thread."""
        origin, now, clock = Origin(*record.partition, record.offset, 0), time.time(), time.monotonic()
        message = Message(origin, record.key, record.value, record.headers or (), record.timestamp, now, clock)
        if len(self._waiting) < _MOST:
            rejected = message.reject("rules", error.kind, str(error), error.field)
            self._waiting.append(dead_letter(rejected, self.way_out.dead_letters, None))

    async def send(self) -> None:
        """Write what waits if this replica is to, or else forget what is old. Raises DeliveryError."""
        if self._waiting:
            await asyncio.to_thread(self._send if self.writes() else self._forget)

    def _send(self) -> None:
        with contextlib.closing(self.producer()) as producer:
            while self._waiting:
                letter = self._waiting[0]
                try:
                    producer.send([letter])
                except RecordRefused as error:
                    [self._waiting[0]] = self.way_out.fall_back([letter], {id(letter): error.refusal})
                else:
                    self._waiting.popleft()
                    if (cause := letter.dead_letter) is not None:
                        self.way_out.signals.metrics.dead_letters[cause.kind.value, cause.stage].inc()

    def _forget(self) -> None:
        while self._waiting and (message := self._waiting[0].message) and time.monotonic() - message.clock > _HELD:
            self._waiting.popleft()


def _complete(outcome: _Outcome | None, reason: str | None) -> None:
    def resolve() -> None:
        if outcome is not None and not outcome.done():
            outcome.set_result(reason)

    if outcome is not None:
        # No call waits on a loop that is closed.
        with contextlib.suppress(RuntimeError):
            outcome.get_loop().call_soon_threadsafe(resolve)
