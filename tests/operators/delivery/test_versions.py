"""At start, versions that the delivery was not tried with are warned of, and those that it was tried with are not."""

from collections.abc import Iterator

import pytest
from structlog.testing import capture_logs

from bench.kafka.broker import Broker
from operators.delivery import broker
from schemas.settings import KafkaSettings


@pytest.fixture(scope="module")
def older(broker_tools: None) -> Iterator[Broker]:
    """A broker whose transactions are those from before KIP-890."""
    with Broker(transaction_version=0) as broker:
        yield broker


def warnings(settings: KafkaSettings, client: str) -> list[dict[str, object]]:
    """The log at start."""
    with capture_logs() as lines:
        broker.require_features(settings, client, "exactly_once")
    return [dict(line) for line in lines]


@pytest.mark.parametrize("client", broker.CLIENTS)
def test_what_the_requirements_pin_was_tried(settings: KafkaSettings, client: str) -> None:
    """The client versions that are installed, and the tests' broker, are warned of by nothing."""
    assert warnings(settings, client) == []


def test_a_broker_of_older_transactions_was_tried(older: Broker) -> None:
    """A cluster that has no level of the feature speaks its level 0."""
    assert warnings(KafkaSettings(bootstrap_servers=older.bootstrap), "librdkafka") == []


def test_another_client_version_is_warned_of(settings: KafkaSettings, monkeypatch: pytest.MonkeyPatch) -> None:
    """The line names the distribution, its version and the one that was tried."""
    monkeypatch.setattr(broker, "CLIENTS", {"librdkafka": ("confluent-kafka", "1.0")})
    [line] = warnings(settings, "librdkafka")
    assert (line["client"], line["tried"]) == ("confluent-kafka", "1.0")
    assert line["log_level"] == "warning"


def test_another_transaction_version_is_warned_of(settings: KafkaSettings, monkeypatch: pytest.MonkeyPatch) -> None:
    """The line names the broker's feature, its level and those that were tried."""
    monkeypatch.setattr(broker, "TRANSACTION_VERSIONS", frozenset({1}))
    [line] = warnings(settings, "librdkafka")
    assert (line["feature"], line["version"], line["tried"]) == ("transaction.version", 2, [1])
