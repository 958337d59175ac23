"""Taking partitions over: read from what is committed, never from a kept position, whatever a rebalance does."""

import threading

from operators.delivery.source import AHEAD
from operators.delivery.tracker import Commit, encode
from schemas.errors import RetriableDelivery
from tests.operators.delivery.reading import FIRST, SECOND, polled, reading
from tests.operators.delivery.scripted import ScriptedConsumer, until


def test_a_new_group_reads_from_the_beginning() -> None:
    """Without a commit reading starts at the first offset that the partition still holds."""
    consumer = ScriptedConsumer({FIRST: [5, 6, 9]})
    consumer.first = 5
    with reading(consumer) as reader:
        until(consumer.subscribed.is_set)
        consumer.assign(FIRST, at=6)
        until(lambda: reader.offsets() == [5, 6, 9])
    assert consumer.starts == [{FIRST: 5}]


def test_every_assignment_starts_at_what_is_committed() -> None:
    """A partition that comes back is read from its commit, though the consumer kept another position."""
    consumer = ScriptedConsumer({FIRST: range(10)})
    with reading(consumer) as reader:
        until(consumer.subscribed.is_set)
        consumer.assign(FIRST)
        until(lambda: reader.offsets() == list(range(10)))
        consumer.revoke(FIRST)
        consumer.commits[FIRST] = Commit(4, "")
        consumer.assign(FIRST, at=10)
        until(lambda: reader.offsets() == [*range(10), *range(4, 10)])
        assert consumer.starts == [{FIRST: 0}, {FIRST: 4}]
        assert reader.ledger.in_flight == 6


def test_what_the_commit_names_as_answered_is_skipped() -> None:
    """Answered offsets beyond the committed position aren't handed over again."""
    consumer = ScriptedConsumer({FIRST: range(6)})
    consumer.commits[FIRST] = encode(1, [2, 4])
    with reading(consumer) as reader:
        until(consumer.subscribed.is_set)
        consumer.assign(FIRST)
        until(lambda: reader.offsets() == [1, 3, 5])


def test_records_before_the_take_over_are_dropped_and_read_again() -> None:
    """A poll's records of a partition assigned during it are stale: they are dropped, and read after the seek."""
    consumer = ScriptedConsumer({FIRST: range(8)})
    consumer.commits[FIRST] = Commit(2, "")
    rebalanced = threading.Event()

    def rebalance() -> None:
        if not rebalanced.is_set():
            rebalanced.set()
            consumer.assign(FIRST, at=5)

    with reading(consumer) as reader:
        consumer.before_poll = rebalance
        until(lambda: reader.offsets() == list(range(2, 8)))
        assert reader.ledger.in_flight == 6


def test_a_revocation_while_the_commit_is_read_ends_the_take_over() -> None:
    """A partition that goes between `committed` and the take-over isn't taken over from what is out of date."""
    consumer = ScriptedConsumer({FIRST: range(8)})
    consumer.commits[FIRST] = Commit(2, "")

    def rebalance() -> None:
        consumer.in_committed = lambda: None
        consumer.revoke(FIRST)
        # Another member answers up to 6 and gives the partition back.
        consumer.commits[FIRST] = Commit(6, "")
        consumer.assign(FIRST)

    consumer.in_committed = rebalance
    with reading(consumer) as reader:
        until(consumer.subscribed.is_set)
        consumer.assign(FIRST)
        until(lambda: reader.offsets() == [6, 7])
        assert consumer.starts[-1] == {FIRST: 6}


def test_a_revocation_for_good_while_the_commit_is_read() -> None:
    """A partition that went while its commit was read is not owned, and the other one is read."""
    consumer = ScriptedConsumer({FIRST: range(3), SECOND: range(3)})
    consumer.in_committed = lambda: consumer.revoke(FIRST)
    with reading(consumer) as reader:
        until(consumer.subscribed.is_set)
        consumer.assign(FIRST, SECOND)
        until(lambda: reader.offsets(SECOND) == [0, 1, 2])
        assert reader.offsets(FIRST) == []
        assert reader.ledger.partitions == [SECOND]


def test_a_commit_that_cannot_be_read_yet_is_asked_again() -> None:
    """While the coordinator is away nothing is taken over; then everything is."""
    consumer = ScriptedConsumer({FIRST: range(3)})
    failures = [RetriableDelivery("coordinator"), RetriableDelivery("coordinator")]

    def fail() -> None:
        if failures:
            raise failures.pop()

    consumer.in_committed = fail
    with reading(consumer) as reader:
        until(consumer.subscribed.is_set)
        consumer.assign(FIRST)
        until(lambda: reader.offsets() == [0, 1, 2])
    assert consumer.starts == [{FIRST: 0}]


