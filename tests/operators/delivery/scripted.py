"""A consumer and a producer that do what a test tells them: the faults that a broker can't be asked for."""

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from operators.delivery.client import ConsumerRecord, Ends, ProducerRecord, Rebalance, TopicPartition
from operators.delivery.tracker import Commit

WITHIN = 60.0
"""Seconds in which what a test waits for must come."""


def until(holds: Callable[[], object]) -> None:
    """Wait until something holds; AssertionError if it doesn't in time."""
    end = time.monotonic() + WITHIN
    while not holds():
        assert time.monotonic() < end, "it never came to hold"
        time.sleep(0.001)


class ScriptedProducer:
    """Each `deliver` does the next of its script: None takes it, an exception is raised; after the script it takes."""

    def __init__(
        self, *script: BaseException | Callable[[Sequence[ProducerRecord]], BaseException | None] | None
    ) -> None:
        self.script = list(script)
        self.taken: list[tuple[list[ProducerRecord], dict[TopicPartition, Commit], Any]] = []
        self.concluded: list[dict[TopicPartition, Commit]] = []
        self.conclusion: BaseException | None = None
        self.unprepared: list[BaseException] = []
        self.tries = 0
        self.began: list[float] = []
        self.closed = False

    def prepare(self) -> None:
        """Raise the next of `unprepared`, while there is one."""
        if self.unprepared:
            raise self.unprepared.pop(0)

    def deliver(self, records: Sequence[ProducerRecord], commits: Mapping[TopicPartition, Commit], group: Any) -> None:
        """Follow the script."""
        self.began.append(time.monotonic())
        self.tries += 1
        step = self.script.pop(0) if self.script else None
        if callable(step):
            step = step(records)
        if step is not None:
            raise step
        self.taken.append((list(records), dict(commits), group))

    def conclude(self, commits: Mapping[TopicPartition, Commit], group: Any) -> None:
        """Note it, and raise what the test says."""
        self.concluded.append(dict(commits))
        if self.conclusion is not None:
            raise self.conclusion

    def close(self) -> None:
        """Note it."""
        self.closed = True

    @property
    def records(self) -> list[ProducerRecord]:
        """Every record taken, in order."""
        return [record for records, _, _ in self.taken for record in records]


class ScriptedConsumer:
    """A group of one member over partitions in memory; a test rebalances it as it likes, from any thread.

    `before_poll` and `in_committed` run on the polling thread, where a broker's faults and rebalances happen.
    """

    def __init__(self, log: Mapping[TopicPartition, Sequence[int]] | None = None) -> None:
        self.value = b"value"
        self.log = {partition: list(offsets) for partition, offsets in (log or {}).items()}
        self.commits: dict[TopicPartition, Commit | None] = {}
        self.first = 0
        self.unstable = 0
        self.places: dict[TopicPartition, int] = {}
        self.paused: set[TopicPartition] = set()
        self.starts: list[dict[TopicPartition, int]] = []
        self.start_failures: list[BaseException] = []
        self.polls = 0
        self.failure: BaseException | None = None
        self.subscribe_failures: list[BaseException] = []
        self.before_poll: Callable[[], None] = lambda: None
        self.in_committed: Callable[[], None] = lambda: None
        self.closed = False
        self.generation = 0
        self.subscribed = threading.Event()
        self._rebalance = Rebalance(lambda _: None, lambda _: None, lambda _: None)

    def assign(self, *partitions: TopicPartition, at: int = 0) -> None:
        """Rebalance: these come too, with a fetch position that nobody should trust."""
        self.generation += 1
        for partition in partitions:
            self.places[partition] = at
        self._rebalance.assigned(partitions)

    def revoke(self, *partitions: TopicPartition) -> None:
        """Rebalance: these go."""
        self.generation += 1
        for partition in partitions:
            self.places.pop(partition, None)
        self._rebalance.revoked(partitions)

    def lose(self, *partitions: TopicPartition) -> None:
        """The group went on without this member: these are gone."""
        self.generation = -1
        for partition in partitions:
            self.places.pop(partition, None)
        self._rebalance.lost(partitions)

    def subscribe(self, topic: str, rebalance: Rebalance) -> None:
        """Keep the callbacks; a test assigns."""
        if self.subscribe_failures:
            raise self.subscribe_failures.pop(0)
        self._rebalance = rebalance
        self.subscribed.set()

    def poll(self, timeout: float) -> list[ConsumerRecord]:
        """All further records of the partitions that aren't paused."""
        self.before_poll()
        if self.failure is not None:
            raise self.failure
        self.polls += 1
        records: list[ConsumerRecord] = []
        for partition, position in list(self.places.items()):
            if partition in self.paused:
                continue
            for offset in [offset for offset in self.log.get(partition, []) if offset >= position]:
                records.append(ConsumerRecord(partition, offset, b"key", self.value, (), time.time()))
                self.places[partition] = offset + 1
        return records

    def committed(self, partitions: Sequence[TopicPartition]) -> dict[TopicPartition, Commit | None]:
        """The commits, by the test."""
        found = {partition: self.commits.get(partition) for partition in partitions}
        self.in_committed()
        return found

    def beginning(self, partition: TopicPartition) -> int:
        """The same for every partition."""
        return self.first

    def ends(self, partitions: Sequence[TopicPartition]) -> dict[TopicPartition, Ends]:
        """Behind the last record of the log, `unstable` records before it."""
        lasts = {each: max(self.log[each]) + 1 for each in partitions if self.log.get(each)}
        return {each: Ends(last - self.unstable, last) for each, last in lasts.items()}

    def positions(self, partitions: Sequence[TopicPartition]) -> dict[TopicPartition, int]:
        """The positions from which it reads on."""
        return {each: self.places[each] for each in partitions if each in self.places}

    def start(self, starts: Mapping[TopicPartition, int]) -> None:
        """Note it, and read on from there."""
        if self.start_failures:
            raise self.start_failures.pop(0)
        self.starts.append(dict(starts))
        for partition, offset in starts.items():
            if partition in self.places:
                self.places[partition] = offset

    def fetch(self, partitions: Sequence[TopicPartition], *, wanted: bool) -> None:
        """No more of these, or these again."""
        self.paused = self.paused - set(partitions) if wanted else self.paused | set(partitions)

    def stable(self) -> bool:
        """True if it has joined."""
        return self.subscribed.is_set()

    def group_metadata(self) -> int:
        """The generation."""
        return self.generation

    def commit(self, commits: Mapping[TopicPartition, Commit], group: Any) -> None:
        """Take it."""
        self.commits.update(commits)

    def close(self) -> None:
        """Note it."""
        self.closed = True
