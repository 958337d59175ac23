"""The steps of flows/feedback.py: events are decoded, joined by query in windows, and published as preferences.

Rules:
- The messages of an open window are in flight: none of their offsets is committed. The partition's next owner reads
  them again, so the state of the join is lost on purpose at the end of a process or an assignment.
- A preference ends all messages of its window in one transaction. An event that counts for none ends without a record.
- Only what is in a token and the name of the action goes into a preference: no id of a client, session or user.
- A partition that is read to its end has no message whose time would close its last windows: so they close IDLE after
  their ends by the clock of this process.
"""

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from itertools import chain
from typing import ClassVar, Final

from bytewax import operators as op
from bytewax.dataflow import operator
from bytewax.operators import StatefulBatchLogic

from operators.delivery.output_record import OutputRecord, RecordForm
from operators.delivery.way_out import WayOut
from operators.experiments.impression import Impression, TokenCodec
from operators.experiments.window import FeedbackOutcome, Windows
from operators.runtime.stage import Batch, Batches
from operators.wire.message import Message, Origin, Rejected, check_headers, sent_at
from operators.wire.parsing import parse_message
from schemas.errors import DeadLetterClass, invalid
from schemas.feedback import MAX_FEEDBACK_PARTS, read_action

IDLE: Final = 60.0
"""Seconds: more than the clocks of brokers and replicas differ, and than a record takes from the broker's clock to us.
"""

_LOOK: Final = timedelta(seconds=1)

AtEnd = Callable[[], tuple[float, Collection[Origin]]]
"""Gives the last messages of the partitions that are read to their ends, and the Unix time at which they were."""


@dataclass(frozen=True, slots=True)
class Reaction:
    """One event on its way, of this time in ms; without an impression it counts for nothing."""

    message: Message
    time: int
    impression: Impression | None = None
    action: str = ""

    answered: ClassVar = False

    def reject(self, stage: str, kind: DeadLetterClass, reason: str, field: str | None = None) -> Rejected:
        """The refusal of the event's message."""
        return Rejected(self.message, kind, stage, reason, field=field)


@dataclass(frozen=True, slots=True)
class FeedbackDecoder:
    """Turns messages into feedback, on results that these tokens name."""

    max_bytes: int
    tokens: TokenCodec

    def __call__(self, message: Message) -> Reaction:
        """The event that the message brings. Raises InputError."""
        check_headers(message, self.max_bytes)
        time = round(sent_at(message) * 1000)
        action = read_action(parse_message(message, self.max_bytes, MAX_FEEDBACK_PARTS).event)
        if action is None:
            return Reaction(message, time)
        impression = self.tokens.read(action.token)
        # Another partition would have another window for the query.
        if message.key != impression.query_id.encode():
            raise invalid("key", "the query_id of the token's query is expected", message.key)
        return Reaction(message, time, impression, action.name)


@dataclass(slots=True)
class _Partition:
    windows: Windows
    last: Origin
    """The last message that was read, under the assignment that the windows are for."""


@dataclass(eq=False)
class Join(StatefulBatchLogic[Batch, Batch, None]):
    """Joins feedback by query, and ends its messages by records for the topic `preferences`: those of a closed window
    by a preference, one that counts for none by nothing. Its state is the open windows of each partition.

    `runs` is true while the assignment lasts under which a message was read. `count` takes a number of events.
    """

    preferences: str
    windows: Callable[[], Windows]
    at_end: AtEnd
    runs: Callable[[Origin], bool]
    count: Callable[[FeedbackOutcome, int], None]
    _partitions: dict[int, _Partition] = field(default_factory=dict, init=False)

    def on_batch(self, batches: list[Batch]) -> tuple[Iterable[Batch], bool]:
        out = [ended for item in chain.from_iterable(batches) for ended in self._take(item)]
        return [out] if out else [], self.RETAIN

    def on_notify(self) -> tuple[Iterable[Batch], bool]:
        """Close windows of partitions that are read to their ends; forget those of assignments that have ended."""
        out: Batch = []
        moment, ended = self.at_end()
        for number, partition in list(self._partitions.items()):
            if not self.runs(partition.last):
                del self._partitions[number]
            elif partition.last in ended:
                out += self._close(partition, round((moment - IDLE) * 1000))
        return [out] if out else [], self.RETAIN

    def notify_at(self) -> datetime | None:
        return datetime.now(UTC) + _LOOK if self._partitions else None

    def snapshot(self) -> None:
        """Keep nothing: the next owner of a partition reads the messages of its open windows from Kafka again."""

    def _take(self, item: Reaction | Rejected) -> Iterable[OutputRecord | Rejected]:
        origin = item.message.origin
        partition = self._partitions.get(origin.partition)
        if partition is None or partition.last.epoch != origin.epoch:
            partition = self._partitions[origin.partition] = _Partition(self.windows(), origin)
        partition.last = origin
        if isinstance(item, Rejected):
            yield item
            return
        yield from self._close(partition, item.time)
        outcome: FeedbackOutcome | None = FeedbackOutcome.IGNORED
        if item.impression is not None:
            outcome = partition.windows.add(item.impression, item.action, origin.offset, item.time)
        if outcome is not None:
            self.count(outcome, 1)
            yield OutputRecord(self.preferences, None, None, origin=origin, form=RecordForm.NOTHING)

    def _close(self, partition: _Partition, time: int) -> Iterable[OutputRecord]:
        for preference, (first, *further) in partition.windows.advance(time):
            self.count(FeedbackOutcome.ROBOT if preference.robot else FeedbackOutcome.COUNTED, 1 + len(further))
            key, value = preference.query_id.encode(), preference.model_dump_json().encode()
            origin = partition.last._replace(offset=first)
            yield OutputRecord(self.preferences, key, value, origin=origin, further=tuple(further))


@operator
def join(step_id: str, up: Batches, make: Callable[[], Join]) -> Batches:
    """Join feedback by query; a preference leaves when its window closes."""
    return op.stateful_batch("windows", up, lambda _: make())


@dataclass(frozen=True, slots=True)
class FeedbackFinaliser:
    """Ends refused messages; of the others the join has made the records."""

    way_out: WayOut

    def __call__(self, item: OutputRecord | Rejected) -> list[OutputRecord]:
        return self.way_out.refuse(item) if isinstance(item, Rejected) else [item]
