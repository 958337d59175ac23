"""The ledger: who owns what, which answers still count, and how much may still be read."""

import threading
from collections import defaultdict, deque
from random import Random
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from operators.delivery.client import TopicPartition
from operators.delivery.ledger import Ledger, Transaction
from operators.delivery.output_record import OutputRecord
from operators.delivery.tracker import Commit, decode
from tests.operators.samples import output_record

FIRST, SECOND = TopicPartition("queries", 0), TopicPartition("queries", 1)
START = Commit(0, "")


class Member:
    """A membership whose generation the test sets, and which notes whether a revocation had to wait for its reading."""

    def __init__(self, ledger: Ledger | None = None) -> None:
        self.generation = 1
        self.revocation_waited = False
        self._ledger = ledger

    def __call__(self) -> int:
        """The generation."""
        if self._ledger is not None:
            revocation = threading.Thread(target=self._ledger.revoke, args=([FIRST],))
            revocation.start()
            revocation.join(0.05)
            self.revocation_waited = revocation.is_alive()
        return self.generation


def reading(ledger: Ledger, partition: TopicPartition, count: int) -> int:
    """Assign the partition and read its first `count` offsets; the epoch."""
    epoch = ledger.assign(partition, START)
    for offset in range(count):
        assert ledger.see(partition, offset) == epoch
    return epoch


def committable(ledger: Ledger, *answers: OutputRecord) -> Transaction:
    """Settle and confirm, as after a committed transaction."""
    transaction = ledger.committable(answers, Member())
    ledger.confirm(transaction)
    return transaction


class Assignments(RuleBasedStateMachine):
    """Two partitions come and go while queries are read, answered, and answered too late."""

    MOST = 20

    def __init__(self) -> None:
        super().__init__()
        self.ledger = Ledger(self.MOST)
        self.committed = {FIRST: START, SECOND: START}
        self.epochs: dict[TopicPartition, int] = {}
        self.next: dict[TopicPartition, int] = {}
        self.open: dict[TopicPartition, set[int]] = {}
        self.answers: list[OutputRecord] = []
        self.transaction: Transaction | None = None

    @rule(partition=st.sampled_from([FIRST, SECOND]))
    def assign(self, partition: TopicPartition) -> None:
        """An assignment begins at what was committed, with an epoch that there never was."""
        epoch = self.ledger.assign(partition, self.committed[partition])
        assert epoch > max(self.epochs.values(), default=0)
        self.epochs[partition] = epoch
        self.next[partition] = self.committed[partition].offset
        self.open[partition] = set()

    @rule(partitions=st.sets(st.sampled_from([FIRST, SECOND])))
    def revoke(self, partitions: set[TopicPartition]) -> None:
        """A revocation ends the epochs; revoking what isn't owned is harmless."""
        self.ledger.revoke(partitions)
        for partition in partitions:
            self.open.pop(partition, None)

    @rule(partition=st.sampled_from([FIRST, SECOND]), gap=st.integers(0, 2))
    def read(self, partition: TopicPartition, gap: int) -> None:
        """A partition that isn't owned isn't this member's to answer; an owned one carries its epoch."""
        offset = self.next.get(partition, 0) + gap
        if partition not in self.open:
            assert self.ledger.see(partition, offset) is None
            return
        if self.ledger.credit <= 0:
            return
        epoch = self.ledger.see(partition, offset)
        self.next[partition] = offset + 1
        if epoch is not None:
            assert epoch == self.epochs[partition]
            self.open[partition].add(offset)
            self.answers.append(output_record(offset, partition=partition.partition, epoch=epoch))

    @precondition(lambda self: self.answers)
    @rule(data=st.data())
    def commit(self, data: Any) -> None:
        """Only answers of running epochs are carried; the rest are counted as dropped, for good."""
        chosen = data.draw(st.lists(st.sampled_from(self.answers), unique=True, min_size=1))
        self.transaction = self.ledger.committable(chosen, Member())
        running = [answer for answer in chosen if self._runs(answer)]
        assert set(self.transaction.records) == set(running)
        assert len(self.transaction.dropped) == len(chosen) - len(running)
        self.answers = [answer for answer in self.answers if answer not in chosen]
        self.answers += [answer for answer in running if answer.origin.offset in self.open[self._at(answer)]]

    @precondition(lambda self: self.transaction)
    @rule()
    def confirm(self) -> None:
        """A confirmation reaches the running epochs only; one that comes after a revocation changes nothing."""
        assert self.transaction is not None
        self.ledger.confirm(self.transaction)
        for answer in self.transaction.records:
            if self._runs(answer):
                partition = self._at(answer)
                self.open[partition].discard(answer.origin.offset)
                self.committed[partition] = self.transaction.commits[partition]
        carried = set(self.transaction.records)
        self.answers = [answer for answer in self.answers if answer not in carried]
        self.transaction = None

    @invariant()
    def credit_is_exact(self) -> None:
        """In flight is what is read and not committed under running epochs; credit is the rest, never below 0."""
        in_flight = sum(map(len, self.open.values()))
        assert self.ledger.in_flight == in_flight
        assert self.ledger.credit == self.MOST - in_flight >= 0
        assert self.ledger.partitions == sorted(self.open)

    def _at(self, answer: OutputRecord) -> TopicPartition:
        return TopicPartition(answer.origin.topic, answer.origin.partition)

    def _runs(self, answer: OutputRecord) -> bool:
        partition = self._at(answer)
        return partition in self.open and self.epochs[partition] == answer.origin.epoch