def test_a_topic_that_is_not_there_yet_is_waited_for() -> None:
    """Subscribing is tried again while it may be."""
    consumer = ScriptedConsumer({FIRST: range(2)})
    consumer.subscribe_failures = [RetriableDelivery("no such topic")]
    with reading(consumer) as reader:
        until(consumer.subscribed.is_set)
        consumer.assign(FIRST)
        until(lambda: reader.offsets() == [0, 1])


def test_a_partition_assigned_without_credit_is_paused_too() -> None:
    """Whatever a client does with a paused partition over a rebalance, one out of credit reads nothing."""
    consumer = ScriptedConsumer({FIRST: range(AHEAD + 4), SECOND: range(4)})
    with reading(consumer, most=4) as reader:
        until(consumer.subscribed.is_set)
        consumer.assign(FIRST)
        until(lambda: consumer.paused == {FIRST})
        consumer.assign(SECOND)
        until(lambda: consumer.paused == {FIRST, SECOND})
        polled(consumer)
        assert reader.offsets(SECOND) == []


def test_what_waits_for_credit_is_forgotten_with_its_partition() -> None:
    """Records fetched beyond the credit are never handed over under a later assignment: they are read again."""
    consumer = ScriptedConsumer({FIRST: range(6), SECOND: range(6)})
    with reading(consumer, most=2) as reader:
        until(consumer.subscribed.is_set)
        consumer.assign(FIRST)
        until(lambda: reader.offsets() == [0, 1])
        consumer.revoke(FIRST)
        consumer.commits[FIRST] = Commit(4, "")
        consumer.assign(FIRST, SECOND)
        until(lambda: reader.ledger.in_flight == 2)
        polled(consumer)
        while len(reader.offsets()) + len(reader.offsets(SECOND)) < 2 + 2 + 6:
            reader.answer_all()
        assert reader.offsets() == [0, 1, 4, 5]
        assert reader.offsets(SECOND) == list(range(6))


def test_what_waits_for_credit_is_dropped_when_its_partition_goes() -> None:
    """Records fetched beyond the credit of a partition that went for good are nobody's here."""
    consumer = ScriptedConsumer({FIRST: range(6), SECOND: range(2)})
    with reading(consumer, most=2) as reader:
        until(consumer.subscribed.is_set)
        consumer.assign(FIRST)
        until(lambda: reader.offsets() == [0, 1])
        consumer.revoke(FIRST)
        consumer.assign(SECOND)
        until(lambda: reader.offsets(SECOND) == [0, 1])
        assert reader.offsets() == [0, 1]
        assert reader.ledger.partitions == [SECOND]


def test_a_failed_poll_reads_again_what_it_passed_over() -> None:
    """A poll that fails after the client has moved its position loses nothing: reading goes on where it stopped."""
    consumer = ScriptedConsumer({FIRST: range(6)})
    failures = iter([RetriableDelivery("half a poll")])

    def fail_once() -> None:
        if consumer.places.get(FIRST) and (failure := next(failures, None)):
            consumer.places[FIRST] += 2
            raise failure

    consumer.log[FIRST] = [0, 1]
    consumer.before_poll = fail_once
    with reading(consumer, most=10) as reader:
        until(consumer.subscribed.is_set)
        consumer.assign(FIRST)
        until(lambda: reader.offsets() == [0, 1])
        consumer.log[FIRST] += [2, 3, 4, 5]
        until(lambda: reader.offsets() == list(range(6)))
    assert next(failures, None) is None


def test_what_is_answered_is_committed_before_a_partition_goes() -> None:
    """A revocation waits for the answers that there are, while the partition is still this member's."""
    consumer = ScriptedConsumer({FIRST: range(4)})
    with reading(consumer) as reader:
        until(consumer.subscribed.is_set)
        consumer.assign(FIRST)
        until(lambda: reader.offsets() == [0, 1, 2, 3])
        consumer.revoke(FIRST)
        assert reader.owned_at_flush == [[FIRST]]
        assert reader.ledger.partitions == []


def test_what_is_lost_is_not_waited_for() -> None:
    """A partition that the group has given away already ends at once: nothing could be committed for it."""
    consumer = ScriptedConsumer({FIRST: range(4)})
    with reading(consumer) as reader:
        until(consumer.subscribed.is_set)
        consumer.assign(FIRST)
        until(lambda: reader.offsets() == [0, 1, 2, 3])
        consumer.lose(FIRST)
        assert reader.owned_at_flush == []
        assert reader.ledger.partitions == []


def test_nothing_is_read_before_the_start_has_worked() -> None:
    """While a client can't be put where the commit says, what it brings from elsewhere isn't handed over."""
    consumer = ScriptedConsumer({FIRST: range(8)})
    consumer.commits[FIRST] = Commit(2, "")
    consumer.start_failures = [RetriableDelivery("the partition is gone"), RetriableDelivery("once more")]
    with reading(consumer) as reader:
        until(consumer.subscribed.is_set)
        consumer.assign(FIRST, at=5)
        until(lambda: reader.offsets() == list(range(2, 8)))
        assert consumer.starts == [{FIRST: 2}]
