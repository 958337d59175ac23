"""The protocol between delivery and a Kafka client, so that a client's faults stay in one package.

Errors: RetriableDelivery (abort, then try again) and FatalDelivery (the process must end); nothing else is raised for
what a broker does. The flows deliver as members of a group. The commands read and write without a group and without
transactions: by a TopicReader and a PlainProducer.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Final, NamedTuple, Protocol

from operators.delivery.error_codes import RefusalCode, refusal_code
from operators.delivery.tracker import Commit
from operators.wire.message import Headers
from schemas.errors import DeliveryError, RetriableDelivery
from schemas.headers import MAX_HEADERS
from schemas.settings import KafkaSettings

GroupMetadata = Any
"""A client's own description of its membership; only handed back to the same client."""

CALL_TIMEOUT: Final = 3.0
"""Seconds for a request that a broker answers immediately, and kafka-python's shortest poll while a group forms."""

METADATA_AGE: Final = 30.0
"""Seconds in which a consumer finds partitions that were added; by default it takes either client 5 minutes."""

TAIL_METADATA_AGE: Final = 1.0
"""Seconds in which a tail finds added partitions. Records that are written there earlier wait until then."""

ANY_BATCH: Final = 16_384
"""Bytes of a batch that any topic takes; a larger record is a batch of its own."""


class TopicPartition(NamedTuple):
    """A partition of a topic."""

    topic: str
    partition: int


class Ends(NamedTuple):
    """The ends of a partition: the last `stable` offset, up to which committed records can be read, and the offset
    after the `last` record. They differ while a transaction is open.
    """

    stable: int
    last: int


Commits = Mapping[TopicPartition, Commit]
"""The offset of each partition, with its metadata, that the group is to go on at."""

READ_HEADERS: Final = MAX_HEADERS + 32
"""Headers of a record that are read at most: a dead letter has those of its message, and its own."""


@dataclass(frozen=True, slots=True)
class ConsumerRecord:
    """One record as a consumer read it; `timestamp` in seconds.

    It has no `headers` if they can't be read: there are more than READ_HEADERS, or a name isn't UTF-8.
    """

    partition: TopicPartition
    offset: int
    key: bytes | None
    value: bytes | None
    headers: Headers | None
    timestamp: float


@dataclass(frozen=True, slots=True)
class ProducerRecord:
    """A record to produce; without a timestamp it has the time of sending, without a partition that of its key."""

    topic: str
    key: bytes | None
    value: bytes | None
    headers: Headers = ()
    timestamp_ms: int | None = None
    partition: int | None = None


class RecordRefused(Exception):
    """The broker or the client refuses one of these records for itself; nothing of their transaction was committed.

    Of several, which a client sent in one batch, any may be the one.
    """

    def __init__(self, records: Sequence[ProducerRecord], refusal: RefusalCode) -> None:
        super().__init__(f"{len(records)} records refused: {refusal.name}")
        self.records = records
        self.refusal = refusal


def find_refusal(failures: Iterable[tuple[ProducerRecord, int | None]]) -> RecordRefused | None:
    """The refusal among records and the codes by which each failed; None if none was refused for itself.

    Of several refusals the first: the records of the others are refused again.
    """
    refusals = [(record, found) for record, code in failures if (found := refusal_code(code)) is not None]
    if not refusals:
        return None
    first = refusals[0][1]
    return RecordRefused([record for record, each in refusals if each is first], first)


def unknown_topic(topic: str) -> RetriableDelivery:
    """The error while a topic isn't known."""
    return RetriableDelivery(f"topic {topic} doesn't exist; `rankstream topics` creates it")


Partitions = Iterable[TopicPartition]


class Rebalance(NamedTuple):
    """Callbacks of a consumer, on any of its threads: partitions are `assigned`; are about to be `revoked`, while the
    member may still commit under its generation; or were `lost` already. The consumer waits: none may take a second.
    """

    assigned: Callable[[Partitions], None]
    revoked: Callable[[Partitions], None]
    lost: Callable[[Partitions], None]


