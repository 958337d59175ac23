"""The rule of `fencing`: which producer may begin a transaction, and what comes of one that may not."""

from collections.abc import Mapping, Sequence
from typing import Any

import pytest
import structlog

from operators.delivery.client import ProducerRecord, TopicPartition
from operators.delivery.producers import FencedProducer
from operators.delivery.tracker import Commit
from schemas.errors import FatalDelivery, RetriableDelivery


class Scripted:
    """A producer that retires when a test says so."""

    def __init__(self, reason: str | None = None) -> None:
        self.reason = reason
        self.delivered = 0
        self.closed = False

    def retirement(self) -> str | None:
        """The clients' answers, by the test."""
        return self.reason

    def deliver(self, records: Sequence[ProducerRecord], commits: Mapping[TopicPartition, Commit], group: Any) -> None:
        """Count it; fail if it has retired."""
        assert self.reason is None
        self.delivered += 1

    def close(self) -> None:
        """Note it."""
        self.closed = True


class Made:
    """The producers, made one after the other; an exception is raised in place of one."""

    def __init__(self, *script: Scripted | Exception) -> None:
        self.script = list(script)
        self.replaced = 0

    def __call__(self) -> Scripted:
        """The next."""
        made = self.script.pop(0)
        if isinstance(made, Exception):
            raise made
        return made

    def count(self) -> None:
        """One was replaced."""
        self.replaced += 1


def fenced(made: Made) -> FencedProducer:
    """One that makes its producers by the script."""
    return FencedProducer(made, "a-client", made.count)


def test_a_producer_that_has_not_retired_goes_on() -> None:
    """Undisturbed, all transactions are one producer's, and none is replaced."""
    only = Scripted()
    made = Made(only)
    producer = fenced(made)
    for _ in range(3):
        producer.prepare()
        producer.deliver([], {}, None)
    assert only.delivered == 3
    assert not only.closed
    assert made.replaced == 0


def test_a_retired_producer_begins_no_transaction() -> None:
    """It is closed before the next one is made, which delivers in its place."""
    first, second = Scripted(), Scripted()
    made = Made(first, second)
    producer = fenced(made)
    producer.prepare()
    producer.deliver([], {}, None)
    first.reason = "a connection broke"
    producer.prepare()
    producer.deliver([], {}, None)
    assert (first.delivered, second.delivered) == (1, 1)
    assert first.closed
    assert made.replaced == 1


def test_a_replacement_that_has_retired_is_replaced_in_its_turn() -> None:
    """No transaction is begun until a producer was initialised without a doubt."""
    last = Scripted()
    made = Made(Scripted("first"), Scripted("second"), Scripted("third"), last)
    producer = fenced(made)
    for reason in ("second", "third"):
        with pytest.raises(RetriableDelivery, match=reason):
            producer.prepare()
    producer.prepare()
    producer.deliver([], {}, None)
    assert last.delivered == 1
    assert made.replaced == 3


def test_while_the_broker_is_away_a_replacement_is_tried_again() -> None:
    """A producer that can't be initialised is none: the next `prepare` makes another, and counts only that."""
    away = RetriableDelivery("init_transactions: _TIMED_OUT")
    last = Scripted()
    made = Made(Scripted("a connection broke"), away, away, last)
    producer = fenced(made)
    for _ in range(2):
        with pytest.raises(RetriableDelivery, match="_TIMED_OUT"):
            producer.prepare()
    assert made.replaced == 0
    producer.prepare()
    producer.deliver([], {}, None)
    assert last.delivered == 1
    assert made.replaced == 1


def test_a_replacement_that_may_not_be_ends_the_process() -> None:
    """A refusal for good is not tried again."""
    producer = fenced(Made(Scripted("a connection broke"), FatalDelivery("init_transactions: not authorised")))
    with pytest.raises(FatalDelivery, match="not authorised"):
        producer.prepare()


def test_a_replacement_is_logged_with_its_reason() -> None:
    """One line says which client's producer was replaced, and why; a wait for the broker says nothing more."""
    made = Made(Scripted("a connection broke"), RetriableDelivery("away"), Scripted())
    producer = fenced(made)
    with structlog.testing.capture_logs() as lines:
        with pytest.raises(RetriableDelivery):
            producer.prepare()
        producer.prepare()
    assert lines == [
        {"event": "producer replaced", "client": "a-client", "reason": "a connection broke", "log_level": "warning"}
    ]


def test_closing_closes_the_one_there_is() -> None:
    """The present producer is closed; where the broker's absence left none, there is nothing to close."""
    first, second = Scripted(), Scripted("retired")
    alone = fenced(Made(first))
    alone.close()
    assert first.closed
    without = fenced(Made(second, RetriableDelivery("away")))
    with pytest.raises(RetriableDelivery):
        without.prepare()
    second.closed = False
    without.close()
    assert not second.closed
