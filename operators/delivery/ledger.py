"""The in-flight offsets of this member: its assigned partitions, their epochs, and the messages not yet committed.

The consumer loop's thread and the sink's thread share it under one lock. Rules:

- Each assignment of a partition starts an epoch; the records read under it carry it. An answer of an epoch that has
  ended is dropped: the partition's new owner reads the message again.
- The offsets of a transaction and the group membership for it are read in one critical section, so that the broker's
  fencing by generation applies to exactly these offsets.
- The credit is how many more messages may be read: `max_in_flight` less those read but not committed.
"""

import threading
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

from operators.delivery.client import GroupMetadata, TopicPartition
from operators.delivery.output_record import OutputRecord
from operators.delivery.tracker import METADATA_LIMIT, Commit, CommitPlan, OffsetTracker
from operators.wire.message import Origin


class Transaction(NamedTuple):
    """One transaction's content: the records to send, the offsets to commit, and the membership to commit under."""

    records: Sequence[OutputRecord]
    plans: Mapping[TopicPartition, tuple[int, CommitPlan]]
    group: GroupMetadata
    waiting: Sequence[OutputRecord]
    dropped: Sequence[OutputRecord]

    @property
    def moves(self) -> bool:
        """True if it makes a record durable, or moves a position."""
        return bool(self.records) or any(not plan.waiting for _, plan in self.plans.values())

    @property
    def commits(self) -> dict[TopicPartition, Commit]:
        """The offsets to commit."""
        return {partition: plan.commit for partition, (_, plan) in self.plans.items()}


Membership = Callable[[], GroupMetadata]
"""Gives the member's id and generation, as the broker fences by them."""


class _Assignment(NamedTuple):
    epoch: int
    tracker: OffsetTracker


class Ledger:
    """The assignments of one member of the group. Every method may be called from any thread."""

    def __init__(self, max_in_flight: int, metadata_limit: int = METADATA_LIMIT) -> None:
        """Take at most `max_in_flight` messages; a commit's metadata has at most `metadata_limit` bytes."""
        self._max_in_flight = max_in_flight
        self._metadata_limit = metadata_limit
        self._lock = threading.Lock()
        self._epoch = 0
        self._assignments: dict[TopicPartition, _Assignment] = {}
        self.in_flight = 0
        """Messages read under the present assignments and not committed."""

    @property
    def credit(self) -> int:
        """The number of further messages that may be read now."""
        return self._max_in_flight - self.in_flight

    @property
    def partitions(self) -> list[TopicPartition]:
        """The partitions assigned now."""
        with self._lock:
            return sorted(self._assignments)

    def next_offsets(self) -> dict[TopicPartition, int]:
        """The next offset to read, by partition."""
        with self._lock:
            return {partition: assignment.tracker.next_offset for partition, assignment in self._assignments.items()}

    def positions(self) -> dict[TopicPartition, int]:
        """The offset that is committed, by partition."""
        with self._lock:
            return {partition: assignment.tracker.position for partition, assignment in self._assignments.items()}

    def assign(self, partition: TopicPartition, committed: Commit) -> int:
        """Start an epoch of `partition` at the offset that its last owner committed, and return the epoch."""
        with self._lock:
            self._drop(partition)
            self._epoch += 1
            self._assignments[partition] = _Assignment(self._epoch, OffsetTracker(committed))
            return self._epoch

    def revoke(self, partitions: Iterable[TopicPartition]) -> None:
        """End the epochs of `partitions`: messages read under them can't be answered any more."""
        with self._lock:
            for partition in partitions:
                self._drop(partition)

    def see(self, partition: TopicPartition, offset: int) -> int | None:
        """Note that a record was read; its epoch, or None if this member must not answer it. Raises RepeatedOffset."""
        with self._lock:
            assignment = self._assignments.get(partition)
            if assignment is None or not assignment.tracker.see(offset):
                return None
            self.in_flight += 1
            return assignment.epoch

    def runs(self, origin: Origin) -> bool:
        """True while the assignment lasts under which the message was read."""
        running = self._assignments.get(TopicPartition(origin.topic, origin.partition))
        return running is not None and running.epoch == origin.epoch

    def pass_over(self, positions: Mapping[TopicPartition, int]) -> bool:
        """Note that all records below these positions were seen; True if a position can move on without an answer."""
        with self._lock:
            for partition, position in positions.items():
                if (assignment := self._assignments.get(partition)) is not None:
                    assignment.tracker.pass_over(position)
            return any(assignment.tracker.advances for assignment in self._assignments.values())

    def committable(self, answers: Sequence[OutputRecord], membership: Membership) -> Transaction:
        """The next transaction: answers of running epochs, the offsets they complete, positions that move on alone."""
        with self._lock:
            offsets: dict[TopicPartition, dict[int, list[OutputRecord]]] = defaultdict(dict)
            dropped = []
            further: dict[TopicPartition, dict[int, Sequence[int]]] = defaultdict(dict)
            for answer in answers:
                origin = answer.origin
                partition = TopicPartition(origin.topic, origin.partition)
                if (running := self._assignments.get(partition)) is not None and running.epoch == origin.epoch:
                    answered = offsets[partition]
                    answered.setdefault(origin.offset, []).append(answer)
                    if answer.further:
                        further[partition][origin.offset] = answer.further
                else:
                    dropped.append(answer)
            limit, plans = self._metadata_limit, dict[TopicPartition, tuple[int, CommitPlan]]()
            for partition, (epoch, tracker) in self._assignments.items():
                if partition in offsets or tracker.advances:
                    plan = tracker.plan_commit(offsets[partition], limit=limit, further=further[partition])
                    plans[partition] = epoch, plan
            # The further offsets of a record have none of their own.
            records = [
                each for of, (_, plan) in plans.items() for at in plan.accepted for each in offsets[of].get(at, ())
            ]
            waiting = [each for of, (_, plan) in plans.items() for at in plan.waiting for each in offsets[of][at]]
            return Transaction(records, plans, membership(), waiting, dropped)

    def standing(self, membership: Membership) -> Transaction:
        """The committed offsets of the partitions assigned now, to be committed once more."""
        with self._lock:
            plans = {
                partition: (assignment.epoch, assignment.tracker.plan_commit(()))
                for partition, assignment in self._assignments.items()
            }
            return Transaction((), plans, membership(), (), ())

    def confirm(self, transaction: Transaction) -> None:
        """Note that the broker has committed the transaction."""
        with self._lock:
            for partition, (epoch, plan) in transaction.plans.items():
                assignment = self._assignments.get(partition)
                if assignment is not None and assignment.epoch == epoch:
                    assignment.tracker.apply_commit(plan)
                    self.in_flight -= len(plan.accepted)

    def _drop(self, partition: TopicPartition) -> None:
        assignment = self._assignments.pop(partition, None)
        if assignment is not None:
            self.in_flight -= assignment.tracker.in_flight
