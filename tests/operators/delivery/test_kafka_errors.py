"""Which errors of kafka-python are the broker's."""

import pytest
from kafka.errors import KafkaTimeoutError

from operators.delivery.kafka_python.connection import naming_failures
from schemas.errors import RetriableDelivery


def test_an_error_of_the_broker_is_retriable() -> None:
    """It is named, beside what was asked for."""
    with pytest.raises(RetriableDelivery, match="poll: KafkaTimeoutError"), naming_failures("poll"):
        raise KafkaTimeoutError


def test_a_defect_is_not_taken_for_the_broker() -> None:
    """A KeyError of our own rebalance listener, which a poll calls, ends the consumer loop and isn't retried."""
    with pytest.raises(KeyError), naming_failures("poll"):
        raise KeyError("a partition")
