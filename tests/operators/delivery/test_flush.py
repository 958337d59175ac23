"""Before a partition goes, what is answered is made durable: at once, and for no longer than the group may wait."""

import threading
from collections.abc import Sequence

from operators.delivery.client import ProducerRecord
from operators.delivery.tracker import Commit
from schemas.errors import RetriableDelivery
from tests.operators.delivery.deliveries import PARTITION, delivering, read
from tests.operators.delivery.scripted import WITHIN, ScriptedProducer, until


def test_a_flush_does_not_gather() -> None:
    """A queued record is durable when a flush returns, though the interval would gather for an hour."""
    ledger, answers = read(3)
    producer = ScriptedProducer()
    with delivering(producer, ledger, interval=3600) as (delivery, _):
        delivery.enqueue(answers[:1])
        until(lambda: len(producer.records) == 1)
        delivery.enqueue(answers[1:])
        delivery.flush(WITHIN)
        assert len(producer.records) == 3
        assert ledger.in_flight == 0


def test_a_flush_waits_no_longer_than_it_may() -> None:
    """A broker that doesn't take what is queued holds a flush up for its time-out only, and loses nothing."""
    ledger, answers = read(1)
    away = threading.Event()
    away.set()

    def busy(_: Sequence[ProducerRecord]) -> BaseException | None:
        return RetriableDelivery("away") if away.is_set() else None

    producer = ScriptedProducer(*[busy] * 1000)
    with delivering(producer, ledger) as (delivery, _):
        delivery.enqueue(answers)
        delivery.flush(0.01)
        assert not producer.records
        away.clear()
        until(lambda: len(producer.records) == 1)


def test_a_flush_with_nothing_queued_returns() -> None:
    """Nothing to deliver is nothing to wait for, also before anything was."""
    ledger, _ = read(0)
    with delivering(ScriptedProducer(), ledger, interval=3600) as (delivery, _):
        delivery.flush(3600)


def test_a_flush_behind_the_end_returns() -> None:
    """A client takes its partitions away when it is closed, and nothing is delivered any more by then."""
    ledger, _ = read(0)
    with delivering(ScriptedProducer(), ledger) as (delivery, _):
        delivery.close()
        delivery.flush(3600)


def test_a_flush_has_the_last_word() -> None:
    """After what is queued, the producer is told all that stands of the partitions that are owned, each time anew."""
    ledger, answers = read(3)
    producer = ScriptedProducer()
    with delivering(producer, ledger, interval=3600) as (delivery, _):
        delivery.enqueue(answers)
        delivery.flush(WITHIN)
        assert producer.concluded == [{PARTITION: Commit(3, "")}]
        ledger.revoke([PARTITION])
        delivery.flush(WITHIN)
        assert producer.concluded[1:] == [{}]


def test_the_end_has_the_last_word() -> None:
    """Closed with answers queued, delivery concludes once they are durable."""
    ledger, answers = read(2)
    producer = ScriptedProducer()
    with delivering(producer, ledger, interval=3600) as (delivery, _):
        delivery.enqueue(answers)
    assert producer.concluded == [{PARTITION: Commit(2, "")}]


def test_a_last_word_that_is_not_taken_holds_nothing_up() -> None:
    """A delivery whose membership is over gets no word: what was delivered is delivered, and closing ends."""
    ledger, answers = read(1)
    producer = ScriptedProducer()
    producer.conclusion = RetriableDelivery("the membership is over")
    with delivering(producer, ledger) as (delivery, failures):
        delivery.enqueue(answers)
        delivery.flush(WITHIN)
        assert len(producer.records) == 1
    assert len(producer.concluded) == 2
    assert not failures
