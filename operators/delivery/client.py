"""The small protocol between delivery and a Kafka client, so that a client's faults stay in one module.

Errors: RetriableDelivery (abort, then try again) and FatalDelivery (the process must end); nothing else is raised for
what a broker does.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

from operators.delivery.tracker import Commit

GroupMetadata = Any
"""A client's own description of its membership; only handed back to the same client."""


class TopicPartition(NamedTuple):
    """A partition of a topic."""

    topic: str
    partition: int


@dataclass(frozen=True, slots=True)
class Record:
    """One record as a consumer read it; `timestamp` in seconds."""

    partition: TopicPartition
    offset: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes], ...]
    timestamp: float


class RecordTooLarge(Exception):
    """The broker or the client refuses these records for their size; nothing of their transaction was committed."""

    def __init__(self, records: Sequence["Outgoing"]) -> None:
        super().__init__(f"{len(records)} records too large")
        self.records = records


class Outgoing(Protocol):
    """A record to produce."""

    @property
    def topic(self) -> str:
        """Where it goes."""
        ...

    @property
    def key(self) -> bytes | None:
        """Its key."""
        ...

    @property
    def value(self) -> bytes | None:
        """Its value."""
        ...

    @property
    def headers(self) -> Sequence[tuple[str, bytes]]:
        """Its headers."""
        ...

    @property
    def timestamp_ms(self) -> int | None:
        """Its timestamp, or None for the time of sending."""
        ...


class Consumer(Protocol):
    """A member of a consumer group. One thread calls everything but `group_metadata`."""

    def subscribe(
        self,
        topic: str,
        assigned: Callable[[Iterable[TopicPartition]], None],
        revoked: Callable[[Iterable[TopicPartition]], None],
    ) -> None:
        """Join the group. The two callbacks run on any thread and must not block."""
        ...

    def poll(self, timeout: float) -> list[Record]:
        """All records that have been fetched, each partition's in order; waits `timeout` seconds for the first.

        Raises RetriableDelivery.
        """
        ...

    def committed(self, partitions: Sequence[TopicPartition]) -> dict[TopicPartition, Commit | None]:
        """What the group has committed, metadata included."""
        ...

    def beginning(self, partition: TopicPartition) -> int:
        """The first offset that the partition still holds."""
        ...

    def seek(self, partition: TopicPartition, offset: int) -> None:
        """Read on from `offset`."""
        ...

    def pause(self, partitions: Sequence[TopicPartition]) -> None:
        """Stop fetching, stay in the group."""
        ...

    def resume(self, partitions: Sequence[TopicPartition]) -> None:
        """Fetch again."""
        ...

    def stable(self) -> bool:
        """Whether the member has joined and no rebalance is under way."""
        ...

    def group_metadata(self) -> GroupMetadata:
        """The membership under which offsets are committed; from any thread."""
        ...

    def commit(self, commits: Mapping[TopicPartition, Commit]) -> None:
        """Commit offsets outside a transaction; from any thread. Raises RetriableDelivery."""
        ...

    def close(self) -> None:
        """Leave the group."""
        ...


class Producer(Protocol):
    """What makes records and offsets durable together. One thread calls it."""

    def deliver(
        self, records: Sequence[Outgoing], commits: Mapping[TopicPartition, Commit], group: GroupMetadata
    ) -> None:
        """Produce the records and commit the offsets; when it returns, both are done.

        Raises RecordTooLarge, RetriableDelivery or FatalDelivery; in a transaction neither is done then.
        """
        ...

    def close(self) -> None:
        """Release connections; what is under way is lost."""
        ...
