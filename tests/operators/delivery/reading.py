"""A running intake on a scripted consumer, and what it has handed over."""

from collections.abc import Iterator
from contextlib import contextmanager

from operators.delivery.client import TopicPartition
from operators.delivery.ledger import Ledger
from operators.delivery.source import Intake
from operators.inflight import Message
from operators.wakeup import Wakeup
from tests.operators.delivery.scripted import WITHIN, ScriptedConsumer, until
from tests.operators.samples import terminal

FIRST, SECOND = TopicPartition("queries", 0), TopicPartition("queries", 1)


class Reader:
    """A running intake, and what it has handed over so far."""

    def __init__(self, consumer: ScriptedConsumer, most: int, drain_timeout: float) -> None:
        self.ledger = Ledger(most)
        self.wakeup = Wakeup()
        self.intake = Intake(consumer, self.ledger, "queries", self.wakeup, drain_timeout)
        self.messages: list[Message] = []

    def offsets(self, partition: TopicPartition = FIRST) -> list[int]:
        """What was read of a partition, after taking what there is."""
        for batch in self.intake.take():
            self.messages += batch
        return [message.origin.offset for message in self.messages if message.origin.partition == partition.partition]

    def answer(self, *offsets: int) -> None:
        """Commit the answers of these, under the epoch that they were last read in."""
        epochs = {message.origin.offset: message.origin.epoch for message in self.messages}
        answers = [terminal(offset, epoch=epochs[offset]) for offset in offsets]
        self.ledger.confirm(self.ledger.settle(answers, ScriptedConsumer()))

    def ended(self) -> bool:
        """Whether the source is at its end."""
        try:
            self.offsets()
        except StopIteration:
            return True
        return False


@contextmanager
def reading(consumer: ScriptedConsumer, *, most: int = 100, drain_timeout: float = WITHIN) -> Iterator[Reader]:
    """A running intake that has subscribed; closed at the end."""
    reader = Reader(consumer, most, drain_timeout)
    reader.intake.start()
    try:
        yield reader
    finally:
        reader.intake.close()
    assert consumer.closed


def polled(consumer: ScriptedConsumer, times: int = 3) -> None:
    """Wait until it polled some more times."""
    goal = consumer.polls + times
    until(lambda: consumer.polls >= goal)