Assignments.TestCase.settings = settings(max_examples=80, stateful_step_count=30)
test_credit_and_epochs_hold_in_any_order = Assignments.TestCase


def test_answers_of_a_revoked_partition_are_dropped() -> None:
    """After a revocation nothing read under it is carried or committed, and its credit is back."""
    ledger = Ledger(10)
    epoch = reading(ledger, FIRST, 3)
    ledger.revoke([FIRST])
    transaction = committable(ledger, output_record(0, epoch=epoch), output_record(1, epoch=epoch))
    assert (transaction.records, transaction.commits, len(transaction.dropped)) == ([], {}, 2)
    assert (ledger.in_flight, ledger.credit, ledger.partitions) == (0, 10, [])


@pytest.mark.parametrize("revoked", [True, False])
def test_answers_of_an_earlier_assignment_are_dropped(revoked: bool) -> None:
    """A partition that comes back has a new epoch: what was read before isn't carried, though the offset is open."""
    ledger = Ledger(10)
    old = reading(ledger, FIRST, 2)
    if revoked:
        ledger.revoke([FIRST])
    new = reading(ledger, FIRST, 2)
    assert new > old
    transaction = committable(ledger, output_record(0, epoch=old), output_record(1, epoch=new))
    assert [record.origin.epoch for record in transaction.records] == [new]
    assert len(transaction.dropped) == 1
    assert ledger.in_flight == 1


def test_a_confirmation_after_a_revocation_is_harmless() -> None:
    """The broker took a transaction, then the partition went and came back: its new epoch isn't touched."""
    ledger = Ledger(10)
    epoch = reading(ledger, FIRST, 2)
    transaction = ledger.committable([output_record(0, epoch=epoch)], Member())
    ledger.revoke([FIRST])
    ledger.confirm(transaction)
    assert (ledger.in_flight, ledger.credit) == (0, 10)
    again = reading(ledger, FIRST, 2)
    ledger.confirm(transaction)
    assert ledger.in_flight == 2
    assert committable(ledger, output_record(0, epoch=again), output_record(1, epoch=again)).commits == {
        FIRST: Commit(2, "")
    }


def test_one_partition_leaves_the_other() -> None:
    """A revocation drops only its partition's answers from a transaction."""
    ledger = Ledger(10)
    first, second = reading(ledger, FIRST, 2), reading(ledger, SECOND, 2)
    ledger.revoke([FIRST])
    transaction = committable(ledger, output_record(0, epoch=first), output_record(0, partition=1, epoch=second))
    assert transaction.commits == {SECOND: Commit(1, "")}
    assert ledger.in_flight == 1


def test_what_an_earlier_owner_answered_is_not_read_again() -> None:
    """Offsets that the commit's metadata names as done take no credit and are nobody's to answer."""
    ledger = Ledger(10)
    epoch = reading(ledger, FIRST, 3)
    committed = committable(ledger, output_record(1, epoch=epoch)).commits[FIRST]
    successor = Ledger(10)
    epoch = successor.assign(FIRST, committed)
    assert [successor.see(FIRST, offset) for offset in range(3)] == [epoch, None, epoch]
    assert successor.in_flight == 2


def test_a_settlement_that_is_not_confirmed_is_settled_again() -> None:
    """After an aborted transaction the same answers make the same settlement."""
    ledger = Ledger(10)
    epoch = reading(ledger, FIRST, 2)
    answers = [output_record(0, epoch=epoch), output_record(1, epoch=epoch)]
    assert ledger.committable(answers, Member()) == ledger.committable(answers, Member())
    assert ledger.in_flight == 2


def test_answers_over_the_metadata_limit_wait() -> None:
    """An offset that the broker's limit on metadata leaves no room for is handed back, and keeps its credit."""
    count = 8000
    ledger = Ledger(count)
    epoch = ledger.assign(FIRST, START)
    for offset in range(0, 40 * count, 40):
        assert ledger.see(FIRST, offset) == epoch
    # Gaps of 200 need two bytes each and a length: the last of them don't fit into 4,096 bytes of base64.
    answers = [output_record(offset, epoch=epoch) for offset in range(200, 200 * 1100, 200)]
    transaction = committable(ledger, *answers)
    assert transaction.waiting
    assert transaction.dropped == []
    assert [*transaction.records, *transaction.waiting] == answers
    assert ledger.in_flight == count - len(transaction.records)
    assert committable(ledger, output_record(0, epoch=epoch)).commits[FIRST].offset == 40


