"""The producers of the two delivery modes: exactly once by transactions, or at least once by acknowledgements.

A transactional producer that may have left a request in transit is replaced before the next transaction.

The danger: a request that a client sent on a connection that then broke, and sent again on another, may still arrive.
If it ends a transaction (EndTxn) or carries its offsets (TxnOffsetCommit) and arrives inside a later transaction of the
same producer epoch, it ends that one early, or overwrites its offsets with older ones: queries are lost, or answered
twice. Brokers with KIP-890 prevent this for clients that speak its protocol; neither supported client does.

States of a transactional producer:
ready    -> ready (a transaction was committed, or aborted), retired, or over (FatalDelivery)
retired  -> closed, and its replacement is initialised
replaced -> ready, retired (its connection broke meanwhile), or over (fenced)

Rules:
- A producer *retires* when one of its connections broke, when a request of its got no answer, or when a failure left it
  unusable. Each client's module says how it detects that.
- A retired producer begins no transaction. Before the next one it is closed, and another with the same transactional id
  is initialised: the broker raises the epoch, and refuses the earlier producer's requests in transit.
- A replacement that has already retired is replaced too, before any transaction.
- While the broker is away, a replacement is tried again like a delivery; one try takes no longer than a transaction
  may. A producer that was not initialised is never used.
- Each replacement is one line in the log, and is counted.
- A producer that the broker calls fenced ends the process: another with its transactional id has started. So does an
  initialisation that its connection's end delayed until after a later one: whether the transaction that it cut off was
  committed isn't known here, and the process's successor reads it from the broker.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import structlog

from operators.delivery.client import (
    Commits,
    Consumer,
    GroupMetadata,
    PlainProducer,
    ProducerRecord,
    TransactionalProducer,
)
from schemas.errors import RetriableDelivery

log = structlog.stdlib.get_logger(__name__)


@dataclass(eq=False)
class FencedProducer:
    """Delivers by one producer that `make` gives after another, each fencing the one before. One thread calls it."""

    make: Callable[[], TransactionalProducer]
    client: str
    replaced: Callable[[], None]

    def __post_init__(self) -> None:
        self._producer: TransactionalProducer | None = self.make()
        self._reason = ""

    def prepare(self) -> None:
        """Replace the producer if it has retired.

        Raises RetriableDelivery, also if the replacement has retired already, and FatalDelivery.
        """
        if self._producer is not None and (reason := self._producer.retirement()) is not None:
            self._reason = reason
            self._producer.close()
            self._producer = None
        if self._producer is None:
            self._producer = self.make()
            log.warning("producer replaced", client=self.client, reason=self._reason)
            self.replaced()
            if (reason := self._producer.retirement()) is not None:
                raise RetriableDelivery(f"a producer retired while it was initialised: {reason}")

    def deliver(self, records: Sequence[ProducerRecord], commits: Commits, group: GroupMetadata) -> None:
        assert self._producer is not None, "prepare comes first"
        self._producer.deliver(records, commits, group)

    def conclude(self, commits: Commits, group: GroupMetadata) -> None:
        """Do nothing: the broker refuses late requests, or they find no transaction to end."""

    def close(self) -> None:
        if self._producer is not None:
            self._producer.close()


@dataclass(eq=False)
class AcknowledgedProducer:
    """Commits by `consumer` once `producer` has its acknowledgements: a crash in between answers twice."""

    producer: PlainProducer
    consumer: Consumer

    def prepare(self) -> None:
        """Do nothing: a plain producer goes on after any failure that isn't fatal."""

    def deliver(self, records: Sequence[ProducerRecord], commits: Commits, group: GroupMetadata) -> None:
        self.producer.send(records)
        self.consumer.commit(commits, group)

    def conclude(self, commits: Commits, group: GroupMetadata) -> None:
        """Commit once more: an earlier commit that arrived late may have gone over a later one."""
        self.consumer.commit(commits, group)

    def close(self) -> None:
        self.producer.close()
