"""Reading and writing without a group and without transactions: what the commands talk to a broker by.

Errors are those of `client`.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Protocol

from operators.delivery.client import ProducerRecord, Tail

ANY_BATCH: Final = 16_384
"""Bytes of a batch that any topic takes; a larger record is a batch of its own."""


@dataclass(frozen=True, slots=True)
class PlainRecord:
    """A record to produce; no timestamp means the time of sending."""

    topic: str
    key: bytes | None
    value: bytes
    headers: tuple[tuple[str, bytes], ...] = ()
    timestamp_ms: int | None = None


class PlainProducer(Protocol):
    """An idempotent producer whose records stand alone. One thread calls it."""

    def send(self, records: Sequence[ProducerRecord]) -> None:
        """Produce the records; when it returns, all in-sync replicas have each of them.

        Raises RecordRefused, RetriableDelivery or FatalDelivery: the broker may have the other records then. After the
        first two it can be called again.
        """
        ...

    def close(self) -> None:
        """Release connections; what is under way is lost."""
        ...


class BoundedReader(Tail, Protocol):
    """A tail of committed records only, which has the settings' `request_timeout` for all that it asks."""

    def ends(self, timeout: float | None = None) -> dict[int, int]:
        """By partition: the offset up to which committed records can be read now. Raises RetriableDelivery."""
        ...

    def committed(self) -> dict[int, int]:
        """By partition: the offset that the settings' group has committed, or else the first that there is.

        Raises RetriableDelivery.
        """
        ...

    def seek(self, partition: int, offset: int) -> None:
        """Read on from this offset of a partition, or from the first one behind it. Raises RetriableDelivery."""
        ...
