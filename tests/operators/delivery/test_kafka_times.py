"""The bounds of Kafka's times: whatever is within them, both clients take."""

from collections.abc import Iterator
from itertools import product
from typing import Final

import pytest
from pydantic import ValidationError

from schemas.settings import KafkaSettings
from tests.operators.delivery.members import Make

TIMES: Final = ("session_timeout", "heartbeat_interval", "max_poll_interval", "transaction_timeout", "request_timeout")

BROKERS_MOST: Final = 900.0
"""Seconds of a transaction that a broker grants by default."""


def corners() -> Iterator[dict[str, float]]:
    """Each combination of the least and the greatest values in which a heartbeat comes in time."""
    keys = KafkaSettings.model_json_schema()["properties"]
    bounds = {name: (keys[name]["minimum"], keys[name].get("maximum", 9.9)) for name in TIMES}
    bounds["transaction_timeout"] = (bounds["transaction_timeout"][0], BROKERS_MOST)
    for values in product(*bounds.values()):
        times = dict(zip(TIMES, values, strict=True))
        if times["heartbeat_interval"] < times["session_timeout"] <= times["max_poll_interval"]:
            yield times


@pytest.mark.slow
def test_both_clients_take_all_times_within_the_bounds(make: Make, settings: KafkaSettings) -> None:
    """Consumers, readers and producers begin with each combination of the least and greatest values."""
    for times in corners():
        client = make(KafkaSettings(**{**dict(settings), **times}))
        client.consumer().close()
        client.bounded_reader(settings.topics.queries).close()
        client.plain_producer().close()
        client.transactional_producer("replica", 1).close()


@pytest.mark.parametrize(
    ("times", "said"),
    [
        ({"request_timeout": 1}, "request_timeout"),
        ({"request_timeout": 600}, "request_timeout"),
        ({"transaction_timeout": 2}, "transaction_timeout"),
        ({"transaction_timeout": 0.5}, "transaction_timeout"),
        ({"heartbeat_interval": 0.0001}, "heartbeat_interval"),
        ({"max_poll_interval": 5}, "max_poll_interval"),
        ({"heartbeat_interval": 6}, "heartbeat_interval must be less than session_timeout"),
        ({"session_timeout": 8, "max_poll_interval": 7}, "max_poll_interval must be session_timeout at least"),
    ],
)
def test_times_that_a_client_refuses_are_no_settings(times: dict[str, float], said: str) -> None:
    """A time that librdkafka or kafka-python does not take is refused with its name."""
    with pytest.raises(ValidationError, match=said):
        KafkaSettings.model_validate(times)
