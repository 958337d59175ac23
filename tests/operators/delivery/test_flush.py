"""Before a partition goes, what is answered is made durable: at once, and for no longer than the group may wait."""

import threading
from collections.abc import Sequence

from operators.delivery.client import Outgoing
from schemas.errors import RetriableDelivery
from tests.operators.delivery.deliveries import delivering, read
from tests.operators.delivery.scripted import WITHIN, ScriptedProducer, until


def test_a_flush_does_not_gather() -> None:
    """What is queued is durable when a flush returns, though the interval would gather for an hour."""
    ledger, answers = read(3)
    producer = ScriptedProducer()
    with delivering(producer, ledger, interval=3600) as (delivery, _):
        delivery.put(answers[:1])
        until(lambda: len(producer.records) == 1)
        delivery.put(answers[1:])
        delivery.flush(WITHIN)
        assert len(producer.records) == 3
        assert ledger.in_flight == 0


def test_a_flush_waits_no_longer_than_it_may() -> None:
    """A broker that doesn't take what is queued holds a flush up for its patience only, and loses nothing."""
    ledger, answers = read(1)
    away = threading.Event()
    away.set()

    def busy(_: Sequence[Outgoing]) -> BaseException | None:
        return RetriableDelivery("away") if away.is_set() else None

    producer = ScriptedProducer(*[busy] * 1000)
    with delivering(producer, ledger) as (delivery, _):
        delivery.put(answers)
        delivery.flush(0.01)
        assert not producer.records
        away.clear()
        until(lambda: len(producer.records) == 1)


def test_a_flush_with_nothing_queued_returns() -> None:
    """Nothing to deliver is nothing to wait for, also before anything was."""
    ledger, _ = read(0)
    with delivering(ScriptedProducer(), ledger, interval=3600) as (delivery, _):
        delivery.flush(3600)
