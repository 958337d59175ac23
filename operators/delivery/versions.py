"""The versions of the clients and of the broker's transactions with which the delivery was tried.

The protection of a transaction (see `fencing`) depends on what each client reports of its connections, and on what the
broker refuses. The fault harness ran with the versions below; with any other a warning is logged at start.
"""

from collections.abc import Mapping
from importlib.metadata import version
from typing import Final

import structlog

from operators.delivery.kafka_python.admin import Admin
from schemas.settings import KafkaSettings

log = structlog.stdlib.get_logger(__name__)

CLIENTS: Final[Mapping[str, tuple[str, str]]] = {
    "librdkafka": ("confluent-kafka", "2.16.1"),
    "kafka-python": ("kafka-python", "3.0.12"),
}
"""By client: its distribution, and the version of it that was tried."""

TRANSACTION_VERSIONS: Final = frozenset({0, 2})
"""Levels of the broker's feature `transaction.version` that were tried, on Kafka 4.1.1."""

_FEATURE: Final = "transaction.version"


def warn_of_untried(settings: KafkaSettings, client: str) -> None:
    """Log each version that was not tried. Raises FatalDelivery if the broker doesn't answer."""
    distribution, tried = CLIENTS[client]
    if (found := version(distribution)) != tried:
        log.warning("client version was not tried", client=distribution, version=found, tried=tried)
    with Admin(settings) as admin:
        feature = admin.describe_features().get(_FEATURE)
    if feature is None:
        log.warning("broker version was not tried: it is older than Kafka 4.0", feature=_FEATURE)
        return
    _, level = feature.get("finalized", (0, 0))
    if level not in TRANSACTION_VERSIONS:
        tried_levels = sorted(TRANSACTION_VERSIONS)
        log.warning("broker version was not tried", feature=_FEATURE, version=level, tried=tried_levels)