def test_the_limit_of_metadata_can_be_a_smaller_brokers() -> None:
    """No commit has more bytes than the settings allow, and every answer gets its turn."""
    count, limit = 2000, 256
    ledger = Ledger(count, limit)
    epoch = ledger.assign(FIRST, START)
    for offset in range(0, 300 * count, 300):
        assert ledger.see(FIRST, offset) == epoch
    answers = [output_record(offset, epoch=epoch) for offset in range(300, 300 * count, 300)]
    transaction = committable(ledger, *answers)
    assert transaction.waiting
    assert 0 < len(transaction.commits[FIRST].metadata) <= limit
    ledger.confirm(transaction)
    rest = committable(ledger, output_record(0, epoch=epoch), *transaction.waiting)
    assert rest.commits[FIRST].offset > 300 * len(transaction.records)
    assert len(rest.commits[FIRST].metadata) <= limit


def test_the_membership_is_read_with_the_choice() -> None:
    """The group's generation goes with the answers, and no revocation comes between the choice and its reading."""
    ledger = Ledger(10)
    member = Member(ledger)
    epoch = reading(ledger, FIRST, 1)
    member.generation = 7
    assert ledger.committable([output_record(0, epoch=epoch)], member).group == 7
    assert member.revocation_waited


def test_what_stands_is_what_was_confirmed_of_what_is_owned() -> None:
    """Each owned partition stands where the last confirmed commit left it, answers on their way left out."""
    ledger = Ledger(10)
    epoch = reading(ledger, FIRST, 3)
    reading(ledger, SECOND, 1)
    transaction = committable(ledger, output_record(0, epoch=epoch), output_record(2, epoch=epoch))
    ledger.committable([output_record(1, epoch=epoch)], Member())
    assert ledger.standing(Member()).commits == {FIRST: transaction.commits[FIRST], SECOND: START}
    ledger.revoke([FIRST])
    assert ledger.standing(Member()).commits == {SECOND: START}


def test_a_record_ends_further_messages_with_its_own() -> None:
    """They are committed with it, have no record of their own, and give their credit back."""
    ledger = Ledger(10)
    epoch = reading(ledger, FIRST, 6)
    transaction = committable(ledger, output_record(1, epoch=epoch, further=(3, 4)), output_record(0, epoch=epoch))
    assert [record.origin.offset for record in transaction.records] == [0, 1]
    assert decode(transaction.commits[FIRST]) == [3, 4]
    assert (transaction.commits[FIRST].offset, ledger.in_flight) == (2, 2)


def test_messages_that_end_together_wait_together() -> None:
    """None is done where the metadata have no room for all of them: else a new owner would read a part of them."""
    ledger = Ledger(2000, 64)
    epoch = reading(ledger, FIRST, 2000)
    long = output_record(10, epoch=epoch, further=tuple(range(12, 1000, 2)))
    short = output_record(1, epoch=epoch, further=(5,))
    transaction = committable(ledger, long, short)
    assert ([*transaction.records], [*transaction.waiting]) == ([short], [long])
    assert decode(transaction.commits[FIRST]) == [1, 5]
    assert ledger.in_flight == 1998
    rest = [output_record(offset, epoch=epoch) for offset in (0, *range(2, 5), *range(6, 10), *range(11, 1000, 2))]
    later = committable(ledger, *transaction.waiting, *rest)
    assert (later.commits[FIRST], later.waiting) == (Commit(1000, ""), [])


def test_thousands_of_open_windows_fit_into_the_metadata() -> None:
    """Of a partition with some 9,000 messages in open windows no preference waits for its commit.

    5 clicks a second, each after its query by an exponential delay of a minute on average, in windows of 30 minutes. By
    the same model 35,000 messages fit, and of 88,000 some wait for 2.5 minutes.
    """
    span, window, step, random = 5400, 1800, 5, Random(7)
    ledger, windows = Ledger(1 << 30), defaultdict[float, list[int]](list)
    epoch = ledger.assign(FIRST, START)
    queries = [random.uniform(0, span) for _ in range(span * 5 // 2)]
    delays = ((asked, random.expovariate(1 / 60)) for asked in queries for _ in range(random.randint(1, 3)))
    events = deque(sorted((asked + min(delay, window), asked) for asked, delay in delays))
    offset = most = 0
    for second in range(0, span + window + 2 * step, step):
        while events and events[0][0] <= second:
            ledger.see(FIRST, offset)
            windows[events.popleft()[1]].append(offset)
            offset += 1
        most = max(most, ledger.in_flight)
        closed = [windows.pop(asked) for asked in [*windows] if asked + window < second]
        answers = [output_record(first, epoch=epoch, further=tuple(further)) for first, *further in closed]
        assert not committable(ledger, *answers).waiting
    assert most > 8000
    assert ledger.in_flight == 0
