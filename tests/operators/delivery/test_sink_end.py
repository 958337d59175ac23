"""The sink's end: what cannot be delivered any more holds nothing up."""

import pytest

from schemas.errors import RetriableDelivery
from tests.operators.delivery.deliveries import delivering, read
from tests.operators.delivery.scripted import ScriptedProducer


@pytest.mark.parametrize("unready", [False, True], ids=["refused", "not ready"])
def test_what_cannot_be_delivered_does_not_hold_the_end_up(monkeypatch: pytest.MonkeyPatch, unready: bool) -> None:
    """Records that are left when the drain is over are tried once more and then given up: their messages were not
    committed, and are read again.
    """
    ledger, answers = read(2)

    def away(*_: object) -> None:
        raise RetriableDelivery("the broker is away")

    producer = ScriptedProducer()
    monkeypatch.setattr(producer, "prepare" if unready else "deliver", away)
    with delivering(producer, ledger) as (delivery, failures):
        delivery.enqueue(answers)
    assert ledger.in_flight == 2
    assert producer.taken == []
    assert failures == []
