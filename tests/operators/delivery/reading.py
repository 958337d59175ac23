"""A running intake, and what it has handed over."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from operators.delivery.client import Consumer, TopicPartition
from operators.delivery.ledger import Ledger
from operators.delivery.source import ConsumerLoop
from operators.runtime.event_loop import Wakeup
from operators.wire.message import Message
from tests.operators.delivery.scripted import WITHIN, ScriptedConsumer, until
from tests.operators.samples import METRICS, output_record

FIRST, SECOND = TopicPartition("queries", 0), TopicPartition("queries", 1)


class Reader:
    """A running intake, and what it has handed over so far."""

    def __init__(self, consumer: Consumer, most: int, drain_timeout: float) -> None:
        self.ledger = Ledger(most)
        self.wakeup = Wakeup()
        self.consumer_loop = ConsumerLoop(consumer, self.ledger, "queries", self.wakeup, drain_timeout, METRICS)
        self.messages: list[Message] = []
        self._answered = 0
        self.owned_at_flush: list[list[TopicPartition]] = []

    def flush(self, timeout: float) -> None:
        """The delivery's commit before a partition goes: of the answers that there are."""
        assert timeout > 0
        self.owned_at_flush.append(self.ledger.partitions)
        self.answer_all()

    def advance(self) -> None:
        """Commit the positions for which no answer comes."""
        self._commit([])

    def offsets(self, partition: TopicPartition = FIRST) -> list[int]:
        """The messages read of a partition, after taking what there is."""
        self.messages += self.consumer_loop.take()
        return [message.origin.offset for message in self.messages if message.origin.partition == partition.partition]

    def answer(self, *offsets: int) -> None:
        """Commit the answers of these of the first partition."""
        self._commit([message for message in self.messages if message.origin.offset in offsets])

    def answer_all(self) -> None:
        """Commit the answers of everything that is handed over and not yet answered."""
        answered, self._answered = self._answered, len(self.messages)
        self._commit(self.messages[answered:])

    def _commit(self, messages: Sequence[Message]) -> None:
        origins = [message.origin for message in messages]
        answers = [output_record(o.offset, partition=o.partition, epoch=o.epoch) for o in origins]
        self.ledger.confirm(self.ledger.committable(answers, ScriptedConsumer().group_metadata))

    def ended(self) -> bool:
        """True if the source is at its end."""
        try:
            self.offsets()
        except StopIteration:
            return True
        return False


@contextmanager
def reading(consumer: ScriptedConsumer, *, most: int = 100, drain_timeout: float = WITHIN) -> Iterator[Reader]:
    """A running intake that has subscribed; closed at the end."""
    reader = Reader(consumer, most, drain_timeout)
    reader.consumer_loop.start(reader.flush, reader.advance)
    try:
        yield reader
    finally:
        reader.consumer_loop.close()
    assert consumer.closed


def polled(consumer: ScriptedConsumer, times: int = 3) -> None:
    """Wait until it polled some more times."""
    goal = consumer.polls + times
    until(lambda: consumer.polls >= goal)