class Consumer(Protocol):
    """A member of a consumer group. One thread calls everything but `group_metadata`, `commit` and `stable`."""

    def subscribe(self, topic: str, rebalance: Rebalance) -> None:
        """Join the group. Raises RetriableDelivery while the topic isn't known."""

    def poll(self, timeout: float) -> list[ConsumerRecord]:
        """All records that have been fetched, each partition's in order; waits `timeout` seconds for the first.

        Raises RetriableDelivery.
        """

    def committed(self, partitions: Sequence[TopicPartition]) -> dict[TopicPartition, Commit | None]:
        """The commit of each partition, metadata included; None where the group has committed nothing."""

    def beginning(self, partition: TopicPartition) -> int:
        """The first offset that the partition still holds."""

    def ends(self, partitions: Sequence[TopicPartition]) -> dict[TopicPartition, Ends]:
        """The ends of those partitions of which the client has heard them; asks nobody."""

    def positions(self, partitions: Sequence[TopicPartition]) -> dict[TopicPartition, int]:
        """Positions of partitions read since their start: all below was polled, or isn't for readers, as the marks of
        transactions; asks nobody. The start of others, or nothing.
        """

    def start(self, starts: Mapping[TopicPartition, int]) -> None:
        """Read these partitions, and no others, from these offsets.

        Raises RetriableDelivery, also if one was taken away meanwhile.
        """

    def fetch(self, partitions: Sequence[TopicPartition], *, wanted: bool) -> None:
        """Fetch these partitions, or no longer; the member stays in the group."""

    def stable(self) -> bool:
        """True if the member has joined and no rebalance is under way."""

    def group_metadata(self) -> GroupMetadata:
        """The membership under which offsets are committed; from any thread."""

    def commit(self, commits: Commits, group: GroupMetadata) -> None:
        """Commit offsets outside a transaction, under that membership; from any thread.

        Raises RetriableDelivery, also if the membership is over, and FatalDelivery for a broker's code that ends.
        """

    def close(self) -> None:
        """Leave the group."""


class Producer(Protocol):
    """Makes records and offsets durable together. One thread calls it."""

    def prepare(self) -> None:
        """Be ready for the next `deliver`.

        Raises RetriableDelivery while the broker doesn't answer, and FatalDelivery.
        """

    def deliver(self, records: Sequence[ProducerRecord], commits: Commits, group: GroupMetadata) -> None:
        """Produce the records and commit the offsets; when it returns, both are done.

        Raises RecordRefused, RetriableDelivery or FatalDelivery; in a transaction neither is done then.
        """

    def conclude(self, commits: Commits, group: GroupMetadata) -> None:
        """Before partitions go: see to it that no earlier commit of theirs is the last. Raises RetriableDelivery."""

    def close(self) -> None:
        """Release connections; requests under way are lost."""


class TransactionalProducer(Protocol):
    """A producer in transactions, from its initialisation until it retires: see `producers`. One thread calls it."""

    def retirement(self) -> str | None:
        """Why it may begin no further transaction; None while it may."""

    def deliver(self, records: Sequence[ProducerRecord], commits: Commits, group: GroupMetadata) -> None:
        """Do what `Producer.deliver` promises, in one transaction. Raises Fenced, too."""

    def close(self) -> None:
        """Release connections; requests under way are lost."""


class PlainProducer(Protocol):
    """An idempotent producer whose records stand alone. One thread calls it."""

    def send(self, records: Sequence[ProducerRecord]) -> None:
        """Produce the records; when it returns, all in-sync replicas have each of them.

        Raises RecordRefused, RetriableDelivery or FatalDelivery: the broker may have the other records then. After the
        first two it can be called again.
        """

    def close(self) -> None:
        """Release connections; requests under way are lost."""


