"""A broker, a network and producers in memory: what Kafka's transactions promise without KIP-890's newer protocol.

One partition of queries, whose offsets are answered by records of the same number. What the broker does:

- InitProducerId raises the epoch of its transactional id and aborts what that one has open.
- A request of an older epoch is refused. So are offsets of an older generation of the group, and records or offsets
  that were not taken into a transaction that is open.
- The end of a transaction applies to whatever is open; where nothing is, the last end may be repeated, for clients
  send it again when its answer is lost.

That a request carries no number of its transaction is what makes a late one dangerous.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Protocol, TypeVar

from operators.delivery.client import ProducerRecord, TopicPartition
from operators.delivery.tracker import Commit
from schemas.errors import Fenced, RetriableDelivery

Said = TypeVar("Said")

PARTITION = TopicPartition("queries", 0)


class Answer(Enum):
    """A broker's answer."""

    OK = "ok"
    FENCED = "fenced"
    REFUSED = "refused"


class Fate(Enum):
    """The network's treatment of a request and its answer; all but the first break the connection."""

    DELIVERED = "delivered"
    LOST = "lost"  # the broker never has it
    UNANSWERED = "unanswered"  # the broker has it, the client no answer
    HELD = "held"  # the broker has it later
    REPEATED = "repeated"  # the broker has it twice, the second time later


@dataclass
class Open:
    """A transaction under way."""

    partitions: set[str] = field(default_factory=set)
    records: dict[int, int] = field(default_factory=dict)
    offset: int | None = None


@dataclass
class Broker:
    """Both coordinators and the two topics."""

    epochs: dict[str, int] = field(default_factory=dict)
    open: dict[str, Open] = field(default_factory=dict)
    ended: dict[str, bool] = field(default_factory=dict)
    """The end of an id's last transaction: committed or not."""
    generation: int = 0
    committed: int = 0
    results: list[int] = field(default_factory=list)

    def init(self, name: str) -> int:
        """Raise the epoch."""
        self.epochs[name] = self.epochs.get(name, -1) + 1
        self._end(name, committed=False)
        return self.epochs[name]

    def add(self, name: str, epoch: int, partition: str) -> Answer:
        """Take a partition into the transaction, and open it by that."""
        if epoch != self.epochs[name]:
            return Answer.FENCED
        self.open.setdefault(name, Open()).partitions.add(partition)
        return Answer.OK

    def produce(self, name: str, epoch: int, sequence: int, records: Sequence[int]) -> Answer:
        """Append records, numbered from `sequence`; those that are there already are not appended again."""
        if epoch != self.epochs[name]:
            return Answer.FENCED
        transaction = self.open.get(name)
        if transaction is None or "results" not in transaction.partitions:
            return Answer.REFUSED
        for number, record in enumerate(records, sequence):
            transaction.records.setdefault(number, record)
        return Answer.OK

    def commit_offset(self, name: str, epoch: int, generation: int, offset: int) -> Answer:
        """Put the group's offset into the transaction, over one that it has."""
        if epoch != self.epochs[name]:
            return Answer.FENCED
        transaction = self.open.get(name)
        if transaction is None or "offsets" not in transaction.partitions or generation != self.generation:
            return Answer.REFUSED
        transaction.offset = offset
        return Answer.OK

    def end(self, name: str, epoch: int, *, committed: bool) -> Answer:
        """End the transaction that is open."""
        if epoch != self.epochs[name]:
            return Answer.FENCED
        if name not in self.open:
            return Answer.OK if self.ended.get(name) == committed else Answer.REFUSED
        self._end(name, committed=committed)
        return Answer.OK

    def time_out(self) -> None:
        """Abort all that is open, as the broker does after a while."""
        for name in list(self.open):
            self.init(name)

    def _end(self, name: str, *, committed: bool) -> None:
        transaction = self.open.pop(name, None)
        if transaction is None:
            return
        self.ended[name] = committed
        if committed:
            self.results += transaction.records.values()
            if transaction.offset is not None:
                self.committed = transaction.offset


class Draw(Protocol):
    """The source of the network's treatments."""

    def fate(self) -> Fate:
        """The next request's."""
        ...

    def arrivals(self, late: int) -> list[int]:
        """Which of so many late requests arrive now."""
        ...


@dataclass
class Network:
    """The way to the broker."""

    broker: Broker
    draw: Draw
    late: list[Callable[[], object]] = field(default_factory=list)
    broken: int = 0

    def ask(self, request: Callable[[], Said]) -> Said:
        """The broker's answer to a request, sent again as often as its connection breaks."""
        while True:
            for index in sorted(self.draw.arrivals(len(self.late)), reverse=True):
                self.late.pop(index)()
            fate = self.draw.fate()
            if fate is Fate.DELIVERED:
                return request()
            self.broken += 1
            if fate in {Fate.UNANSWERED, Fate.REPEATED}:
                request()
            if fate in {Fate.HELD, Fate.REPEATED}:
                self.late.append(request)


class ModelProducer:
    """A client as ours are: it sends a request again until it is answered, and knows whether a connection broke.

    `records_first`: as kafka-python does, which sends its records before the offsets; librdkafka sends them at the end.
    """

    def __init__(self, network: Network, name: str, *, records_first: bool) -> None:
        self._network = network
        self._name = name
        self._records_first = records_first
        self._broken = network.broken
        self._sequence = 0
        self._epoch = network.ask(lambda: network.broker.init(name))

    def retirement(self) -> str | None:
        """Why it may begin no further transaction."""
        return "a connection broke" if self._network.broken > self._broken else None

    def deliver(self, records: Sequence[ProducerRecord], commits: Mapping[TopicPartition, Commit], group: Any) -> None:
        """One transaction."""
        broker, name, epoch = self._network.broker, self._name, self._epoch
        numbers = [int(record.value or b"") for record in records]
        sequence, self._sequence = self._sequence, self._sequence + len(numbers)
        offset = commits[PARTITION].offset

        def send() -> None:
            self._ask(lambda: broker.add(name, epoch, "results"))
            self._ask(lambda: broker.produce(name, epoch, sequence, numbers))

        def commit() -> None:
            self._ask(lambda: broker.add(name, epoch, "offsets"))
            self._ask(lambda: broker.commit_offset(name, epoch, group, offset))

        for step in (send, commit) if self._records_first else (commit, send):
            step()
        self._ask(lambda: broker.end(name, epoch, committed=True))

    def close(self) -> None:
        """Nothing is held."""

    def _ask(self, request: Callable[[], Answer]) -> None:
        answer = self._network.ask(request)
        if answer is Answer.FENCED:
            raise Fenced(self._name)
        if answer is Answer.REFUSED:
            broker, name, epoch = self._network.broker, self._name, self._epoch
            if self._network.ask(lambda: broker.end(name, epoch, committed=False)) is Answer.OK:
                raise RetriableDelivery("refused")
            raise Fenced(self._name)