class TopicReader(ABC):
    """A topic, read without joining a group: by one consumer that reads, and one that asks, which has `call_timeout`
    seconds for each request. One thread calls it.
    """

    def __init__(self, settings: KafkaSettings, topic: str, call_timeout: float, *, from_end: bool) -> None:
        """Begin to read, once there are the consumers. Raises RetriableDelivery, also if the topic isn't known."""
        self.topic = topic
        self._call_timeout = call_timeout
        self._positions: dict[int, int] = {}
        try:
            self._take_in_added(call_timeout, from_end=from_end)
        except DeliveryError as error:
            self.close()
            raise type(error)(f"{settings.bootstrap_servers}: {error}") from error

    def positions(self) -> dict[int, int]:
        """Positions by partition: everything below was handed out, or isn't for readers, as the marks of transactions.

        Before the first poll, where it begins.
        """
        return dict(self._positions)

    def ends(self, timeout: float | None = None) -> dict[int, int]:
        """Ends by partition, asked of the broker now: the last stable offsets, for a reader of committed records, up to
        which they can be read; else the offsets after the last records.

        Partitions that were added are among them after TAIL_METADATA_AGE, and are read from then on. Raises
        RetriableDelivery, also if there is no answer within `timeout` seconds.
        """
        timeout = self._call_timeout if timeout is None else timeout
        self._take_in_added(timeout)
        return self._offsets(self._positions, timeout, from_end=True)

    def committed(self) -> dict[int, int]:
        """Committed offsets by partition: those of the settings' group, or else the first that there are.

        Raises RetriableDelivery.
        """
        return self._offsets(self._positions, self._call_timeout, from_end=False) | self._committed()

    def _take_in_added(self, timeout: float, *, from_end: bool = False) -> None:
        known = self._partitions(timeout)
        if not known:
            raise unknown_topic(self.topic)
        if added := known - self._positions.keys():
            starts = self._offsets(added, timeout, from_end=from_end)
            self._positions |= starts
            self._read_from(starts)

    @abstractmethod
    def poll(self, timeout: float) -> list[ConsumerRecord]:
        """Fetched records; waits `timeout` s for the first. Raises RetriableDelivery: some may be lost then."""

    @abstractmethod
    def close(self) -> None:
        """Release connections."""

    @abstractmethod
    def seek(self, partition: int, offset: int) -> None:
        """Read on from this offset of a partition, or from the first one behind it. Raises RetriableDelivery."""

    @abstractmethod
    def _partitions(self, timeout: float) -> set[int]:
        """The topic's partitions, at most TAIL_METADATA_AGE old; none if it isn't known."""

    @abstractmethod
    def _offsets(self, partitions: Iterable[int], timeout: float, *, from_end: bool) -> dict[int, int]:
        """The first offsets of these partitions, or their ends."""

    @abstractmethod
    def _committed(self) -> dict[int, int]: ...

    @abstractmethod
    def _read_from(self, starts: Mapping[int, int]) -> None:
        """Read added partitions from these offsets on."""


class KafkaClient(ABC):
    """Makes consumers and producers of one Kafka client."""

    name: ClassVar[str]
    """Its name in `kafka.client`."""

    transaction_interval: ClassVar[float]
    """Seconds from one transaction's begin to the next's."""

    def __init__(self, settings: KafkaSettings) -> None:
        self._settings = settings

    def tail(self, topic: str) -> TopicReader:
        """A reader of a whole topic, uncommitted records included: an open transaction would hide the records
        that others committed after it began. Raises RetriableDelivery while the topic isn't known.
        """
        # Nothing that is asked of it takes long: a connection that doesn't answer is given up early.
        call_timeout = min(self._settings.request_timeout, CALL_TIMEOUT)
        return self._reader(topic, "read_uncommitted", call_timeout, from_end=False)

    def bounded_reader(self, topic: str, *, from_end: bool = False) -> TopicReader:
        """A reader of committed records from a topic's beginning, or from its present end.

        Raises RetriableDelivery while the topic isn't known or the broker doesn't answer.
        """
        return self._reader(topic, "read_committed", self._settings.request_timeout, from_end=from_end)

    @abstractmethod
    def consumer(self, *, headers_decide: bool = False) -> Consumer:
        """A member of the group. `headers_decide`: a record that seems to have no header must have none."""

    @abstractmethod
    def transactional_producer(self, transactional_id: str, max_batch: int) -> TransactionalProducer:
        """A producer in transactions, of batches of at most `max_batch` bytes; fences the predecessor of that id.

        It is initialised on return. Raises RetriableDelivery while the broker doesn't answer, and FatalDelivery.
        """

    @abstractmethod
    def plain_producer(self, max_batch: int = ANY_BATCH) -> PlainProducer:
        """A producer without transactions, of batches of at most `max_batch` bytes. Raises DeliveryError."""

    @abstractmethod
    def _reader(self, topic: str, isolation: str, call_timeout: float, *, from_end: bool) -> TopicReader: ...
